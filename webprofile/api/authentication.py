"""Authentication of API requests by access token, JWT or session, and the scopes of the caller."""

from typing import Any, NoReturn

from django.http import HttpRequest
from rest_framework import authentication, exceptions
from rest_framework.request import Request
from rest_framework_simplejwt.authentication import JWTAuthentication
from rest_framework_simplejwt.tokens import Token

from accounts.models import AccessToken, User
from accounts.tokens.access import PREFIX, find_usable_token
from accounts.tokens.refresh import is_pair_live
from webprofile.observability.requests import note

Scope = AccessToken.Scope
#: value of `WWW-Authenticate`, the same for access tokens and JWTs
CHALLENGE = 'Bearer realm="api"'


class UserRequest(Request):
    """A request with an authenticated user, for type hints."""

    user: User


class AccessTokenAuthentication(authentication.BaseAuthentication):
    """Authenticate `Authorization: Bearer mwp_...`.

    If the token lacks the scope `admin`, the user has no administrator rights in this request.
    """

    def authenticate(self, request: Request) -> tuple[User, AccessToken] | None:
        secret = bearer_of(request)
        if not secret.startswith(PREFIX):
            return None
        token = find_usable_token(secret)
        if token is None:
            raise exceptions.AuthenticationFailed(code="token_invalid")
        user = token.user
        if Scope.ADMIN not in token.scopes:
            _make_plain(user)
        note(request, user=user.pk)
        return user, token

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class JwtAuthentication(JWTAuthentication):
    """Authenticate `Authorization: Bearer` with the access token of a JWT pair (`accounts.api`)."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        if bearer_of(request).startswith(PREFIX):
            return None
        credentials = super().authenticate(request)
        if credentials is not None:
            note(request, user=credentials[0].pk)
        return credentials

    def get_user(self, validated_token: Token) -> Any:
        user = super().get_user(validated_token)
        if not is_pair_live(validated_token):
            raise exceptions.AuthenticationFailed(code="token_invalid")
        return user

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class SessionAuthentication(authentication.SessionAuthentication):
    """Authenticate by session cookie; methods that change data also need the CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise exceptions.PermissionDenied(code="csrf_failed") from error

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


def bearer_of(request: HttpRequest | Request) -> str:
    """Return the bearer token of the `Authorization` header, empty if there is none."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def scopes_of(request: Request) -> frozenset[str]:
    """Return the scopes of the access token; all scopes for a session or a JWT."""
    if isinstance(request.auth, AccessToken):
        return frozenset(request.auth.scopes)
    return frozenset(Scope.values)


def is_access_token(request: Request) -> bool:
    return isinstance(request.auth, AccessToken)


def _make_plain(user: User) -> None:
    """Remove administrator rights from this object only, and make its `save` raise RuntimeError."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("a user narrowed by a token's scopes is not for saving")

    user.is_staff = user.is_superuser = False
    user.save = refuse  # type: ignore[method-assign]
