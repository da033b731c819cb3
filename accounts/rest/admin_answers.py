"""What goes out about users and the audit log, to administrators."""

from typing import Any

from allauth.usersessions.models import UserSession
from rest_framework import serializers

from accounts.models import AuditEntry, User
from accounts.selectors import has_second_factor
from webprofile.administration.entries import action_name


class UserRow(serializers.ModelSerializer[User]):
    """A user in a list."""

    is_administrator = serializers.BooleanField(
        source="is_staff", help_text="Whether they have every right."
    )
    workers = serializers.SerializerMethodField(
        help_text="Names of the private devices that were granted."
    )

    sessions = serializers.IntegerField(
        source="session_count", help_text="In how many browsers they are logged in."
    )
    last_seen_at = serializers.DateTimeField(
        source="seen_at", allow_null=True, help_text="When they last used a page; null: never."
    )

    class Meta:
        model = User
        fields: tuple[str, ...] = (
            "id", "email", "is_administrator", "is_active", "date_joined", "last_login",
            "last_seen_at", "sessions", "task_limit", "workers",
        )  # fmt: skip
        extra_kwargs = {
            "id": {"help_text": "The user's number."},
            "email": {"help_text": "The login."},
            "is_active": {"help_text": "Whether they may log in."},
            "date_joined": {"help_text": "When the account was made."},
            "last_login": {"help_text": "When they logged in last; null: never."},
            "task_limit": {"help_text": "Tasks waiting and running at once; null: the site's."},
        }

    def get_workers(self, user: User) -> list[str]:
        return sorted(each.name for each in user.granted_workers.all() if not each.is_public)


class UserAnswer(UserRow):
    """A user."""

    tasks = serializers.SerializerMethodField(help_text="How many tasks they have.")
    has_second_factor = serializers.SerializerMethodField(
        help_text="Whether they set up a second factor."
    )

    class Meta(UserRow.Meta):
        fields = (
            *UserRow.Meta.fields,
            "tasks",
            "has_second_factor",
            "language",
            "time_zone",
            "theme",
        )
        extra_kwargs: Any = UserRow.Meta.extra_kwargs | {
            "language": {"help_text": "`en`, `zh-hans`, or empty: what the browser asks for."},
            "time_zone": {"help_text": "Of the tz database; empty: the browser's."},
            "theme": {"help_text": "`light`, `dark`, or empty: as the system."},
        }

    def get_tasks(self, user: User) -> int:
        return user.tasks.count()

    def get_has_second_factor(self, user: User) -> bool:
        return has_second_factor(user)


class SessionAnswer(serializers.ModelSerializer[UserSession]):
    """Where somebody is logged in."""

    class Meta:
        model = UserSession
        fields = ("id", "ip", "user_agent", "created_at", "last_seen_at")
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "ip": {"help_text": "From where; `0.0.0.0`: not known."},
            "user_agent": {"help_text": "With what."},
            "created_at": {"help_text": "Since when."},
            "last_seen_at": {"help_text": "When it was used last."},
        }


class ChangedAnswer(serializers.Serializer):
    """How many it were."""

    changed = serializers.IntegerField(help_text="How many rows changed.")


class AuditAnswer(serializers.ModelSerializer[AuditEntry]):
    """One administrative change."""

    action_text = serializers.SerializerMethodField(help_text="The action in the reader's words.")
    actor = serializers.IntegerField(
        source="actor_id", allow_null=True, help_text="Who; null: the site itself, or a user gone."
    )
    before = serializers.DictField(
        child=serializers.JSONField(allow_null=True), help_text="What it was, by name."
    )
    after = serializers.DictField(
        child=serializers.JSONField(allow_null=True), help_text="What it became, by name."
    )

    class Meta:
        model = AuditEntry
        fields = (
            "id", "at", "actor", "actor_email", "action", "action_text", "target_type",
            "target_id", "target_name", "before", "after", "address",
        )  # fmt: skip
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "at": {"help_text": "When."},
            "actor_email": {"help_text": "Who, as they were called then; empty: the site itself."},
            "action": {"help_text": "Stable code, such as `worker.drain`."},
            "target_type": {"help_text": "Of what: `user`, `worker`, `pool`, `task` ..."},
            "target_id": {"help_text": "Its number."},
            "target_name": {"help_text": "As it was called then."},
            "address": {"help_text": "From where; null: not by a request."},
        }

    def get_action_text(self, entry: AuditEntry) -> str:
        return action_name(entry.action)
