"""What somebody does about the own account: sessions and password."""

from allauth.account.adapter import get_adapter
from allauth.core import ratelimit
from allauth.usersessions.models import UserSession
from django.contrib.auth import update_session_auth_hash
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from accounts.rest.logging_in import login_throttled
from accounts.rest.serializers import OwnPasswordBody, OwnSessionAnswer
from accounts.services import user_change_password
from accounts.sessions import log_out_everywhere, sessions_of
from webprofile.rest.schema import documented
from webprofile.rest.throttling import CredentialsThrottle
from webprofile.rest.views import ApiView


class OwnSessions(ApiView):
    """Where one is logged in."""

    is_interactive = True

    @documented(
        "List one's sessions",
        answers={200: OwnSessionAnswer(many=True)},
        operation_id="me_sessions",
    )
    def get(self, request: Request) -> Response:
        """Those of browsers, the last used first."""
        here = {"here": request._request.session.session_key}
        return Response(OwnSessionAnswer(sessions_of(self.reader), many=True, context=here).data)

    @documented("Log out everywhere", answers={204: None}, operation_id="me_sessions_end")
    def delete(self, request: Request) -> Response:
        """Ends at once every session and every pair of tokens, those of this request too. Access
        tokens stay.
        """
        log_out_everywhere(self.reader)
        return Response(status=204)


class OwnSession(ApiView):
    """One session."""

    is_interactive = True

    @documented("End one's session", answers={204: None}, operation_id="me_session_end")
    def delete(self, request: Request, session_id: int) -> Response:
        """It ends at once."""
        self.find(UserSession.objects.filter(user=self.reader), session_id).end()
        return Response(status=204)


@method_decorator(sensitive_post_parameters(), name="dispatch")
class OwnPassword(ApiView):
    """The password."""

    is_interactive = True
    throttle_classes = (CredentialsThrottle,)

    @documented(
        "Change one's password",
        body=OwnPasswordBody,
        answers={204: None},
        errors={
            422: ["invalid", "password_wrong", "password_weak"],
            429: ["throttled", "login_throttled"],
        },
        operation_id="me_password",
    )
    def post(self, request: Request) -> Response:
        """All other sessions end, and all pairs of tokens; access tokens stay."""
        body = self.read(OwnPasswordBody)
        if not ratelimit.consume(request._request, action="change_password", user=self.reader):
            raise login_throttled(request._request, "change_password", user=self.reader)
        user_change_password(self.reader, **body)
        _tell(request, self.reader)
        return Response(status=204)


def _tell(request: Request, user: User) -> None:
    """Keep the session that asked, if one did, and mail the user."""
    if request.auth is None:
        update_session_auth_hash(request._request, user)
        # the list of sessions knows it by its old key
        UserSession.objects.create_from_request(request._request)
    adapter = get_adapter(request._request)
    adapter.send_notification_mail("account/email/password_changed", user)
