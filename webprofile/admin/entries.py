"""Translated names and values of audit log entries."""

from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.models import AuditEntry

#: names of actions, by the code that the audit log stores
ACTIONS: dict[str, Any] = {
    "user.create": _("User added"),
    "user.change": _("User changed"),
    "user.promote": _("Made administrator"),
    "user.demote": _("Administrator rights revoked"),
    "user.set_password": _("Password set"),
    "user.remove_second_factor": _("Second factor removed"),
    "user.register": _("Account registered"),
    "user.change_password": _("Own password changed"),
    "user.reset_password": _("Own password reset by e-mail"),
    "user.add_email": _("E-mail added"),
    "user.remove_email": _("E-mail removed"),
    "user.verify_email": _("E-mail verified"),
    "user.change_email": _("E-mail changed"),
    "authenticator_app.add": _("Authenticator app set up"),
    "authenticator_app.remove": _("Authenticator app turned off"),
    "security_key.add": _("Security key added"),
    "security_key.remove": _("Security key removed"),
    "recovery_codes.add": _("Recovery codes generated"),
    "recovery_codes.remove": _("Recovery codes removed"),
    "identity.add": _("Identity provider added"),
    "identity.remove": _("Identity provider removed"),
    "user.adopt": _("Account transferred to the owner of its e-mail address"),
    "user.deactivate": _("User deactivated"),
    "user.reactivate": _("User reactivated"),
    "user.end_sessions": _("Sessions ended"),
    "user.end_session": _("One session ended"),
    "access_token.issue": _("Access token created"),
    "access_token.revoke": _("Access token revoked"),
    "share.create": _("Share link created"),
    "share.revoke": _("Share link revoked"),
    "share.view": _("Share link opened for the first time"),
    "webhook.add": _("Webhook added"),
    "webhook.remove": _("Webhook removed"),
    "webhook.rotate": _("Webhook secret replaced"),
    "webhook.end_former": _("Previous webhook secret revoked"),
    "webhook.disable": _("Webhook disabled"),
    "webhook.enable": _("Webhook enabled"),
    "grant.add": _("Device access granted"),
    "grant.remove": _("Device access revoked"),
    "worker.create": _("Device registered"),
    "worker.change": _("Device changed"),
    "worker.enrol": _("Enrolment code issued"),
    "worker.drain": _("Drained"),
    "worker.resume": _("Resumed"),
    "worker.hold": _("Quarantined"),
    "worker.release": _("Quarantine lifted"),
    "worker.publish": _("Made public"),
    "worker.hide": _("Made private"),
    "worker.allow_scripts": _("Scripts allowed"),
    "worker.forbid_scripts": _("Scripts forbidden"),
    "worker.revoke": _("Agent token revoked"),
    "worker.retire": _("Retired"),
    "worker.health_check": _("Health check requested"),
    "pool.create": _("Pool added"),
    "pool.change": _("Pool changed"),
    "pool.delete": _("Pool deleted"),
    "task.cancel": _("Task cancelled"),
    "task.change": _("Task changed"),
    "task.end_early": _("Run ended early"),
    "task.delete": _("Task deleted"),
    "profile.delete": _("Imported profile deleted"),
    "purge": _("Files removed by a retention rule"),
}
TARGETS: dict[str, Any] = {
    "user": _("user"),
    "worker": _("device"),
    "pool": _("pool"),
    "accesstoken": _("access token"),
    "share": _("share link"),
    "task": _("task"),
    "profileupload": _("imported profile"),
    "purge": _("retention rule"),
    "webhook": _("webhook"),
}
#: names of changed values, by the key that the audit log stores
KEYS: dict[str, Any] = {
    "administrator": _("administrator"),
    "active": _("active"),
    "sessions": _("sessions"),
    "access_tokens": _("access tokens"),
    "email": _("e-mail"),
    "identity": _("identity provider"),
    "authenticator_app": _("authenticator app"),
    "recovery_codes": _("recovery codes"),
    "security_keys": _("security keys"),
    "webhooks": _("webhooks"),
    "address": _("IP address"),
    "task_limit": _("task limit"),
    "storage_limit_gib": _("storage (GiB)"),
    "name": _("name"),
    "public": _("public"),
    "is_public": _("public"),
    "enabled": _("accepts tasks"),
    "allows_scripts": _("runs scripts"),
    "held": _("quarantined"),
    "retired": _("retired"),
    "tokens": _("tokens"),
    "codes": _("enrolment codes"),
    "slots": _("slots"),
    "labels": _("labels"),
    "pools": _("pools"),
    "worker": _("device"),
    "workers": _("devices"),
    "priority": _("priority"),
    "baseline": _("baseline"),
    "keeps_files": _("keeps files"),
    "description": _("description"),
    "result": _("result"),
    "scopes": _("permissions"),
    "days": _("days"),
    "owner": _("owner"),
    "title": _("title"),
    "outcome": _("outcome"),
    "events": _("events"),
    "before": _("before"),
    "rows": _("rows"),
    "size_bytes": _("size (bytes)"),
    "version": _("MegEngine version"),
}
_PAGES = {
    "user": "admin:accounts_user_change",
    "worker": "admin:workers_worker_change",
    "pool": "admin:workers_pool_change",
}
NOTHING = "–"


@dataclass(frozen=True)
class Difference:
    """A changed value: its name and the texts before and after, `NOTHING` for no value."""

    key: str
    was: str
    now: str

    def __str__(self) -> str:
        """Return "key: old → new", or "key: new" if there was no value before."""
        return f"{self.key}: {self.now if self.was == NOTHING else f'{self.was} → {self.now}'}"


def action_name(code: str) -> str:
    """Return the translated name of an action, or its code if it has none."""
    return str(ACTIONS.get(code, code))


def differences(entry: AuditEntry) -> list[Difference]:
    """Return the values of an entry before and after the change, one item for each key."""
    keys = list(dict.fromkeys([*entry.before, *entry.after]))
    return [
        Difference(
            str(KEYS.get(key, key)), _text(entry.before.get(key)), _text(entry.after.get(key))
        )
        for key in keys
    ]


def target_page(entry: AuditEntry) -> str:
    """Return the URL of the changed object, empty if it has no page."""
    try:
        return reverse(_PAGES[entry.target_type], args=[entry.target_id])
    except (KeyError, NoReverseMatch):
        return ""


def _text(value: Any) -> str:
    if value is True:
        return gettext("yes")
    if value is False:
        return gettext("no")
    if value in (None, "", [], {}):
        return NOTHING
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={_text(part)}" for key, part in value.items())
    return str(value)
