"""Selectors of users: the current user of a request, human users, second factors and sessions."""

from typing import cast

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.sessions.models import Session
from django.db.models import (
    Count,
    DateTimeField,
    F,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Greatest
from django.http import HttpRequest
from django.utils import timezone

from accounts.models import User

#: e-mail domain of the system user; it receives no mail, so no address in it can be verified
#: (RFC 2606)
SYSTEM_DOMAIN = "system.invalid"
#: the account that `services.system_user` creates; its unusable password is part of the condition,
#: since the address alone could have been registered by somebody
SYSTEM_USER = Q(
    email__endswith=f"@{SYSTEM_DOMAIN}",
    is_active=False,
    is_staff=False,
    password__startswith=UNUSABLE_PASSWORD_PREFIX,
)


def human_users() -> QuerySet[User]:
    """Return all users except the system user, which must never be activated or promoted."""
    return User.objects.exclude(SYSTEM_USER)


def current_user(request: HttpRequest) -> User:
    """Return the current user of a request that passed `login_required`."""
    return cast(User, request.user)


def has_second_factor(user: User) -> bool:
    """Whether the user has set up a second factor: app, security keys or recovery codes."""
    return bool(Authenticator.objects.filter(user=user).exists())


def with_sessions(users: QuerySet[User]) -> QuerySet[User]:
    """Annotate users with `session_count` and `seen_at`.

    `session_count` is the number of valid sessions; `seen_at` is the time of the last request or
    login, None if there was none.
    """
    live = UserSession.objects.filter(
        user=OuterRef("pk"),
        session_key__in=Session.objects.filter(expire_date__gt=timezone.now()).values(
            "session_key"
        ),
    )
    count = live.order_by().values("user").annotate(n=Count("pk")).values("n")
    of_user = UserSession.objects.filter(user=OuterRef("pk")).order_by().values("user")
    last = Subquery(
        of_user.annotate(at=Max("last_seen_at")).values("at"), output_field=DateTimeField()
    )
    # SQLite's greatest of times is NULL if one is, so each has the others in its place
    times = [last, F("last_seen_at"), F("last_login")]
    turns = [Coalesce(*times[n:], *times[:n]) for n in range(len(times))]
    return users.annotate(
        session_count=Coalesce(Subquery(count, output_field=IntegerField()), 0),
        seen_at=Greatest(*turns),
    )
