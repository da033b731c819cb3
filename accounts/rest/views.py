"""Logging in, tokens for scripts, and who one is."""

from dataclasses import asdict

from django.db.models import QuerySet
from django.http import Http404
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.access_tokens import token_issue, token_revoke
from accounts.models import AccessToken, User
from accounts.refresh_tokens import pair_issue, pair_renew, refresh_token_revoke
from accounts.rest.logging_in import user_of_credentials
from accounts.rest.serializers import (
    AccessTokenAnswer,
    AccessTokenBody,
    Credentials,
    IssuedTokenAnswer,
    MeAnswer,
    PairAnswer,
    PreferencesBody,
    RefreshBody,
)
from webprofile.rest.authentication import SessionAuthentication, scopes_of
from webprofile.rest.schema import documented
from webprofile.rest.throttling import CredentialsThrottle, RefreshThrottle
from webprofile.rest.views import ApiListView, ApiView


@method_decorator(sensitive_post_parameters(), name="dispatch")
class PairObtain(ApiView):
    """Logging in."""

    is_public = True
    authentication_classes = ()
    throttle_classes = (CredentialsThrottle,)

    @documented(
        "Log in",
        body=Credentials,
        answers={200: PairAnswer},
        errors={401: ["login_failed", "code_needed"], 429: ["throttled", "login_throttled"]},
        operation_id="auth_token_obtain",
    )
    def post(self, request: Request) -> Response:
        """A pair of tokens for e-mail and password, and for the code of a second factor if the
        account has one.

        Failures are limited as on the log-in page, and do not say what was wrong.
        """
        user = user_of_credentials(request._request, **self.read(Credentials))
        return Response(PairAnswer(asdict(pair_issue(user))).data)


class PairOfSession(ApiView):
    """Tokens for somebody who is logged in already."""

    authentication_classes = (SessionAuthentication,)
    is_interactive = True

    @documented(
        "Tokens of a session", answers={200: PairAnswer}, operation_id="auth_token_of_session"
    )
    def post(self, request: Request) -> Response:
        """A pair of tokens for the person who is logged in on the pages."""
        return Response(PairAnswer(asdict(pair_issue(self.reader))).data)


class PairRefresh(ApiView):
    """Staying logged in."""

    is_public = True
    authentication_classes = ()
    throttle_classes = (RefreshThrottle,)

    @documented(
        "Renew a pair",
        body=RefreshBody,
        answers={200: PairAnswer},
        errors={401: ["token_invalid"]},
        operation_id="auth_token_refresh",
    )
    def post(self, request: Request) -> Response:
        """Another pair for a refresh token, which thereby ends, as does its access part."""
        pair = pair_renew(self.read(RefreshBody)["refresh"])
        return Response(PairAnswer(asdict(pair)).data)


class PairRevoke(ApiView):
    """Logging out."""

    is_public = True
    authentication_classes = ()
    throttle_classes = (RefreshThrottle,)

    @documented(
        "Log out",
        body=RefreshBody,
        answers={204: None},
        errors={401: ["token_invalid"]},
        operation_id="auth_token_revoke",
    )
    def post(self, request: Request) -> Response:
        """End a pair: its refresh token and, at once, its access part."""
        refresh_token_revoke(self.read(RefreshBody)["refresh"])
        return Response(status=204)


class AccessTokenList(ApiListView):
    """Tokens for scripts."""

    is_interactive = True
    serializer_class = AccessTokenAnswer

    def rows(self) -> QuerySet[AccessToken]:
        return self.reader.access_tokens.all()

    @documented("List access tokens", answers={200: AccessTokenAnswer(many=True)})
    def get(self, request: Request) -> Response:
        """One's own, also expired and revoked ones; no secrets."""
        return self.list(request)

    @documented(
        "Make an access token",
        body=AccessTokenBody,
        answers={201: IssuedTokenAnswer},
        errors={422: ["invalid", "token_name", "token_scopes", "token_days", "token_limit"]},
    )
    def post(self, request: Request) -> Response:
        """The answer holds the secret, which is shown this once."""
        token, secret = token_issue(self.reader, **self.read(AccessTokenBody))
        answer = AccessTokenAnswer(token).data | {"secret": secret}
        return Response(answer, status=201)


class AccessTokenDetail(ApiView):
    """One token for scripts."""

    is_interactive = True

    @documented("Revoke an access token", answers={204: None})
    def delete(self, request: Request, token_id: int) -> Response:
        """It ends at once; repeating it changes nothing."""
        token = self.find(self.reader.access_tokens.all(), token_id)
        token_revoke(token, by=self.reader)
        return Response(status=204)


class AccessTokenInUse(ApiView):
    """The access token that asks: whatever it may, it may end itself."""

    scope = AccessToken.Scope.READ

    @documented("Show the token in use", answers={200: AccessTokenAnswer})
    def get(self, request: Request) -> Response:
        """The access token that this request came with; 404 if it came with none."""
        return Response(AccessTokenAnswer(self._token(request)).data)

    @documented("Revoke the token in use", answers={204: None})
    def delete(self, request: Request) -> Response:
        """End the access token that this request came with; 404 if it came with none."""
        token_revoke(self._token(request), by=self.reader)
        return Response(status=204)

    def _token(self, request: Request) -> AccessToken:
        if not isinstance(request.auth, AccessToken):
            raise Http404
        return request.auth


class Me(ApiView):
    """The user who asks."""

    @documented("Who asks", answers={200: MeAnswer})
    def get(self, request: Request) -> Response:
        """One's own account, and what this request's token may do."""
        return self._shown(request)

    @documented(
        "Change preferences",
        body=PreferencesBody,
        answers={200: MeAnswer},
        errors={422: ["invalid", "time_zone_unknown"]},
    )
    def patch(self, request: Request) -> Response:
        """How pages look to oneself: language, time zone and colours."""
        chosen = self.read(PreferencesBody)
        for name, value in chosen.items():
            setattr(self.reader, name, value)
        User.objects.filter(pk=self.reader.pk).update(**chosen)
        return self._shown(request)

    def _shown(self, request: Request) -> Response:
        scopes = scopes_of(request)
        if not self.reader.is_staff:
            scopes -= {AccessToken.Scope.ADMIN}
        return Response(MeAnswer(self.reader, context={"scopes": sorted(scopes)}).data)
