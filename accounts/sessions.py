"""The sessions of a user: where they are logged in, and their ends."""

from allauth.usersessions.models import UserSession
from django.db import transaction

from accounts.audit import record_audit_entry
from accounts.models import User
from accounts.tokens.refresh import refresh_tokens_revoke
from webprofile.errors import DomainError

#: of a session whose client has none that is known: "unspecified", of no machine (RFC 1122)
NO_ADDRESS = "0.0.0.0"


def sessions_of(user: User) -> list[UserSession]:
    """Sessions that still let somebody in, the last used first."""
    live: list[UserSession] = UserSession.objects.purge_and_list(user)
    return sorted(live, key=lambda session: session.last_seen_at, reverse=True)


@transaction.atomic
def end_sessions(user: User, *, keep: str = "") -> int:
    """End a user's sessions, all but the one of the key `keep`; returns how many.

    A pair of tokens that a program got by logging in is its session, too. Access tokens stay: they
    are ended one by one. What asks for it writes the audit entry.
    """
    # not `sessions_of`: a session that another password or a deactivation made void must go too
    ended = 0
    for session in UserSession.objects.filter(user=user).exclude(session_key=keep):
        ended += session.exists()
        session.end()
    return ended + refresh_tokens_revoke(user)


@transaction.atomic
def end_user_sessions(user: User, *, by: User | None, keep: str = "") -> int:
    """End every session of a user on an administrator's word; returns how many there were."""
    ended = end_sessions(user, keep=keep)
    if ended:
        record_audit_entry("user.end_sessions", user, by=by, before={"sessions": ended})
    return ended


@transaction.atomic
def end_one_session(user: User, *, session_id: int, by: User | None) -> None:
    """End one session of a user. Raises DomainError session_unknown."""
    session = UserSession.objects.filter(user=user, pk=session_id).first()
    if session is None:
        raise DomainError("session_unknown", status=404)
    known = {} if session.ip == NO_ADDRESS else {"address": session.ip}
    record_audit_entry("user.end_session", user, by=by, before=known)
    session.end()
