"""How attempts ended, counted for good: what a process counts is gone with it."""

import datetime

from django.db import transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from agent.protocol import EndReason
from tasks.lifecycle.outcomes import ENDS, End
from tasks.models import Attempt, EndTally, Mark
from tasks.states import Outcome

COUNTED = "attempts_counted"
#: an end is written some moments before it is committed
SETTLED = datetime.timedelta(seconds=15)
_BEGINNING = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@transaction.atomic
def count_outcomes() -> int:
    """Add the attempts that ended since the last time; returns how many.

    The mark says until when they are counted; of two that count at once the row count decides.
    """
    mark, _ = Mark.objects.get_or_create(name=COUNTED, defaults={"at": _BEGINNING})
    until = timezone.now() - SETTLED
    if not Mark.objects.filter(pk=mark.pk, at=mark.at).update(at=until):
        return 0
    ended = Attempt.objects.filter(ended_at__gt=mark.at, ended_at__lte=until).order_by()
    good = Count("pk", filter=Q(end_reason=EndReason.EXITED.value, exit_code=0))
    counted = 0
    for reason, every, well in ended.values_list("end_reason").annotate(Count("pk"), good=good):
        counted += every
        _add(Outcome.SUCCEEDED, reason, well)
        # older versions wrote other reasons
        _add(ENDS.get(reason, End()).outcome, reason, every - well)
    return counted


def _add(outcome: str, reason: str, number: int) -> None:
    if number:
        row, _ = EndTally.objects.get_or_create(outcome=outcome, reason=reason)
        EndTally.objects.filter(pk=row.pk).update(number=F("number") + number)


def counted_until() -> datetime.datetime | None:
    """Until when ends are counted; a working sweep keeps it `SETTLED` behind the clock."""
    return Mark.objects.filter(pk=COUNTED).values_list("at", flat=True).first()
