"""Signal receivers that audit what users change about how they log in, and end tokens at a logout.

allauth sends its signals after the change is saved, so an entry is missing if the process dies in
between. Changes by the site's own services are audited in the same transaction.
"""

from typing import Any

from allauth.account import signals as account
from allauth.account.models import EmailAddress
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from allauth.socialaccount import signals as social
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.usersessions.models import UserSession
from django.contrib.auth.signals import user_logged_out
from django.db.models import Q
from django.db.models.signals import pre_delete
from django.dispatch import receiver

from accounts.audit import record_audit_entry
from accounts.models import User
from accounts.tokens.refresh import revoke_refresh_tokens

_KINDS = {
    Authenticator.Type.TOTP: "authenticator_app",
    Authenticator.Type.WEBAUTHN: "security_key",
    Authenticator.Type.RECOVERY_CODES: "recovery_codes",
}


@receiver(user_logged_out)
def logged_out(user: User | None, **kwargs: Any) -> None:
    """End the token pairs of programs that logged in with the password of the user."""
    if user is not None:
        revoke_refresh_tokens(user)


@receiver(pre_delete, sender=UserSession)
def session_ended(instance: UserSession, **kwargs: Any) -> None:
    """Keep the time at which the user was last seen, which would go back with the session."""
    at = instance.last_seen_at
    is_earlier = Q(last_seen_at=None) | Q(last_seen_at__lt=at)
    User.objects.filter(is_earlier, pk=instance.user_id).update(last_seen_at=at)


@receiver(account.user_signed_up)
def registered(user: User, sociallogin: SocialLogin | None = None, **kwargs: Any) -> None:
    """Audit a registration by password, or by a first login at an identity provider."""
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
    """Audit a password reset by a link in a mail, which proves access to the mailbox."""
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
    """Audit a change of the address with which a user logs in."""
    old = {"email": from_email_address.email} if from_email_address else {}
    new = {"email": to_email_address.email}
    record_audit_entry("user.change_email", user, by=user, before=old, after=new)


@receiver(mfa.authenticator_added)
@receiver(mfa.authenticator_reset)
def authenticator_added(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    """Audit a new second factor.

    Recovery codes are created with the first app or key, and again on request.
    """
    action = f"{_KINDS[authenticator.type]}.add"
    record_audit_entry(action, user, by=user, after=_name_of(authenticator))


@receiver(mfa.authenticator_removed)
def authenticator_removed(user: User, authenticator: Authenticator, **kwargs: Any) -> None:
    action = f"{_KINDS[authenticator.type]}.remove"
    record_audit_entry(action, user, by=user, before=_name_of(authenticator))


@receiver(social.social_account_added)
def identity_added(sociallogin: SocialLogin, **kwargs: Any) -> None:
    """Audit a new identity: connected by the user, or by a login with a known address."""
    user = sociallogin.user
    after = {"identity": _provider(sociallogin.account)}
    record_audit_entry("identity.add", user, by=user, after=after)


@receiver(social.social_account_removed)
def identity_removed(socialaccount: SocialAccount, **kwargs: Any) -> None:
    user = socialaccount.user
    record_audit_entry(
        "identity.remove", user, by=user, before={"identity": _provider(socialaccount)}
    )


def _name_of(authenticator: Authenticator) -> dict[str, str]:
    """Return the name of a security key, the only field of an authenticator that is audited."""
    return {"name": authenticator.data["name"]} if "name" in authenticator.data else {}


def _provider(identity: SocialAccount) -> str:
    return str(identity.get_provider().name)
