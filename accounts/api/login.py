"""Check the credentials of an API login with the rules and rate limits of the login page."""

from allauth.account import app_settings
from allauth.account.adapter import get_adapter
from allauth.mfa.utils import is_mfa_enabled
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts import login_limits
from accounts.forms import SecondFactorForm
from accounts.models import User, canonical_email
from accounts.services import is_email_verified
from webprofile.errors import DomainError


def user_of_credentials(request: HttpRequest, *, email: str, password: str, code: str) -> User:
    """Return the active user with these credentials.

    code: of the authenticator app, or a recovery code, for accounts with a second factor

    Raises DomainError: login_failed (whichever credential is wrong), code_needed, login_throttled.
    """
    adapter, email = get_adapter(request), canonical_email(email)
    try:
        user = adapter.authenticate(request, email=email, password=password)
    except ValidationError as error:  # the limit of failed attempts
        raise _throttled(login_limits.wait_s(request, email)) from error
    if not isinstance(user, User) or not user.is_active or not _is_verified(user):
        raise DomainError("login_failed", status=401)
    if is_mfa_enabled(user):
        _check_code(request, user, code)
    return user


def _throttled(wait_s: int) -> DomainError:
    return DomainError("login_throttled", status=429, wait_s=wait_s)


def _check_code(request: HttpRequest, user: User, code: str) -> None:
    if not code:
        raise DomainError("code_needed", field="code", status=401)
    form = SecondFactorForm({"code": code}, user=user)
    if not form.is_valid():
        if form.has_error("code", "too_many_login_attempts"):
            key = f"mfa-auth-user-{user.pk}"
            raise _throttled(login_limits.limit_wait_s(request, "login_failed", key))
        raise DomainError("login_failed", status=401)
    # not `form.save()`, which would also write the login into a session
    form.authenticator.record_usage()


def _is_verified(user: User) -> bool:
    if app_settings.EMAIL_VERIFICATION != app_settings.EmailVerificationMethod.MANDATORY:
        return True
    return is_email_verified(user, user.email)
