"""Persistent counters of ended attempts by outcome and reason.

They are stored in the database because counters in a process are lost when it restarts.
"""

import datetime

from django.db import transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from agent.protocol.messages import EndReason
from tasks.lifecycle.outcomes import ENDS
from tasks.models import Attempt, EndTally, Mark
from tasks.states import Outcome

COUNTED = "attempts_counted"
#: count only ends that are this old: `ended_at` is set some time before the commit
SETTLED = datetime.timedelta(seconds=15)
_BEGINNING = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@transaction.atomic
def count_outcomes() -> int:
    """Add the attempts that ended since the last call to the counters; return how many.

    A `Mark` stores the time until which ends are counted. Of two concurrent callers, the one whose
    UPDATE of the mark matches does the work.
    """
    mark, _ = Mark.objects.get_or_create(name=COUNTED, defaults={"at": _BEGINNING})
    until = timezone.now() - SETTLED
    if not Mark.objects.filter(pk=mark.pk, at=mark.at).update(at=until):
        return 0
    ended = Attempt.objects.filter(ended_at__gt=mark.at, ended_at__lte=until).order_by()
    good = Count("pk", filter=Q(end_reason=EndReason.EXITED.value, exit_code=0))
    counted = 0
    counts = ended.values_list("end_reason").annotate(Count("pk"), good=good)
    for reason, total, succeeded in counts:
        counted += total
        _add(Outcome.SUCCEEDED, reason, succeeded)
        _add(ENDS[reason].outcome, reason, total - succeeded)
    return counted


def _add(outcome: str, reason: str, number: int) -> None:
    if number:
        row, _ = EndTally.objects.get_or_create(outcome=outcome, reason=reason)
        EndTally.objects.filter(pk=row.pk).update(number=F("number") + number)


def counted_until() -> datetime.datetime | None:
    """Return the time until which ends are counted: `SETTLED` ago while the sweep works."""
    return Mark.objects.filter(pk=COUNTED).values_list("at", flat=True).first()
