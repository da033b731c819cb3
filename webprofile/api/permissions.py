"""Whether a caller may use a view at all; which rows exist for him, selectors say."""

from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from webprofile.api.authentication import Scope, is_access_token, scopes_of
from webprofile.errors import DomainError


class MayCall(BasePermission):
    """Users; their access tokens need the scope that the view asks for (`webprofile.api`)."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user.is_authenticated:
            return False
        wanted = scope_wanted(view, request.method or "")
        if wanted not in scopes_of(request):
            raise DomainError("scope_missing", status=403, scope=wanted)
        return True


class NoAccessToken(MayCall):
    """Users who logged in: a script has no say about the account, whatever its token's scopes."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if is_access_token(request):
            raise PermissionDenied(code="token_not_here")
        return super().has_permission(request, view)


def scope_wanted(view: Any, method: str) -> str:
    """The scope that a token needs for a method of this view."""
    usual = Scope.READ if method in SAFE_METHODS else Scope.WRITE
    return str(view.scope or usual)
