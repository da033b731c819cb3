"""Share links to results and comparisons: create, revoke, and resolve them for readers."""

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from profiles.comparison.candidates import chosen_profiles, problem_of
from profiles.exports.provenance import title_of
from profiles.models import Profile, ProfileUpload, Share
from profiles.selectors import measurement_of, profile_of, visible_profiles
from tasks.models import Task
from tasks.selectors import listed_tasks
from webprofile.errors import DomainError

PREFIX = "mws_"
#: 43 characters of base64, 256 random bits
_PATTERN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
_PREFIX_LENGTH = len(PREFIX) + 6
#: lifetime of a link by default, if the site allows it
DAYS = 30
#: maximum number of links of a user, without revoked and expired ones
SHARES_LIMIT = 200


@dataclass(frozen=True)
class SharedResult:
    """What a link shows.

    task: None for an import and a comparison
    profiles: of a comparison in its order; of a task without profiled passes none
    """

    task: Task | None
    profiles: Sequence[Profile]

    @property
    def title(self) -> str:
        titles = [title_of(profile) for profile in self.profiles]
        if self.task is not None:
            titles = [self.task.title or self.task.model_name]
        return " / ".join(titles)


@dataclass(frozen=True)
class ShareReader:
    """The principal of a request with a link. It is not a user, and may read one result only."""

    share: Share
    result: SharedResult

    def may_read(self, part: str) -> bool:
        """Whether the link shows this value of `Share.Part`."""
        return part in self.share.parts


def shared_result(creator: User, kind: str, ids: Sequence[int]) -> SharedResult | None:
    """Return a result of the creator that has figures; None if there is no such result.

    Administrators, who see all results, can share their own only.
    """
    if kind != Share.Kind.COMPARISON and len(ids) != 1:
        return None
    if kind == Share.Kind.TASK:
        task = listed_tasks(creator).filter(owner=creator, pk__in=ids).first()
        profile = profile_of(task) if task else None
        if task is None or task.is_live or not (profile or measurement_of(task)):
            return None
        return SharedResult(task, [profile] if profile else [])
    if kind == Share.Kind.IMPORT:
        of_import = {"upload__owner": creator, "upload__state": ProfileUpload.State.READY}
        profiles = list(visible_profiles(creator).filter(**of_import, pk__in=ids))
        return SharedResult(None, profiles) if profiles else None
    compared = None if problem_of(ids) else chosen_profiles(creator, ids)
    if compared is None or any(profile.owner != creator for profile in compared):
        return None
    return SharedResult(None, compared)


def usual_days() -> int:
    """Return how long a link is valid unless its creator chooses another time."""
    limit: int = settings.SHARE_DAYS_LIMIT
    return min(DAYS, limit)


@transaction.atomic
def create_share(
    creator: User,
    *,
    kind: str,
    ids: Sequence[int],
    parts: Iterable[str],
    days: int | None = None,
) -> tuple[Share, str]:
    """Create a link; return it with its token, which is not stored and cannot be shown again.

    kind, ids, parts: as in `Share`
    days: 1 to the setting `SHARE_DAYS_LIMIT`; None for `usual_days`

    Raises DomainError: share_off, not_found, share_parts, share_days, share_limit.
    """
    if not settings.SHARE_DAYS_LIMIT:
        raise DomainError("share_off", status=403)
    result = shared_result(creator, kind, ids)
    if result is None:
        raise DomainError("not_found", status=404)
    chosen = [part for part in Share.Part.values if part in set(parts)]
    if set(parts) - set(chosen):
        raise DomainError("share_parts", field="parts")
    # an import has neither log nor model
    chosen = chosen if result.task is not None else []
    if days is None:
        days = usual_days()
    if not 1 <= days <= settings.SHARE_DAYS_LIMIT:
        raise DomainError("share_days", field="days", limit=settings.SHARE_DAYS_LIMIT)
    # lock the creator's row, so that concurrent requests cannot exceed the limit
    User.objects.select_for_update().get(pk=creator.pk)
    now = timezone.now()
    oldest = now - timedelta(days=settings.SHARE_DAYS_LIMIT)
    usable = Share.objects.filter(
        creator=creator, revoked_at=None, expires_at__gt=now, created_at__gt=oldest
    )
    if usable.count() >= SHARES_LIMIT:
        raise DomainError("share_limit", limit=SHARES_LIMIT)
    token = PREFIX + secrets.token_urlsafe(32)
    share = Share.objects.create(
        creator=creator,
        kind=kind,
        ids=list(ids),
        name=result.title[:300],
        parts=chosen,
        prefix=token[:_PREFIX_LENGTH],
        sha256=_digest(token),
        expires_at=now + timedelta(days=days),
    )
    numbers = ", ".join(map(str, ids))
    after = {"result": f"{kind} {numbers}", "scopes": chosen, "days": days}
    record_audit_entry("share.create", share, by=creator, after=after)
    return share, token


@transaction.atomic
def revoke_share(share: Share, *, by: User | None) -> bool:
    """Revoke a link immediately; return False if it was already revoked."""
    live = Share.objects.filter(pk=share.pk, revoked_at=None)
    if not live.update(revoked_at=timezone.now()):
        return False
    record_audit_entry("share.revoke", share, by=by)
    return True


def visible_shares(user: User) -> QuerySet[Share]:
    """Return the links that a user created, newest first; the links of all for administrators."""
    shares = Share.objects.select_related("creator")
    return shares if user.is_staff else shares.filter(creator=user)


def find_share(token: str) -> Share | None:
    """Return the link with this token, also one that has ended; None if there is none.

    The token is looked up by its SHA-256, so that the response time reveals nothing about it.
    """
    if not settings.SHARE_DAYS_LIMIT or not _PATTERN.fullmatch(token):
        return None
    return Share.objects.select_related("creator").filter(sha256=_digest(token)).first()


def open_share(share: Share) -> ShareReader:
    """Return the reader of a link, with the rights that its creator has now.

    Raises DomainError share_ended if it was revoked or has expired, if its creator is deactivated,
    or if the result is gone.
    """
    result = None
    if not share.has_ended and share.creator.is_active:
        result = shared_result(share.creator, share.kind, share.ids)
    if result is None:
        raise DomainError("share_ended", status=410)
    return ShareReader(share, result)


@transaction.atomic
def note_view(share: Share) -> None:
    """Count a view of the page; the first one is recorded in the audit log."""
    now, rows = timezone.now(), Share.objects.filter(pk=share.pk)
    if rows.filter(first_viewed_at=None).update(first_viewed_at=now):
        record_audit_entry("share.view", share, by=None)
    rows.update(views=F("views") + 1, last_viewed_at=now)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
