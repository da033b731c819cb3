"""Services that change users: roles, passwords, second factors, limits, deactivation.

The forms of django-allauth change users by themselves. An administrator has all permissions:
`is_staff` and `is_superuser` are set and cleared together. There is always at least one active
administrator. Services with a bool result return whether anything changed; without a change they
write no audit entry.
"""

import secrets
from typing import Any
from urllib.parse import urlsplit

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Exists, Q
from django.template.loader import render_to_string
from django.utils import timezone, translation
from django.utils.translation import gettext

from accounts.audit import record_audit_entry
from accounts.models import AccessToken, User, canonical_email
from accounts.selectors import SYSTEM_DOMAIN, SYSTEM_USER, human_users
from accounts.sessions import end_access
from accounts.tokens.access import usable_tokens
from webprofile.errors import DomainError
from webprofile.sentences import sentences


@transaction.atomic
def ensure_user(*, email: str, administrator: bool = False) -> tuple[User, str | None]:
    """Return the user with this e-mail; create one with a random password if there is none.

    The address of a user who is created here counts as verified, because the operator of the site
    chose it; that of an existing user does not. The password is returned only by the call that
    creates the user; it is stored hashed.
    Raises DomainError email_taken if another user has verified it as a secondary address.
    """
    email = canonical_email(email)
    user = User.objects.filter(email__iexact=email).first()
    if user is not None:
        return user, None
    password = secrets.token_urlsafe(12)
    return _create_user(email, password, administrator=administrator), password


@transaction.atomic
def system_user() -> User:
    """Return the user in whose name the site itself acts; create it if it does not exist.

    This account has no usable password and is inactive, so it cannot log in.
    """
    user = User.objects.filter(SYSTEM_USER).order_by("pk").first()
    # a random part, so that no existing account has this address
    return user or User.objects.create_user(
        f"health-checks-{secrets.token_hex(4)}@{SYSTEM_DOMAIN}", None, is_active=False
    )


@transaction.atomic
def create_account(
    *, email: str, password: str, by: User | None, administrator: bool = False
) -> User:
    """Create a user on behalf of an administrator; the e-mail address counts as verified.

    Raises DomainError: email_bad, email_taken, password_weak; not_administrator.
    """
    _lock_administrators(by)
    email = canonical_email(email)
    try:
        User._meta.get_field("email").clean(email, None)
    except ValidationError as error:
        raise DomainError("email_bad", field="email") from error
    if User.objects.filter(email__iexact=email).exists():
        raise DomainError("email_taken", field="email", status=409)
    _check_password(password, User(email=email))
    user = _create_user(email, password, administrator=administrator)
    record_audit_entry("user.create", user, by=by, after={"administrator": administrator})
    return user


@transaction.atomic
def promote_user(user: User, *, by: User | None) -> bool:
    """Make a user an administrator.

    Raises DomainError: user_inactive; not_administrator if `by` has lost that role.
    """
    _lock_administrators(by)
    rows = User.objects.filter(pk=user.pk)
    if not rows.filter(is_active=True).exists():
        raise DomainError("user_inactive", status=409, user=user.email)
    lacks_permissions = Q(is_staff=False) | Q(is_superuser=False)
    if not rows.filter(lacks_permissions).update(is_staff=True, is_superuser=True):
        return False
    user.refresh_from_db()
    _record_role("user.promote", user, by=by, administrator=True)
    return True


@transaction.atomic
def demote_user(user: User, *, by: User | None) -> bool:
    """Remove the role of an administrator, and revoke access tokens with the scope `admin`.

    Raises DomainError: last_administrator; not_administrator if `by` has lost that role.
    """
    _lock_administrators(by)
    rows = User.objects.filter(pk=user.pk).filter(Q(is_staff=True) | Q(is_superuser=True))
    if not rows.exists():
        return False
    permitted = rows.filter(_not_the_last_administrator(user))
    if not permitted.update(is_staff=False, is_superuser=False):
        raise DomainError("last_administrator", status=409, user=user.email)
    user.refresh_from_db()
    admin_tokens = [t.pk for t in usable_tokens(user) if AccessToken.Scope.ADMIN in t.scopes]
    AccessToken.objects.filter(pk__in=admin_tokens).update(revoked_at=timezone.now())
    _record_role("user.demote", user, by=by, administrator=False)
    return True


@transaction.atomic
def set_user_password(user: User, *, password: str, by: User | None) -> None:
    """Set a user's password, and end the user's sessions and access tokens.

    Raises DomainError: password_weak; not_administrator if `by` has lost that role.
    """
    _lock_administrators(by)
    _check_password(password, user)
    User.objects.filter(pk=user.pk).update(password=make_password(password))
    user.refresh_from_db()
    ended = end_access(user)
    record_audit_entry("user.set_password", user, by=by, before=ended)


@transaction.atomic
def remove_second_factor(user: User, *, by: User | None) -> bool:
    """Remove the second factor of a user who lost it, so that the password alone is required.

    Ends the user's sessions and access tokens, because a lost phone may be logged in. Always
    returns True.
    Raises DomainError: second_factor_none; second_factor_own, because users turn off their own
    second factor in their account; not_administrator if `by` has lost that role.
    """
    _lock_administrators(by)
    if by is not None and by.pk == user.pk:
        raise DomainError("second_factor_own", status=409)
    removed = _delete_second_factor(user)
    if not removed:
        raise DomainError("second_factor_none", status=409, user=user.email)
    record_audit_entry("user.remove_second_factor", user, by=by, before=removed | end_access(user))
    # a mail that cannot be sent does not undo the change, which is in the audit log
    if settings.ACCOUNT_EMAIL_NOTIFICATIONS:
        transaction.on_commit(lambda: _mail_second_factor_removed(user), robust=True)
    return True


def is_email_verified(user: User, email: str) -> bool:
    """Return whether an address was verified as a user's: by mail, administrator or provider."""
    return bool(EmailAddress.objects.filter(user=user, email__iexact=email, verified=True).exists())


@transaction.atomic
def adopt_user(user: User, *, email: str, keep: str = "") -> None:
    """Transfer an account to the user who verified its address, unless it was verified before.

    All access that the account had before is removed: password, second factor, identities at
    providers, other addresses, tokens, webhooks, and all sessions except the one with the key
    `keep`.
    """
    if is_email_verified(user, email):
        return
    email = canonical_email(email)
    user.refresh_from_db()
    user.email = email
    user.set_unusable_password()
    user.save(update_fields=["email", "password"])
    removed = _delete_second_factor(user)
    if webhooks := [str(webhook) for webhook in user.webhooks.all()]:
        user.webhooks.all().delete()
        removed["webhooks"] = webhooks
    SocialAccount.objects.filter(user=user).delete()
    EmailAddress.objects.filter(user=user).delete()
    EmailAddress.objects.create(user=user, email=email, primary=True, verified=True)
    record_audit_entry("user.adopt", user, by=None, before=removed | end_access(user, keep=keep))


@transaction.atomic
def deactivate_user(user: User, *, by: User | None) -> bool:
    """Deactivate a user, and end the user's sessions and access tokens; tasks and results stay.

    Raises DomainError: user_is_oneself, last_administrator; not_administrator if `by` has lost that
    role.
    """
    _lock_administrators(by)
    if by is not None and by.pk == user.pk:
        raise DomainError("user_is_oneself", status=409)
    rows = User.objects.filter(pk=user.pk, is_active=True)
    if not rows.exists():
        return False
    permitted = Q(is_staff=False) | _not_the_last_administrator(user)
    if not rows.filter(permitted).update(is_active=False):
        raise DomainError("last_administrator", status=409, user=user.email)
    user.refresh_from_db()
    ended = end_access(user)
    record_audit_entry(
        "user.deactivate", user, by=by, before={"active": True} | ended, after={"active": False}
    )
    return True


@transaction.atomic
def reactivate_user(user: User, *, by: User | None) -> bool:
    """Reactivate a user; the password is unchanged, and access tokens stay revoked."""
    _lock_administrators(by)
    if not human_users().filter(pk=user.pk, is_active=False).update(is_active=True):
        return False
    user.refresh_from_db()
    record_audit_entry(
        "user.reactivate", user, by=by, before={"active": False}, after={"active": True}
    )
    return True


@transaction.atomic
def limit_user(
    user: User, *, task_limit: int | None, storage_limit_gib: int | None, by: User | None
) -> None:
    """Limit the tasks of a user that have not ended, and their storage; None for the site's limit.

    Raises DomainError not_administrator if `by` has lost that role.
    """
    _lock_administrators(by)
    limits = {"task_limit": task_limit, "storage_limit_gib": storage_limit_gib}
    row = User.objects.get(pk=user.pk)
    new = {name: limit for name, limit in limits.items() if getattr(row, name) != limit}
    if not new:
        return
    old = {name: getattr(row, name) for name in new}
    User.objects.filter(pk=user.pk).update(**new)
    user.refresh_from_db()
    record_audit_entry("user.change", user, by=by, before=old, after=new)


def _create_user(email: str, password: str, *, administrator: bool) -> User:
    """Create a user with a verified address.

    If the address were not verified, the first login at an identity provider with the same address
    would transfer the account (`adopt_user`) and remove its second factor.
    """
    create = User.objects.create_superuser if administrator else User.objects.create_user
    of_others = EmailAddress.objects.filter(email__iexact=canonical_email(email))
    if of_others.filter(verified=True).exists():
        raise DomainError("email_taken", field="email", status=409)
    # without verification, another user could make the address the one for logging in
    of_others.delete()
    user = create(email, password)
    EmailAddress.objects.create(user=user, email=user.email, primary=True, verified=True)
    return user


def _lock_administrators(by: User | None) -> None:
    """Lock the rows of all active administrators, so that changes of roles happen one at a time.

    Without the lock, two administrators could demote each other concurrently on PostgreSQL; SQLite
    has only one writer. Raises DomainError not_administrator if `by` has lost that role.
    """
    active = User.objects.filter(is_staff=True, is_active=True).order_by("pk")
    locked = set(active.select_for_update().values_list("pk", flat=True))
    if by is not None and by.pk not in locked:
        raise DomainError("not_administrator", status=403)


def _not_the_last_administrator(user: User) -> Q:
    """Return the condition, for the UPDATE itself, that another active administrator remains."""
    others = User.objects.filter(is_staff=True, is_active=True).exclude(pk=user.pk)
    return Q(is_active=False) | Q(Exists(others))


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        problems = sentences(error.messages)
        raise DomainError("password_weak", field="password", problems=problems) from error


def _delete_second_factor(user: User) -> dict[str, Any]:
    """Delete a user's second factor; return its parts, for the audit log.

    No secret is decrypted, because its key may be lost.
    """
    rows = Authenticator.objects.filter(user=user)
    types = {row.type for row in rows}
    kinds = Authenticator.Type
    parts = {
        "authenticator_app": kinds.TOTP in types,
        "recovery_codes": kinds.RECOVERY_CODES in types,
        "security_keys": [
            str(row.data.get("name", "")) for row in rows if row.type == kinds.WEBAUTHN
        ],
    }
    rows.delete()
    return {name: value for name, value in parts.items() if value}


def _mail_second_factor_removed(user: User) -> None:
    domain = urlsplit(settings.SITE_URL).netloc
    # in the language of the recipient, not of the administrator
    with translation.override(user.language or settings.LANGUAGE_CODE):
        subject = gettext("Your second factor was removed")
        text = render_to_string(
            "account/email/second_factor_removed_message.txt",
            {"current_site": {"domain": domain}, "email": user.email},
        )
    send_mail(f"[{domain}] {subject}", text.strip(), None, [user.email])


def _record_role(action: str, user: User, *, by: User | None, administrator: bool) -> None:
    record_audit_entry(
        action,
        user,
        by=by,
        before={"administrator": not administrator},
        after={"administrator": administrator},
    )
