"""E-mail, password and second factor, as the log-in page asks for them, limits included."""

from allauth.account import app_settings
from allauth.account.adapter import get_adapter
from allauth.account.models import EmailAddress
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.utils import is_mfa_enabled
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from accounts.emails import email_canonical
from accounts.models import User
from webprofile.errors import DomainError


def user_of_credentials(request: HttpRequest, *, email: str, password: str, code: str) -> User:
    """The active user whose credentials these are.

    code: of the authenticator app, or a recovery code, for accounts with a second factor
    Raises DomainError: login_failed (whatever is wrong), code_needed, login_throttled.
    """
    try:
        adapter, address = get_adapter(request), email_canonical(email)
        user = adapter.authenticate(request, email=address, password=password)
    except ValidationError as error:  # allauth's limit of failed attempts
        raise DomainError("login_throttled", status=429) from error
    if not isinstance(user, User) or not user.is_active or not _is_verified(user):
        raise DomainError("login_failed", status=401)
    if is_mfa_enabled(user):
        _check_code(user, code)
    return user


def _check_code(user: User, code: str) -> None:
    if not code:
        raise DomainError("code_needed", field="code", status=401)
    form = AuthenticateForm({"code": code}, user=user)
    if not form.is_valid():
        limited = form.has_error("code", "too_many_login_attempts")
        raise DomainError(
            "login_throttled" if limited else "login_failed", status=429 if limited else 401
        )
    form.save()


def _is_verified(user: User) -> bool:
    if app_settings.EMAIL_VERIFICATION != app_settings.EmailVerificationMethod.MANDATORY:
        return True
    own = EmailAddress.objects.filter(user=user, email__iexact=user.email, verified=True)
    return bool(own.exists())
