"""Models of accounts: users, access tokens, webhooks and their deliveries, the audit log."""

import hashlib
import unicodedata
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import PermissionsMixin
from django.db import models, transaction
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.encoding import punycode
from django.utils.translation import gettext_lazy as _

#: maximum length of an e-mail address in forms, in characters; the time to convert a domain to
#: ASCII grows with the square of its length
EMAIL_LENGTH_LIMIT = 254


def canonical_email(text: str) -> str:
    """Return the form in which an e-mail address is stored and compared.

    Case, width and compatibility characters (NFKC) make no difference. An internationalized domain
    is converted to ASCII, as Django does to send mail to it, so that a look-alike such as
    `exаmple.com` with a Cyrillic letter looks different (`xn--exmple-4nf.com`). Non-ASCII letters
    before the @ are kept; validation rejects them. Text that is not an address stays invalid.
    """
    text = unicodedata.normalize("NFKC", text).strip()
    local, at, domain = text.rpartition("@")
    if len(text) > EMAIL_LENGTH_LIMIT:
        return text
    try:
        domain = punycode(domain)
    except UnicodeError:
        return text.casefold()
    return f"{local}{at}{domain}".casefold()


class UserManager(BaseUserManager["User"]):
    """Create and look up users, whose login name is their e-mail address."""

    def create_user(self, email: str, password: str | None = None, **extra: Any) -> "User":
        user = self.model(email=canonical_email(email), **extra)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **extra: Any) -> "User":
        return self.create_user(email, password, is_staff=True, is_superuser=True, **extra)

    def get_by_natural_key(self, username: str | None) -> "User":
        return self.get(email__iexact=canonical_email(username or ""))


class Theme(models.TextChoices):
    SYSTEM = "", _("System setting")
    LIGHT = "light", _("light")
    DARK = "dark", _("dark")


class User(AbstractBaseUser, PermissionsMixin):
    email = models.EmailField(_("e-mail"), unique=True)
    is_staff = models.BooleanField(
        _("administrator"), default=False, help_text=_("May open the administration pages.")
    )
    is_active = models.BooleanField(
        _("active"), default=True, help_text=_("Unselect this instead of deleting a user.")
    )
    date_joined = models.DateTimeField(_("joined"), default=timezone.now)
    #: last request of the sessions that have ended; `with_sessions` adds those that have not
    last_seen_at = models.DateTimeField(null=True, editable=False)
    #: a language code; empty for the browser's language
    language = models.CharField(_("language"), max_length=10, blank=True, default="")
    #: a name of the tz database; empty for the browser's time zone
    time_zone = models.CharField(_("time zone"), max_length=64, blank=True, default="")
    theme = models.CharField(
        _("colours"), max_length=5, choices=Theme, blank=True, default=Theme.SYSTEM
    )
    #: maximum number of tasks that have not ended; None for the setting `TASKS_PER_USER`
    task_limit = models.PositiveIntegerField(
        _("task limit"),
        null=True,
        blank=True,
        help_text=_("Maximum number of waiting and running tasks; empty for the site’s default."),
    )
    #: maximum size of the files of all tasks; None for the setting `STORAGE_PER_USER_BYTES`
    storage_limit_gib = models.PositiveIntegerField(
        _("storage (GiB)"),
        null=True,
        blank=True,
        help_text=_("For the files and results of tasks; empty for the site’s limit."),
    )

    objects: ClassVar[UserManager] = UserManager()
    #: of AbstractBaseUser: the new password until it is saved
    _password: str | None

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"

    class Meta:
        verbose_name = _("user")
        verbose_name_plural = _("users")
        constraints = [
            models.UniqueConstraint(Lower("email"), name="user_email_ignoring_case"),
        ]

    def __str__(self) -> str:
        return self.email

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the user; a new password also revokes the access tokens.

        JWTs and sessions contain a hash of the password, so they need no such step. Django saves a
        password that it only hashes again without this attribute.
        """
        has_new_password = self.pk is not None and self._password is not None
        with transaction.atomic():
            super().save(*args, **kwargs)
            if has_new_password:
                self.access_tokens.filter(revoked_at=None).update(revoked_at=timezone.now())

    def get_session_auth_hash(self) -> str:
        """Return a hash of the password: sessions with another one have ended.

        It does not depend on SECRET_KEY as Django's does; the key signs the rest of a session, too.
        Otherwise a new key would end the sessions of pages with a WebSocket (channels knows no
        SECRET_KEY_FALLBACKS), and move all others to session keys that `UserSession` does not have;
        they could then not be ended.
        """
        return hashlib.sha256(f"session {self.password}".encode()).hexdigest()

    @classmethod
    def normalize_username(cls, username: str) -> str:
        """Return the canonical address; `clean()` calls this before a form checks uniqueness."""
        return canonical_email(username)


class AccessToken(models.Model):
    """A token with which a script acts as its user; only its SHA-256 is stored."""

    class Scope(models.TextChoices):
        READ = "read", _("read tasks, results and devices")
        WRITE = "write", _("create, cancel and delete tasks")
        ADMIN = "admin", _("view and change objects of other users (for administrators)")

    user = models.ForeignKey(User, models.CASCADE, related_name="access_tokens")
    name = models.CharField(_("name"), max_length=100)
    #: the first characters of the secret, by which users tell tokens apart
    prefix = models.CharField(max_length=16)
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(_("permissions"), default=list)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"))
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name

    @property
    def scope_names(self) -> list[str]:
        return [str(self.Scope(scope).label) for scope in self.scopes]

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()


class Webhook(models.Model):
    """A URL of a user that the site calls when events happen."""

    class Event(models.TextChoices):
        TASK_FINISHED = "task.finished", _("one of my tasks ended")
        DEVICE_LOST = "device.lost", _("a device went offline (for administrators)")
        DEVICE_HELD = "device.held", _("a device was quarantined (for administrators)")

    user = models.ForeignKey(User, models.CASCADE, related_name="webhooks")
    url = models.CharField(_("URL"), max_length=500)
    events = models.JSONField(_("events"), default=list)
    #: encrypted; calls are also signed with `former_secret` until its owner ends it
    secret = models.CharField(max_length=300)
    former_secret = models.CharField(max_length=300, blank=True, default="")
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    #: number of consecutive failed deliveries; at `MOST_FAILURES` the webhook is disabled
    failures = models.PositiveSmallIntegerField(default=0)
    disabled_at = models.DateTimeField(_("disabled"), null=True, blank=True)
    #: consecutive slow calls of its user to its host, and the end of the pause after the last one
    slow_calls = models.PositiveSmallIntegerField(default=0, db_default=0)
    rests_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("webhook")
        verbose_name_plural = _("webhooks")
        ordering = ["-id"]

    def __str__(self) -> str:
        """Return the URL without path and query, which often contain secrets.

        The audit log stores this text permanently.
        """
        return f"{urlsplit(self.url).scheme}://{self.host}"

    @property
    def host(self) -> str:
        """The host name of its URL, with the port."""
        return urlsplit(self.url).netloc

    @property
    def event_names(self) -> list[str]:
        return [str(self.Event(event).label) for event in self.events]


class WebhookDelivery(models.Model):
    """One event for one webhook: an outbox row that also records the result of the calls.

    `next_at` is set while more calls are due. `problem` is a code of `webhooks.client` or
    `webhooks.deliveries` for the last call; it is empty if that call did not fail.
    """

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=20)
    #: identifies the occurrence of the event, so that a webhook receives it once
    key = models.CharField(max_length=100)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    next_at = models.DateTimeField(null=True)
    #: when the sweep last enqueued the actor for this delivery
    hinted_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    status = models.PositiveSmallIntegerField(null=True)
    problem = models.CharField(max_length=20, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["next_at"], name="delivery_due", condition=models.Q(next_at__isnull=False)
            ),
            models.Index(fields=["created_at"], name="delivery_age"),
        ]
        constraints = [
            models.UniqueConstraint(name="delivery_once", fields=["webhook", "key"]),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.key}"

    @property
    def message(self) -> str:
        """The id of the message, the same in each call."""
        return f"msg_{self.pk}"

    @property
    def is_given_up(self) -> bool:
        """Whether all calls were made and all of them failed."""
        was_called = self.problem not in ("", "disabled", "not_yours")
        return self.ended_at is not None and was_called


class AuditEntry(models.Model):
    """A change by an administrator, by a user to the own account, or by the site itself.

    Entries are never edited.
    """

    at = models.DateTimeField(_("date and time"), auto_now_add=True, db_index=True)
    #: None for manage.py and the site itself
    actor = models.ForeignKey(User, models.SET_NULL, related_name="+", null=True, blank=True)
    #: address of the actor at that time
    actor_email = models.CharField(_("user"), max_length=254, blank=True)
    #: `<noun>.<verb>`, such as `worker.drain` or `user.promote`
    action = models.CharField(_("action"), max_length=60, db_index=True)
    target_type = models.CharField(max_length=30)
    target_id = models.CharField(max_length=40, blank=True)
    #: name of the target at that time
    target_name = models.CharField(_("object"), max_length=254, blank=True)
    before = models.JSONField(_("before"), default=dict)
    after = models.JSONField(_("after"), default=dict)
    address = models.GenericIPAddressField(_("IP address"), null=True, blank=True)

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit log")
        ordering = ["-id"]
        indexes = [models.Index(fields=["target_type", "target_id"], name="audit_of_target")]

    def __str__(self) -> str:
        return f"{self.action} {self.target_name}"
