"""Who asks: an access token, a JWT, or a browser's session; and what the caller may."""

from typing import Any, NoReturn

from rest_framework import authentication, exceptions
from rest_framework.request import Request
from rest_framework_simplejwt.authentication import JWTAuthentication
from rest_framework_simplejwt.tokens import Token

from accounts.models import AccessToken, User
from accounts.tokens.access import PREFIX, user_of_secret
from accounts.tokens.refresh import pair_is_live
from webprofile.observability.facts import note

Scope = AccessToken.Scope
#: one form for all that goes by the header
CHALLENGE = 'Bearer realm="api"'


class UserRequest(Request):
    """A request of somebody who is logged in, for type hints."""

    user: User


class AccessTokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer mwp_...`; without the scope `admin` the user is a plain one."""

    def authenticate(self, request: Request) -> tuple[User, AccessToken] | None:
        secret = bearer_of(request)
        if not secret.startswith(PREFIX):
            return None
        token = user_of_secret(secret)
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
    """`Authorization: Bearer` with the access part of a pair (`accounts.api`)."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        if bearer_of(request).startswith(PREFIX):
            return None
        found = super().authenticate(request)
        if found is not None:
            note(request, user=found[0].pk)
        return found

    def get_user(self, validated_token: Token) -> Any:
        user = super().get_user(validated_token)
        if not pair_is_live(validated_token):
            raise exceptions.AuthenticationFailed(code="token_invalid")
        return user

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


class SessionAuthentication(authentication.SessionAuthentication):
    """The cookie of a page; whatever changes something also brings its CSRF token."""

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise exceptions.PermissionDenied(code="csrf_failed") from error

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE


def bearer_of(request: Request) -> str:
    """The header's token, empty if there is none."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def scopes_of(request: Request) -> frozenset[str]:
    """What the caller may: a token's scopes; a person who logged in may all."""
    if isinstance(request.auth, AccessToken):
        return frozenset(request.auth.scopes)
    return frozenset(Scope.values)


def is_access_token(request: Request) -> bool:
    return isinstance(request.auth, AccessToken)


def _make_plain(user: User) -> None:
    """Take an administrator's rights from this object, which then must not be saved as a whole."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("a user narrowed by a token's scopes is not for saving")

    user.is_staff = user.is_superuser = False
    user.save = refuse  # type: ignore[method-assign]
