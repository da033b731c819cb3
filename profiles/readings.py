"""Long readings in the background, imports and rebuilds of derived data, in turns by user.

The rows are the queue. A message only says that something waits: the actor that receives it claims
the next reading by its own choice (`claimed_reading`), one at a time for each user, beginning with
the user who has waited longest since the end of the last one. So a user who imports many files
delays only these files. An actor that is killed keeps its user's turn until `CLAIM` has passed.
"""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from profiles.imports.uploads import CLAIM, waiting_imports
from profiles.models import Profile, ProfileUpload, ReadingTurn
from webprofile.background import enqueue

log = structlog.get_logger()

#: a reading that could begin, but that no actor began within this time, has lost its message
RESEND_AFTER = datetime.timedelta(seconds=20)
#: the owner of a profile
_OWNER = Coalesce("upload__owner", "attempt__task__owner")
_LONG_AGO = datetime.datetime.min.replace(tzinfo=datetime.UTC)


def waiting_owners() -> list[int]:
    """The users who wait for a reading that may begin now, in the order of their turns."""
    now = timezone.now()
    owners = {*waiting_imports().values_list("owner", flat=True)}
    owners |= {*_rebuilds().values_list(_OWNER, flat=True)}
    turns = ReadingTurn.objects.filter(user__in=owners).values_list("user", "until")
    until = dict.fromkeys(owners, _LONG_AGO) | dict(turns)
    return sorted((user for user in owners if until[user] <= now), key=lambda u: (until[u], u))


@contextmanager
def claimed_reading() -> Iterator[ProfileUpload | Profile | None]:
    """Claim the next reading while the context is active: an import, or a profile to rebuild.

    None if nothing can be read now.
    """
    for owner in waiting_owners():
        if _claim(owner):
            try:
                yield _next_of(owner)
            finally:
                ReadingTurn.objects.filter(user=owner).update(until=timezone.now())
            return
    yield None


def sweep_readings() -> None:
    """Send messages again for readings whose message may be lost.

    Stops for this round at the first message that the broker does not accept.
    """
    for owner in waiting_owners():
        row = _next_of(owner)
        now = timezone.now()
        try:
            if isinstance(row, Profile) and _is_lost(row.rebuild_hinted_at, now):
                enqueue("rebuild_profile", row.pk, queue="profiles")
                Profile.objects.filter(pk=row.pk).update(rebuild_hinted_at=now)
            elif isinstance(row, ProfileUpload) and _is_lost(row.hinted_at, now):
                enqueue("build_opened", row.pk, queue="profiles")
                ProfileUpload.objects.filter(pk=row.pk).update(hinted_at=now)
        except Exception:
            log.exception("reading_message_not_sent", row=repr(row))
            return


def _is_lost(hinted_at: datetime.datetime | None, now: datetime.datetime) -> bool:
    return hinted_at is not None and hinted_at < now - RESEND_AFTER


def _claim(owner: int) -> bool:
    """Take the user's turn; False if another actor has it. The UPDATE decides between two."""
    now = timezone.now()
    ReadingTurn.objects.get_or_create(user_id=owner, defaults={"until": now})
    turn = ReadingTurn.objects.filter(user=owner, until__lte=now)
    return bool(turn.update(until=now + CLAIM))


def _next_of(owner: int) -> ProfileUpload | Profile | None:
    # somebody waits for the page of a profile to rebuild; imports are the bulk
    owned = _rebuilds().filter(Q(upload__owner=owner) | Q(attempt__task__owner=owner))
    rebuild = owned.order_by("rebuild_hinted_at", "pk").first()
    return rebuild or waiting_imports().filter(owner=owner).first()


def _rebuilds() -> QuerySet[Profile]:
    return Profile.objects.filter(rebuild_hinted_at__isnull=False)
