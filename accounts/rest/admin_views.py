"""Users and the audit log, for administrators."""

from collections.abc import Callable

from allauth.usersessions.models import UserSession
from django.db.models import QuerySet
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import services
from accounts.access_tokens import token_revoke, tokens_usable
from accounts.models import AccessToken, AuditEntry, User
from accounts.rest.admin_answers import (
    AuditAnswer,
    ChangedAnswer,
    SessionAnswer,
    UserAnswer,
    UserRow,
)
from accounts.rest.admin_bodies import (
    AuditFilters,
    GrantsBody,
    LimitBody,
    PasswordBody,
    UserBody,
    UserFilters,
)
from accounts.rest.serializers import AccessTokenAnswer
from accounts.selectors import with_sessions
from accounts.sessions import sessions_of, user_end_session, user_end_sessions
from accounts.system import people
from webprofile.rest.schema import documented
from webprofile.rest.views import ApiListView, ApiView
from workers.grants import grants_add, grants_remove

ADMIN = AccessToken.Scope.ADMIN
FORBIDDEN = {403: ["scope_missing", "administrators_only", "csrf_failed", "not_administrator"]}


class UserView(ApiView):
    """What one user's views share."""

    scope = ADMIN

    def user(self, user_id: int) -> User:
        return self.find(users(), user_id)

    def shown(self, user_id: int, *, status: int = 200) -> Response:
        return Response(UserAnswer(self.user(user_id)).data, status=status)


class UserList(UserView, ApiListView):
    """Users."""

    serializer_class = UserRow
    filterset_class = UserFilters

    def rows(self) -> QuerySet[User]:
        return users()

    @documented("List users", answers={200: UserRow(many=True)}, operation_id="admin_users_list")
    def get(self, request: Request) -> Response:
        """All, also those that were shut out."""
        return self.list(request)

    @documented(
        "Add a user",
        body=UserBody,
        answers={201: UserAnswer},
        errors=FORBIDDEN | {409: ["email_taken"], 422: ["invalid", "email_bad", "password_weak"]},
        operation_id="admin_users_create",
    )
    @method_decorator(sensitive_variables())
    def post(self, request: Request) -> Response:
        """The administrator vouches for the e-mail: nobody has to confirm it."""
        user = services.user_create(by=self.reader, **self.read(UserBody))
        return self.shown(user.pk, status=201)


class UserDetail(UserView):
    """One user."""

    @documented("Show a user", answers={200: UserAnswer}, operation_id="admin_users_show")
    def get(self, request: Request, user_id: int) -> Response:
        """Role, private devices, limits."""
        return self.shown(user_id)

    @documented(
        "Change a user",
        body=LimitBody,
        answers={200: UserAnswer},
        errors=FORBIDDEN,
        operation_id="admin_users_change",
    )
    def patch(self, request: Request, user_id: int) -> Response:
        """How many tasks they may have at once."""
        user = self.user(user_id)
        services.user_limit(user, by=self.reader, **self.read(LimitBody))
        return self.shown(user_id)


def _act(
    summary: str, apply: Callable[..., object], *, codes: list[str], name: str, doc: str
) -> type[UserView]:
    """A view that does one thing with a user and shows what came of it."""

    class Act(UserView):
        @documented(
            summary,
            answers={200: UserAnswer},
            errors=FORBIDDEN | ({409: codes} if codes else {}),
            operation_id=f"admin_users_{name}",
            description=doc,
        )
        def post(self, request: Request, user_id: int) -> Response:
            apply(self.user(user_id), by=self.reader)
            return self.shown(user_id)

    return Act


UserPromote = _act(
    "Make a user an administrator",
    services.user_promote,
    codes=["user_inactive"],
    name="promote",
    doc="They see every task and device and may change everything. Repeating it changes nothing.",
)
UserDemote = _act(
    "Take an administrator's rights",
    services.user_demote,
    codes=["last_administrator"],
    name="demote",
    doc="Access tokens with the right to administer are revoked. Repeating it changes nothing. "
    "Nobody asks administrators who take their own rights whether they are sure: from the next "
    "request on they are plain users (403 `administrators_only`). The last one stays (409).",
)
UserDeactivate = _act(
    "Shut a user out",
    services.user_deactivate,
    codes=["user_is_oneself", "last_administrator"],
    name="deactivate",
    doc="They are logged out everywhere; tasks and results stay. Repeating it changes nothing. "
    "Nobody shuts themselves out, nor the last administrator (409).",
)
UserReactivate = _act(
    "Let a user in again",
    services.user_reactivate,
    codes=[],
    name="reactivate",
    doc="With the password as it was; access tokens stay revoked. Repeating it changes nothing.",
)
UserRemoveSecondFactor = _act(
    "Remove a user's second factor",
    services.user_remove_second_factor,
    codes=["second_factor_none", "second_factor_own"],
    name="remove_second_factor",
    doc="Authenticator app, security keys and recovery codes go, so the password alone lets in. "
    "Sessions and tokens made before it end. Where mail is sent, the user gets one. One's own is "
    "turned off in one's account.",
)


class UserPassword(UserView):
    """Another password."""

    @documented(
        "Set a user's password",
        body=PasswordBody,
        answers={200: UserAnswer},
        errors=FORBIDDEN | {422: ["invalid", "password_weak"]},
        operation_id="admin_users_password",
    )
    @method_decorator(sensitive_variables())
    def post(self, request: Request, user_id: int) -> Response:
        """Sessions and tokens made before it end."""
        user = self.user(user_id)
        services.user_set_password(user, by=self.reader, **self.read(PasswordBody))
        return self.shown(user_id)


class UserSessions(UserView):
    """Where a user is logged in."""

    @documented(
        "List a user's sessions",
        answers={200: SessionAnswer(many=True)},
        operation_id="admin_users_sessions",
    )
    def get(self, request: Request, user_id: int) -> Response:
        """The last used first."""
        sessions: list[UserSession] = sessions_of(self.user(user_id))
        return Response(SessionAnswer(sessions, many=True).data)

    @documented(
        "End a user's sessions",
        answers={200: ChangedAnswer},
        operation_id="admin_users_sessions_end",
    )
    def delete(self, request: Request, user_id: int) -> Response:
        """They are logged out everywhere; programs' refresh tokens end too."""
        return Response({"changed": user_end_sessions(self.user(user_id), by=self.reader)})


class UserOneSession(UserView):
    """One session of a user."""

    @documented(
        "End one session",
        answers={204: None},
        errors={404: ["not_found", "session_unknown"]},
        operation_id="admin_users_session_end",
    )
    def delete(self, request: Request, user_id: int, session_id: int) -> Response:
        """It ends at once."""
        user_end_session(self.user(user_id), session_id=session_id, by=self.reader)
        return Response(status=204)


class UserTokens(UserView):
    """A user's access tokens."""

    @documented(
        "List a user's access tokens",
        answers={200: AccessTokenAnswer(many=True)},
        operation_id="admin_users_tokens",
    )
    def get(self, request: Request, user_id: int) -> Response:
        """Those that are good, without their secrets."""
        return Response(AccessTokenAnswer(tokens_usable(self.user(user_id)), many=True).data)


class UserOneToken(UserView):
    """One access token of a user."""

    @documented(
        "Revoke a user's access token",
        answers={204: None},
        operation_id="admin_users_token_revoke",
    )
    def delete(self, request: Request, user_id: int, token_id: int) -> Response:
        """It ends at once; repeating it changes nothing."""
        token = self.find(self.user(user_id).access_tokens.all(), token_id)
        token_revoke(token, by=self.reader)
        return Response(status=204)


class Grants(ApiView):
    """Who may choose which private device."""

    scope = ADMIN

    @documented(
        "Grant devices",
        body=GrantsBody,
        answers={200: ChangedAnswer},
        errors={
            404: ["users_unknown", "workers_unknown"],
            409: ["users_inactive", "workers_retired"],
        },
        operation_id="admin_grants_add",
    )
    def post(self, request: Request) -> Response:
        """Each of these users may choose each of these devices; all or nothing."""
        return Response({"changed": grants_add(by=self.reader, **self.read(GrantsBody))})


class GrantsRemove(ApiView):
    """The end of grants."""

    scope = ADMIN

    @documented(
        "Take devices away",
        body=GrantsBody,
        answers={200: ChangedAnswer},
        errors={404: ["users_unknown", "workers_unknown"]},
        operation_id="admin_grants_remove",
    )
    def post(self, request: Request) -> Response:
        """These users lose these devices; tasks that were sent before stay."""
        return Response({"changed": grants_remove(by=self.reader, **self.read(GrantsBody))})


class AuditList(ApiListView):
    """What administrators changed, and users of the way they log in."""

    scope = ADMIN
    serializer_class = AuditAnswer
    filterset_class = AuditFilters

    def rows(self) -> QuerySet[AuditEntry]:
        return AuditEntry.objects.all()

    @documented(
        "List the audit log", answers={200: AuditAnswer(many=True)}, operation_id="admin_audit_list"
    )
    def get(self, request: Request) -> Response:
        """Who did what to what, before and after. Nobody can change it."""
        return self.list(request)


class AuditDetail(ApiView):
    """One entry of the audit log."""

    scope = ADMIN

    @documented("Show an audit entry", answers={200: AuditAnswer}, operation_id="admin_audit_show")
    def get(self, request: Request, entry_id: int) -> Response:
        """One change."""
        return Response(AuditAnswer(self.find(AuditEntry.objects.all(), entry_id)).data)


def users() -> QuerySet[User]:
    """All users, with what administrators see of each."""
    return with_sessions(people()).prefetch_related("granted_workers")
