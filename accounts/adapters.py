"""Adapters of django-allauth: client addresses, identity providers and encrypted second factors."""

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest

from accounts.encryption import cipher_for
from accounts.models import User, canonical_email
from accounts.services import adopt_user, is_email_verified
from accounts.sessions import NO_ADDRESS


class AccountAdapter(DefaultAccountAdapter):
    """Canonical e-mail addresses, and logins from clients with an unknown IP address."""

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
