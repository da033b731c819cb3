"""Selectors of users: the current user of a request, second factors, sessions and audit entries."""

from typing import cast

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db.models import (
    Count,
    DateTimeField,
    IntegerField,
    Max,
    Model,
    OuterRef,
    QuerySet,
    Subquery,
)
from django.db.models.functions import Coalesce, Greatest
from django.http import HttpRequest
from django.utils import timezone

from accounts.models import AuditEntry, User


def reader_of(request: HttpRequest) -> User:
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
    of_user = live.order_by().values("user")
    count = of_user.annotate(n=Count("pk")).values("n")
    last = Subquery(
        of_user.annotate(at=Max("last_seen_at")).values("at"), output_field=DateTimeField()
    )
    return users.annotate(
        session_count=Coalesce(Subquery(count, output_field=IntegerField()), 0),
        seen_at=Greatest(Coalesce(last, "last_login"), Coalesce("last_login", last)),
    )


def entries_about(target: Model, *, limit: int) -> list[AuditEntry]:
    """Return the last audit entries about a row; for a user including those about their grants."""
    log = AuditEntry.objects.select_related("actor")
    own = log.filter(target_type=target._meta.model_name, target_id=str(target.pk))
    entries = list(own[:limit])
    if isinstance(target, User):
        grants = log.filter(action__in=["grant.add", "grant.remove"], after__has_key=target.email)
        entries += grants[:limit]
    return sorted(entries, key=lambda entry: entry.pk, reverse=True)[:limit]
