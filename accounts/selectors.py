"""Who asks."""

from typing import cast

from django.http import HttpRequest

from accounts.models import User


def reader_of(request: HttpRequest) -> User:
    """The logged-in user of a request that went through `login_required`."""
    return cast(User, request.user)
