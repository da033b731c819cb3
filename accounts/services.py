"""Everything that changes users outside of allauth's own forms.

An administrator has every right: `is_staff` and `is_superuser` are set and taken together. There
is always an active one. Functions that answer bool return whether anything changed; what changes
nothing leaves no audit entry.
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
from accounts.sessions import end_sessions
from accounts.tokens.access import usable_tokens
from webprofile.errors import DomainError
from webprofile.sentences import sentences


@transaction.atomic
def ensure_user(*, email: str, administrator: bool = False) -> tuple[User, str | None]:
    """Return the user with this e-mail, made with a random password if there is none yet.

    Who runs the site vouches for the address of a user who is made here, and for no other: who
    registered with it before has proved nothing. The password is returned only in the call that
    makes the user; it is stored hashed.
    Raises DomainError email_taken if somebody proved to have the address beside another one.
    """
    user = User.objects.filter(email__iexact=email).first()
    if user is not None:
        return user, None
    password = secrets.token_urlsafe(12)
    return _made(email, password, administrator=administrator), password


@transaction.atomic
def system_user() -> User:
    """Return the user in whose name the site itself acts; create it if it does not exist.

    Nobody can log in to this account.
    """
    user = User.objects.filter(SYSTEM_USER).order_by("pk").first()
    # the random part makes the address one that nobody can have registered before
    return user or User.objects.create_user(
        f"health-checks-{secrets.token_hex(4)}@{SYSTEM_DOMAIN}", None, is_active=False
    )


@transaction.atomic
def create_account(
    *, email: str, password: str, by: User | None, administrator: bool = False
) -> User:
    """Register a user on an administrator's word, who vouches for the e-mail.

    Raises DomainError: email_bad, email_taken, password_weak; not_administrator.
    """
    _administrators_lock(by)
    email = canonical_email(email)
    try:
        User._meta.get_field("email").clean(email, None)
    except ValidationError as error:
        raise DomainError("email_bad", field="email") from error
    if User.objects.filter(email__iexact=email).exists():
        raise DomainError("email_taken", field="email", status=409)
    _check_password(password, User(email=email))
    user = _made(email, password, administrator=administrator)
    record_audit_entry("user.create", user, by=by, after={"administrator": administrator})
    return user


@transaction.atomic
def promote_user(user: User, *, by: User | None) -> bool:
    """Make a user an administrator.

    Raises DomainError: user_inactive; not_administrator if `by` is none any more.
    """
    _administrators_lock(by)
    rows = User.objects.filter(pk=user.pk)
    if not rows.filter(is_active=True).exists():
        raise DomainError("user_inactive", status=409, user=user.email)
    partly = Q(is_staff=False) | Q(is_superuser=False)
    if not rows.filter(partly).update(is_staff=True, is_superuser=True):
        return False
    user.refresh_from_db()
    _note_role("user.promote", user, by=by, administrator=True)
    return True


@transaction.atomic
def demote_user(user: User, *, by: User | None) -> bool:
    """Make an administrator a plain user; tokens with an administrator's rights are revoked.

    Raises DomainError: last_administrator; not_administrator if `by` is none any more.
    """
    _administrators_lock(by)
    rows = User.objects.filter(pk=user.pk).filter(Q(is_staff=True) | Q(is_superuser=True))
    if not rows.exists():
        return False
    spared = rows.filter(_not_the_last_administrator(user))
    if not spared.update(is_staff=False, is_superuser=False):
        raise DomainError("last_administrator", status=409, user=user.email)
    user.refresh_from_db()
    grand = [t.pk for t in usable_tokens(user) if AccessToken.Scope.ADMIN in t.scopes]
    AccessToken.objects.filter(pk__in=grand).update(revoked_at=timezone.now())
    _note_role("user.demote", user, by=by, administrator=False)
    return True


@transaction.atomic
def set_user_password(user: User, *, password: str, by: User | None) -> None:
    """Give a user another password; sessions and access tokens made before it end.

    Raises DomainError: password_weak; not_administrator if `by` is none any more.
    """
    _administrators_lock(by)
    _check_password(password, user)
    User.objects.filter(pk=user.pk).update(password=make_password(password))
    user.refresh_from_db()
    ended = _shut_out(user)
    record_audit_entry("user.set_password", user, by=by, before=ended)


@transaction.atomic
def remove_second_factor(user: User, *, by: User | None) -> bool:
    """Let a user in by the password alone, who lost what the second factor was made of.

    Ends what another password ends: whoever found the phone may be logged in on it. Always True.
    Raises DomainError: second_factor_none; second_factor_own, since one's own is turned off with
    the password; not_administrator if `by` is none any more.
    """
    _administrators_lock(by)
    if by is not None and by.pk == user.pk:
        raise DomainError("second_factor_own", status=409)
    removed = _second_factor_delete(user)
    if not removed:
        raise DomainError("second_factor_none", status=409, user=user.email)
    record_audit_entry("user.remove_second_factor", user, by=by, before=removed | _shut_out(user))
    # without a mail server, or if it does not answer, the change stands: the audit log has it
    if settings.ACCOUNT_EMAIL_NOTIFICATIONS:
        transaction.on_commit(lambda: _mail_second_factor_removed(user), robust=True)
    return True


def is_email_verified(user: User, email: str) -> bool:
    """Whether an address is a user's, as a mail, an administrator or a provider proved."""
    return bool(EmailAddress.objects.filter(user=user, email__iexact=email, verified=True).exists())


@transaction.atomic
def adopt_user(user: User, *, email: str, keep: str = "") -> bool:
    """Hand an account over to who proved to have its address, if nobody did before.

    Whoever registered with it keeps no way in: password, second factor, identities at providers,
    other addresses, sessions (all but the one of the key `keep`) and tokens end.
    """
    if is_email_verified(user, email):
        return False
    email = canonical_email(email)
    user.refresh_from_db()
    user.email = email
    user.set_unusable_password()
    user.save(update_fields=["email", "password"])
    removed = _second_factor_delete(user)
    SocialAccount.objects.filter(user=user).delete()
    EmailAddress.objects.filter(user=user).delete()
    EmailAddress.objects.create(user=user, email=email, primary=True, verified=True)
    record_audit_entry("user.adopt", user, by=None, before=removed | _shut_out(user, keep=keep))
    return True


@transaction.atomic
def deactivate_user(user: User, *, by: User | None) -> bool:
    """Shut a user out; tasks and results stay.

    Raises DomainError: user_is_oneself, last_administrator; not_administrator if `by` is none any
    more.
    """
    _administrators_lock(by)
    if by is not None and by.pk == user.pk:
        raise DomainError("user_is_oneself", status=409)
    rows = User.objects.filter(pk=user.pk, is_active=True)
    if not rows.exists():
        return False
    plain = Q(is_staff=False)
    if not rows.filter(plain | Q(_not_the_last_administrator(user))).update(is_active=False):
        raise DomainError("last_administrator", status=409, user=user.email)
    user.refresh_from_db()
    ended = _shut_out(user)
    record_audit_entry(
        "user.deactivate", user, by=by, before={"active": True} | ended, after={"active": False}
    )
    return True


@transaction.atomic
def reactivate_user(user: User, *, by: User | None) -> bool:
    """Let a user in again, with the password as it was; access tokens stay revoked."""
    _administrators_lock(by)
    if not human_users().filter(pk=user.pk, is_active=False).update(is_active=True):
        return False
    user.refresh_from_db()
    record_audit_entry(
        "user.reactivate", user, by=by, before={"active": False}, after={"active": True}
    )
    return True


@transaction.atomic
def limit_user(user: User, *, task_limit: int | None, by: User | None) -> bool:
    """Say how many tasks a user may have waiting and running at once; None for the site's limit.

    Raises DomainError not_administrator if `by` is none any more.
    """
    _administrators_lock(by)
    before = User.objects.get(pk=user.pk).task_limit
    if before == task_limit:
        return False
    User.objects.filter(pk=user.pk).update(task_limit=task_limit)
    user.refresh_from_db()
    old, new = {"task_limit": before}, {"task_limit": task_limit}
    record_audit_entry("user.change", user, by=by, before=old, after=new)
    return True


def _made(email: str, password: str, *, administrator: bool) -> User:
    """A user whose address counts as proved, so that a log-in at an identity provider that knows it
    too takes nothing away: with an address that nobody vouched for, the second factor would end.
    """
    make = User.objects.create_superuser if administrator else User.objects.create_user
    if EmailAddress.objects.filter(email__iexact=canonical_email(email), verified=True).exists():
        raise DomainError("email_taken", field="email", status=409)
    user = make(email, password)
    EmailAddress.objects.create(user=user, email=user.email, primary=True, verified=True)
    return user


def _administrators_lock(by: User | None) -> None:
    """Let one change of roles go on at a time, and none by somebody who just lost the right.

    SQLite has one writer at a time anyway; PostgreSQL would let two administrators demote each
    other, each seeing the other one still in place.
    """
    active = User.objects.filter(is_staff=True, is_active=True).order_by("pk")
    locked = set(active.select_for_update().values_list("pk", flat=True))
    if by is not None and by.pk not in locked:
        raise DomainError("not_administrator", status=403)


def _not_the_last_administrator(user: User) -> Q:
    """Asked inside the UPDATE itself: another active administrator stays."""
    others = User.objects.filter(is_staff=True, is_active=True).exclude(pk=user.pk)
    return Q(is_active=False) | Q(Exists(others))


def _check_password(password: str, user: User) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        problems = sentences(error.messages)
        raise DomainError("password_weak", field="password", problems=problems) from error


def _shut_out(user: User, *, keep: str = "") -> dict[str, int]:
    """End sessions (all but the one of the key `keep`) and tokens; how many there were, if any."""
    ended = {
        "sessions": end_sessions(user, keep=keep),
        "access_tokens": usable_tokens(user).update(revoked_at=timezone.now()),
    }
    return {kind: count for kind, count in ended.items() if count}


def _second_factor_delete(user: User) -> dict[str, Any]:
    """What the second factor was made of, by name. No secret is opened: its key may be lost."""
    rows = Authenticator.objects.filter(user=user)
    kinds = Authenticator.Type
    found = {row.type: True for row in rows}
    keys = [str(row.data.get("name", "")) for row in rows if row.type == kinds.WEBAUTHN]
    told = {
        "authenticator_app": found.get(kinds.TOTP),
        "recovery_codes": found.get(kinds.RECOVERY_CODES),
        "security_keys": keys,
    }
    rows.delete()
    return {kind: what for kind, what in told.items() if what}


def _mail_second_factor_removed(user: User) -> None:
    domain = urlsplit(settings.SITE_URL).netloc
    # in the language of its reader, not of the administrator
    with translation.override(user.language or settings.LANGUAGE_CODE):
        subject = gettext("Your second factor was removed")
        text = render_to_string(
            "account/email/second_factor_removed_message.txt",
            {"current_site": {"domain": domain}, "email": user.email},
        )
    send_mail(f"[{domain}] {subject}", text.strip(), None, [user.email])


def _note_role(action: str, user: User, *, by: User | None, administrator: bool) -> None:
    record_audit_entry(
        action,
        user,
        by=by,
        before={"administrator": not administrator},
        after={"administrator": administrator},
    )
