"""What users do about the way they log in, written into the audit log as allauth tells of it.

allauth tells when its change is done, so an entry may lack if the process dies in between; what the
site itself changes is noted in the transaction of its service.
"""

from typing import Any

from allauth.account import signals as account
from allauth.account.models import EmailAddress
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from allauth.socialaccount import signals as social
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.dispatch import receiver

from accounts.audit import record_audit_entry
from accounts.models import User

_KINDS = {
    Authenticator.Type.TOTP: "authenticator_app",
    Authenticator.Type.WEBAUTHN: "security_key",
    Authenticator.Type.RECOVERY_CODES: "recovery_codes",
}


@receiver(account.user_signed_up)
def registered(user: User, sociallogin: SocialLogin | None = None, **kwargs: Any) -> None:
    """By a password, or by the first log-in at an identity provider."""
    record_audit_entry(
        "user.register",
        user,
        by=user,
        after={"identity": _provider(sociallogin.account)} if sociallogin else {},
    )


@receiver(account.password_changed)
@receiver(account.password_set)
def password_changed(user: User, **kwargs: Any) -> None:
    record_audit_entry("user.change_password", user, by=user)


@receiver(account.password_reset)
def password_reset(user: User, **kwargs: Any) -> None:
    """By a link in a mail; who opened it has the mailbox."""
    record_audit_entry("user.reset_password", user, by=user)


@receiver(account.email_added)
def email_added(user: User, email_address: EmailAddress, **kwargs: Any) -> None:
    record_audit_entry("user.add_email", user, by=user, after={"email": email_address.email})


@receiver(account.email_removed)
def email_removed(user: User, email_address: EmailAddress, **kwargs: Any) -> None:
    record_audit_entry("user.remove_email", user, by=user, before={"email": email_address.email})


@receiver(account.email_confirmed)
def email_confirmed(email_address: EmailAddress, **kwargs: Any) -> None:
    user = email_address.user
    record_audit_entry("user.verify_email", user, by=user, after={"email": email_address.email})


@receiver(account.email_changed)
def email_changed(
    user: User,
    from_email_address: EmailAddress | None,
    to_email_address: EmailAddress,
    **kwargs: Any,
) -> None:
    """Another address to log in with."""
    old = {"email": from_email_address.email} if from_email_address else {}
    new = {"email": to_email_address.email}
    record_audit_entry("user.change_email", user, by=user, before=old, after=new)


@receiver(mfa.authenticator_added)
@receiver(mfa.authenticator_reset)
def authenticator_added(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    """Recovery codes come with the first app or key, and are made anew when asked for."""
    action = f"{_KINDS[authenticator.type]}.add"
    record_audit_entry(action, user, by=user, after=_named(authenticator))


@receiver(mfa.authenticator_removed)
def authenticator_removed(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    action = f"{_KINDS[authenticator.type]}.remove"
    record_audit_entry(action, user, by=user, before=_named(authenticator))


@receiver(social.social_account_added)
def identity_added(sociallogin: SocialLogin, **kwargs: Any) -> None:
    """By hand, or by the first log-in with an address that a user has already."""
    user = sociallogin.user
    after = {"identity": _provider(sociallogin.account)}
    record_audit_entry("identity.add", user, by=user, after=after)


@receiver(social.social_account_removed)
def identity_removed(socialaccount: SocialAccount, **kwargs: Any) -> None:
    user = socialaccount.user
    record_audit_entry(
        "identity.remove", user, by=user, before={"identity": _provider(socialaccount)}
    )


def _named(authenticator: Authenticator) -> dict[str, str]:
    """The name of a security key; nothing else of an authenticator is for readers."""
    return {"name": authenticator.data["name"]} if "name" in authenticator.data else {}


def _provider(identity: SocialAccount) -> str:
    return str(identity.get_provider().name)
