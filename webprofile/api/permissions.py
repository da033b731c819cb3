"""Permission classes of API views: login and token scope. Access to single rows is in selectors."""

from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from webprofile.api.authentication import Scope, is_access_token, scopes_of
from webprofile.errors import DomainError


class MayCall(BasePermission):
    """Allow authenticated users; an access token needs the scope of the view (`webprofile.api`).

    Raises DomainError scope_missing if the token lacks it.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user.is_authenticated:
            return False
        scope = required_scope(view, request.method or "")
        if scope not in scopes_of(request):
            raise DomainError("scope_missing", status=403, scope=scope)
        return True


class NoAccessToken(MayCall):
    """Allow users who logged in and reject access tokens, whatever their scopes.

    It protects views that change the account itself.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if is_access_token(request):
            raise PermissionDenied(code="token_not_here")
        return super().has_permission(request, view)


def required_scope(view: Any, method: str) -> str:
    """Return the scope that an access token needs for a method of this view."""
    default = Scope.READ if method in SAFE_METHODS else Scope.WRITE
    return str(view.scope or default)
