"""What goes out about devices and pools to administrators."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from workers.heartbeats import Beat, beat_of
from workers.models import Pool, Worker
from workers.rest.answers import WorkerAnswer, WorkerRow


class CurrentTask(serializers.Serializer):
    """A task that a device runs now."""

    task = serializers.IntegerField(source="task_id", help_text="Its number.")
    owner = serializers.CharField(source="task.owner.email", help_text="E-mail of its owner.")
    since = serializers.DateTimeField(source="created_at", help_text="Since when.")


class HardwareRow(WorkerRow):
    """A device in a list, for administrators."""

    beat = serializers.SerializerMethodField(
        help_text="How to read its last heartbeat: late means offline, lost that its tasks were "
        "given up."
    )
    current = serializers.SerializerMethodField(help_text="The tasks that it runs now.")

    class Meta(WorkerRow.Meta):
        fields = (*WorkerRow.Meta.fields, "beat", "current", "retired_at")
        extra_kwargs = WorkerRow.Meta.extra_kwargs | {
            "retired_at": {"help_text": "When it was taken out of service for good; null: not."}
        }

    @extend_schema_field(serializers.ChoiceField(Beat.choices))
    def get_beat(self, worker: Worker) -> str:
        return beat_of(worker).value

    @extend_schema_field(CurrentTask(many=True))
    def get_current(self, worker: Worker) -> Any:
        return CurrentTask(worker.live_attempts, many=True).data  # type: ignore[attr-defined]


class HardwareAnswer(HardwareRow, WorkerAnswer):
    """A device, for administrators."""

    own_labels = serializers.DictField(
        source="labels",
        child=serializers.CharField(),
        help_text="Labels set by administrators; they hide the device's own of the same name.",
    )
    users = serializers.SerializerMethodField(help_text="E-mails of those it was granted to.")

    class Meta(HardwareRow.Meta):
        fields = (
            *HardwareRow.Meta.fields,
            "held_text", "is_agent_behind", "usage", "created_at", "own_labels", "users",
        )  # fmt: skip
        extra_kwargs = HardwareRow.Meta.extra_kwargs | WorkerAnswer.Meta.extra_kwargs

    def get_users(self, worker: Worker) -> list[str]:
        return sorted(worker.granted.values_list("email", flat=True))


class EnrolLines(serializers.Serializer):
    """What to paste on the device: one of these."""

    curl = serializers.CharField(help_text="Needs Python 3 alone.")
    pipx = serializers.CharField(
        allow_blank=True, help_text="By pipx; empty while the site serves no agent."
    )
    clone = serializers.CharField(help_text="For an agent from a clone of the repository.")


class EnrolledAnswer(serializers.Serializer):
    """A device with a code for its agent."""

    worker = HardwareAnswer(help_text="The device.")
    lines = EnrolLines(help_text="Shown this once: each holds the code.")
    expires_at = serializers.DateTimeField(help_text="Until when the code can be used, once.")


class AdminPool(serializers.ModelSerializer[Pool]):
    """A pool with all of its devices."""

    workers = serializers.SerializerMethodField(help_text="Names of its devices.")

    class Meta:
        model = Pool
        fields = ("id", "name", "description", "workers")
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Its name."},
            "description": {"help_text": "What it is for."},
        }

    def get_workers(self, pool: Pool) -> list[str]:
        return sorted(worker.name for worker in pool.workers.all())
