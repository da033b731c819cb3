"""The user in whose name the site itself acts, and the others, whom administrators manage."""

import secrets

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db import transaction
from django.db.models import Q, QuerySet

from accounts.models import User

#: no mail goes there, so nobody can have proved to own such an address (RFC 2606)
_DOMAIN = "system.invalid"


#: told by the lack of a password, not by the address alone: that could have been registered
_SYSTEM = Q(
    email__endswith=f"@{_DOMAIN}",
    is_active=False,
    is_staff=False,
    password__startswith=UNUSABLE_PASSWORD_PREFIX,
)


def people() -> QuerySet[User]:
    """All users but the site itself, which nobody may let in or give rights."""
    return User.objects.exclude(_SYSTEM)


@transaction.atomic
def system_user() -> User:
    """An account that nobody can log in to, made the first time."""
    found = User.objects.filter(_SYSTEM).order_by("pk").first()
    # a fresh address, so that nobody can have taken it before
    return found or User.objects.create_user(
        f"health-checks-{secrets.token_hex(4)}@{_DOMAIN}", None, is_active=False
    )
