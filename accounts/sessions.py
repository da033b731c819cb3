"""List and end a user's login sessions, and the access of programs."""

from allauth.usersessions.models import UserSession
from django.db import transaction
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from accounts.tokens.access import usable_tokens
from accounts.tokens.refresh import revoke_refresh_tokens
from webprofile.errors import DomainError

#: address of a session whose client address is unknown: "unspecified" (RFC 1122)
NO_ADDRESS = "0.0.0.0"


def sessions_of(user: User) -> list[UserSession]:
    """Return the valid sessions of a user, the most recently used first."""
    live: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(live, key=lambda session: session.last_seen_at, reverse=True)


@transaction.atomic
def end_sessions(user: User, *, keep: str = "") -> int:
    """End all sessions of a user, except the one with the key `keep`; return how many.

    This includes token pairs of programs that logged in. The caller writes the audit entry.
    """
    # not `sessions_of`, which lacks sessions invalidated by a new password or a deactivation
    ended = 0
    for session in UserSession.objects.filter(user=user).exclude(session_key=keep):
        ended += session.exists()
        session.end()
    return ended + revoke_refresh_tokens(user)


@transaction.atomic
def end_access(user: User, *, keep: str = "") -> dict[str, int]:
    """End a user's access tokens, and all sessions except the one with the key `keep`.

    Returns the numbers of ended sessions and tokens, without zeros; the caller audits them.
    """
    ended = {
        "sessions": end_sessions(user, keep=keep),
        "access_tokens": usable_tokens(user).update(revoked_at=timezone.now()),
    }
    return {kind: count for kind, count in ended.items() if count}


@transaction.atomic
def end_user_sessions(user: User, *, by: User | None, keep: str = "") -> int:
    """End and audit all sessions and access tokens of a user; return how many there were."""
    ended = end_access(user, keep=keep)
    if ended:
        record_audit_entry("user.end_sessions", user, by=by, before=ended)
    return sum(ended.values())


@transaction.atomic
def end_session(user: User, *, session_id: int, by: User | None) -> None:
    """End one session of a user. Raises DomainError session_unknown."""
    session = UserSession.objects.filter(user=user, pk=session_id).first()
    if session is None:
        raise DomainError("session_unknown", status=404)
    address = {} if session.ip == NO_ADDRESS else {"address": session.ip}
    record_audit_entry("user.end_session", user, by=by, before=address)
    session.end()
