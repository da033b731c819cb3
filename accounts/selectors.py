"""Who asks."""

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
    """The logged-in user of a request that went through `login_required`."""
    return cast(User, request.user)


def has_second_factor(user: User) -> bool:
    """Whether anything of a second factor is set up: app, keys or codes."""
    return bool(Authenticator.objects.filter(user=user).exists())


def with_sessions(users: QuerySet[User]) -> QuerySet[User]:
    """Each user with `session_count`, the sessions that let somebody in, and `seen_at`, when a page
    was last asked for or they last logged in (None: never).
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
    """The last entries of the audit log about one row; of a user also what was granted to them."""
    log = AuditEntry.objects.select_related("actor")
    own = log.filter(target_type=target._meta.model_name, target_id=str(target.pk))
    entries = list(own[:limit])
    if isinstance(target, User):
        grants = log.filter(action__in=["grant.add", "grant.remove"], after__has_key=target.email)
        entries += grants[:limit]
    return sorted(entries, key=lambda entry: entry.pk, reverse=True)[:limit]
