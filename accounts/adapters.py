"""Where allauth asks the site."""

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
    def get_client_ip(self, request: HttpRequest) -> str:
        """The client's address; NO_ADDRESS where none can be told, so that who logs in is let in.

        A Unix socket has none, and X-Forwarded-For may say no address or name fewer than
        TRUSTED_PROXY_COUNT of them. All such clients share what is limited by address.
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
        # the rest of the row may have changed since it was read
        user.save(update_fields=["password"])


class IdentityAdapter(DefaultSocialAccountAdapter):
    """Says whose account an address is that an identity provider verified."""

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        """The user who proved to have the address, else the one who registered with it."""
        found: tuple[User, str] | None = super().authenticate_by_email(sociallogin)
        if found is None or is_email_verified(*found):
            return found
        user, email = found
        # others may have written it among their further addresses
        return User.objects.filter(email__iexact=email).first() or user, email

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Shut out whoever registered with an address before its owner came.

        allauth saves the user's whole row after this, so it is read once more here.
        """
        process = sociallogin.state.get("process")
        if process == AuthProcess.CONNECT and request.user.is_authenticated:
            request.user.refresh_from_db()
        if process in (AuthProcess.CONNECT, AuthProcess.REDIRECT) or sociallogin.account.pk:
            return
        if found := self.authenticate_by_email(sociallogin):
            sociallogin.user, email = found
            adopt_user(sociallogin.user, email=email, keep=request.session.session_key or "")


class SecondFactorAdapter(DefaultMFAAdapter):
    """Keeps the seeds of codes encrypted: whoever reads the database alone cannot make codes."""

    def encrypt(self, text: str) -> str:
        return cipher_for("second factor").encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return cipher_for("second factor").decrypt(encrypted_text).decode()
