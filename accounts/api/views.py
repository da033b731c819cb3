"""API views: login with token pairs, access tokens of scripts, and the current user."""

from django.http import Http404
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.login import user_of_credentials
from accounts.api.serializers import (
    AccessTokenBody,
    Credentials,
    IssuedTokenAnswer,
    MeAnswer,
    PairAnswer,
    RefreshBody,
)
from accounts.models import AccessToken
from accounts.tokens.access import issue_token, revoke_token
from accounts.tokens.refresh import issue_token_pair, renew_token_pair, revoke_refresh_token
from webprofile.api.authentication import scopes_of
from webprofile.api.permissions import NoAccessToken
from webprofile.api.schema import problems
from webprofile.api.throttling import RefreshThrottle
from webprofile.api.views import ApiView, ApiViewSet


@method_decorator(sensitive_post_parameters(), name="dispatch")
class PairViewSet(ApiViewSet):
    """Log in with a pair of tokens, renew the pair, log out."""

    permission_classes = (AllowAny,)
    authentication_classes = ()
    throttle_classes = (RefreshThrottle,)

    @extend_schema(
        summary="Log in",
        request=Credentials,
        responses={200: PairAnswer}
        | problems({401: ["login_failed", "code_needed"], 429: ["throttled", "login_throttled"]}),
    )
    def token_obtain(self, request: Request) -> Response:
        """Return a pair of tokens for e-mail and password, and for the code of the second factor if
        the account has one.

        Failed attempts are limited as on the login page. The error does not say which credential
        was wrong.
        """
        body = Credentials.read(request.data)
        user = user_of_credentials(request._request, **body)
        return Response(PairAnswer(issue_token_pair(user)).data)

    @extend_schema(
        summary="Renew a pair",
        request=RefreshBody,
        responses={200: PairAnswer} | problems({401: ["token_invalid"]}),
    )
    def token_refresh(self, request: Request) -> Response:
        """Exchange a refresh token for a new pair. Both tokens of the previous pair are revoked.

        A refresh token that was used before was copied: all pairs of its login are revoked.
        """
        body = RefreshBody.read(request.data)
        return Response(PairAnswer(renew_token_pair(body["refresh"])).data)

    @extend_schema(
        summary="Log out",
        request=RefreshBody,
        responses={204: None} | problems({401: ["token_invalid"]}),
    )
    def token_revoke(self, request: Request) -> Response:
        """Revoke a pair: its refresh token and, immediately, its access token.

        A logout on a page, the end of all sessions and a new password revoke all pairs of the user.
        """
        body = RefreshBody.read(request.data)
        revoke_refresh_token(body["refresh"])
        return Response(status=204)


class AccessTokenList(ApiView):
    """Access tokens of scripts."""

    permission_classes = (NoAccessToken,)

    @extend_schema(
        summary="Create an access token",
        request=AccessTokenBody,
        responses={201: IssuedTokenAnswer}
        | problems(
            {
                422: [
                    "invalid",
                    "character_bad",
                    "token_name",
                    "token_scopes",
                    "token_days",
                    "token_limit",
                ]
            }
        ),
    )
    def post(self, request: Request) -> Response:
        """Create an access token. Only this response contains its secret."""
        body = AccessTokenBody.read(request.data)
        token, secret = issue_token(self.request.user, **body)
        return Response(IssuedTokenAnswer(token, context={"secret": secret}).data, status=201)


class AccessTokenInUse(ApiView):
    """The access token of the request, for whose revocation the scope `read` is enough."""

    scope = AccessToken.Scope.READ

    @extend_schema(summary="Revoke the token in use", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Revoke the access token of this request; 404 if the request has none."""
        if not isinstance(request.auth, AccessToken):
            raise Http404
        revoke_token(request.auth, by=self.request.user)
        return Response(status=204)


class Me(ApiView):
    """The current user."""

    @extend_schema(summary="Who asks", responses=MeAnswer)
    def get(self, request: Request) -> Response:
        """Return the account of the current user, and the scopes of this request."""
        user, scopes = self.request.user, scopes_of(request)
        if not user.is_staff:
            scopes -= {AccessToken.Scope.ADMIN}
        return Response(MeAnswer(user, context={"scopes": sorted(scopes)}).data)
