"""Adapters of django-allauth: client addresses, limits of logins, mail, identity providers and
encrypted second factors.
"""

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context, ratelimit
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from allauth.usersessions.adapter import DefaultUserSessionsAdapter
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest, HttpResponse

from accounts import login_limits
from accounts.encryption import cipher_for
from accounts.models import User, canonical_email
from accounts.selectors import current_user
from accounts.services import adopt_user, is_email_verified
from accounts.sessions import NO_ADDRESS, end_user_sessions
from webprofile.errors import DomainError

log = structlog.get_logger()


class AccountAdapter(DefaultAccountAdapter):
    """Canonical e-mail addresses, limits of logins, and the host of the site in mails."""

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client's IP address, or NO_ADDRESS if it is unknown, so that login works.

        It is unknown behind a Unix socket, and if X-Forwarded-For contains no valid address or
        fewer than TRUSTED_PROXY_COUNT. All such clients share one rate limit.
        """
        try:
            address: str = super().get_client_ip(request)
        except (PermissionDenied, ImproperlyConfigured):
            return NO_ADDRESS
        return address

    def clean_email(self, email: str) -> str:
        return canonical_email(email)

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        user.set_password(password)
        # not the whole row, whose other columns may have changed since it was read
        user.save(update_fields=["password"])

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the attempt in the limits of `login_limits`, not in those of django-allauth."""
        usage = login_limits.take_attempt(request, credentials.get("email", ""))
        if usage is None:
            raise self.validation_error("too_many_login_attempts")
        # `authenticate` rolls it back if the password is right
        self._login_failed_rl_usage = usage

    def _delete_login_attempts_cached_email(self, request: HttpRequest, **credentials: Any) -> None:
        login_limits.forget_attempts(request, credentials.get("email", ""))

    def post_login(self, request: HttpRequest, user: User, **more: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **more)
        login_limits.remember_browser(request, response, user)
        return response

    def format_email_subject(self, subject: str) -> str:
        return f"[{urlsplit(settings.SITE_URL).netloc}] {subject}"

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send a mail with the host of SITE_URL in its text and links.

        django-allauth takes the host from the request, whose sender can choose it.
        Raises DomainError mail_not_sent, whether the address has an account or not.
        """
        context = context | {"current_site": {"domain": urlsplit(settings.SITE_URL).netloc}}
        for name in context:
            if name.endswith("_url"):
                path = urlsplit(context[name])._replace(scheme="", netloc="").geturl()
                context[name] = settings.SITE_URL + path
        try:
            super().send_mail(template_prefix, email, context)
        except OSError as error:  # also every error of smtplib; its text may contain the address
            log.warning("mail_not_sent", mail=template_prefix, error=type(error).__name__)
            # otherwise the next attempt within 3 minutes would send nothing, and say that it did
            ratelimit.clear(self.request, action="confirm_email", key=email.lower())
            raise DomainError("mail_not_sent", status=503) from error

    def send_notification_mail(self, template_prefix: str, *args: Any, **kwargs: Any) -> None:
        """Tell a user about a change of the account, which a mail that fails does not undo.

        django-allauth sends it before the signals that audit the change, and an error would lose
        the session of a new password.
        """
        with suppress(DomainError):
            super().send_notification_mail(template_prefix, *args, **kwargs)


class SessionsAdapter(DefaultUserSessionsAdapter):
    """End all other sessions of a user, with the access of programs."""

    def end_sessions(self, sessions: list[UserSession]) -> None:
        user, here = current_user(context.request), context.request.session.session_key
        end_user_sessions(user, by=user, keep=here)


class IdentityAdapter(DefaultSocialAccountAdapter):
    """Find the account that belongs to an address which an identity provider verified."""

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        """Return the user with the verified address, else the one who registered with it."""
        match: tuple[User, str] | None = super().authenticate_by_email(sociallogin)
        if match is None or is_email_verified(*match):
            return match
        user, email = match
        # other users may have added the address as a secondary one without verifying it
        return User.objects.filter(email__iexact=email).first() or user, email

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Revoke all access of an account whose address was never verified.

        The user is refreshed from the database, because allauth saves the whole row afterwards.
        """
        process = sociallogin.state.get("process")
        if process == AuthProcess.CONNECT and request.user.is_authenticated:
            request.user.refresh_from_db()
        if process in (AuthProcess.CONNECT, AuthProcess.REDIRECT) or sociallogin.account.pk:
            return
        if match := self.authenticate_by_email(sociallogin):
            sociallogin.user, email = match
            adopt_user(sociallogin.user, email=email, keep=request.session.session_key or "")


class SecondFactorAdapter(DefaultMFAAdapter):
    """Encrypt the secrets of second factors, so that a copy of the database yields no codes."""

    def encrypt(self, text: str) -> str:
        return cipher_for("second factor").encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return cipher_for("second factor").decrypt(encrypted_text).decode()
