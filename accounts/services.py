"""Everything that changes users outside of allauth's own forms."""

import secrets

from django.db import transaction

from accounts.models import User


@transaction.atomic
def user_ensure(*, email: str, administrator: bool = False) -> tuple[User, str | None]:
    """Return the user with this e-mail, made with a random password if there is none yet.

    The password is returned only in the call that makes the user; it is stored hashed.
    """
    user = User.objects.filter(email__iexact=email).first()
    if user is not None:
        return user, None
    password = secrets.token_urlsafe(12)
    make = User.objects.create_superuser if administrator else User.objects.create_user
    return make(email, password), password
