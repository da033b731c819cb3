"""Logging in, tokens for scripts, and who one is."""

from dataclasses import asdict

from django.http import Http404
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.access_tokens import token_issue, token_revoke
from accounts.models import AccessToken
from accounts.refresh_tokens import pair_issue, pair_renew, refresh_token_revoke
from accounts.rest.logging_in import user_of_credentials
from accounts.rest.serializers import (
    AccessTokenBody,
    Credentials,
    IssuedTokenAnswer,
    MeAnswer,
    PairAnswer,
    RefreshBody,
)
from webprofile.rest.authentication import scopes_of
from webprofile.rest.permissions import NoAccessToken
from webprofile.rest.schema import documented
from webprofile.rest.throttling import CredentialsThrottle, RefreshThrottle
from webprofile.rest.views import ApiView


@method_decorator(sensitive_post_parameters(), name="dispatch")
class PairObtain(ApiView):
    """Logging in."""

    permission_classes = (AllowAny,)
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


class PairRefresh(ApiView):
    """Staying logged in."""

    permission_classes = (AllowAny,)
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

    permission_classes = (AllowAny,)
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


class AccessTokenList(ApiView):
    """Tokens for scripts."""

    permission_classes = (NoAccessToken,)

    @documented(
        "Make an access token",
        body=AccessTokenBody,
        answers={201: IssuedTokenAnswer},
        errors={422: ["invalid", "token_name", "token_scopes", "token_days", "token_limit"]},
    )
    def post(self, request: Request) -> Response:
        """The answer holds the secret, which is shown this once."""
        token, secret = token_issue(self.reader, **self.read(AccessTokenBody))
        return Response(IssuedTokenAnswer(token, context={"secret": secret}).data, status=201)


class AccessTokenInUse(ApiView):
    """The access token that asks: whatever it may, it may end itself."""

    scope = AccessToken.Scope.READ

    @documented("Revoke the token in use", answers={204: None})
    def delete(self, request: Request) -> Response:
        """End the access token that this request came with; 404 if it came with none."""
        if not isinstance(request.auth, AccessToken):
            raise Http404
        token_revoke(request.auth, by=self.reader)
        return Response(status=204)


class Me(ApiView):
    """The user who asks."""

    @documented("Who asks", answers={200: MeAnswer})
    def get(self, request: Request) -> Response:
        """One's own account, and what this request's token may do."""
        scopes = scopes_of(request)
        if not self.reader.is_staff:
            scopes -= {AccessToken.Scope.ADMIN}
        return Response(MeAnswer(self.reader, context={"scopes": sorted(scopes)}).data)
