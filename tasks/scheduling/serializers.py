"""Serializers of the API for queue status and for checking a request without submitting it."""

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from tasks.scheduling.messages import cause_words, hint_words
from tasks.scheduling.queue_status import Cause, Hint
from tasks.submission.drafts import Command
from webprofile.answers import texts
from webprofile.errors import DomainError
from webprofile.messages.errors import word

PASS_KINDS = {
    "clean": _("latency pass: iteration times"),
    "profiled": _("profiled pass: operator times"),
    "dump": _("dump pass: writes dumps"),
    "timeline": _("run that records the timeline"),
    "memory": _("run that records the memory"),
}


class RunningAnswer(serializers.Serializer):
    """A running attempt of a device."""

    since = serializers.DateTimeField(help_text="Since when.")
    task_id = serializers.IntegerField(
        allow_null=True, help_text="Id of the task; null for a task of another user."
    )
    is_own = serializers.BooleanField(help_text="Whether it belongs to the user.")
    is_check = serializers.BooleanField(help_text="Whether it is a health check.")


class WaitAnswer(serializers.Serializer):
    """The expected time until the start, estimated from the history of the device."""

    p50_s = serializers.FloatField(help_text="50th percentile, s.")
    p90_s = serializers.FloatField(help_text="90th percentile, s.")
    runs = serializers.IntegerField(help_text="Attempts that this was computed from.")


class CauseAnswer(serializers.Serializer):
    """A cause why a task has not started."""

    code = serializers.CharField(help_text="Stable code, such as `offline` or `behind`.")
    text = serializers.SerializerMethodField(help_text="Text in the user's language.")

    def get_text(self, cause: Cause) -> str:
        return cause_words(cause)


class HintAnswer(serializers.Serializer):
    """A device that would start the task sooner."""

    worker = serializers.IntegerField(source="worker.pk", help_text="Its number.")
    worker_name = serializers.CharField(source="worker.name", help_text="Its name.")
    same = serializers.CharField(help_text="Common property: `chip` or `cpu_model`.")
    value = serializers.CharField(help_text="Its value.")
    is_free = serializers.BooleanField(help_text="Whether it would start immediately.")
    text = serializers.SerializerMethodField(help_text="Text in the user's language.")

    def get_text(self, hint: Hint) -> str:
        return hint_words(hint)


class QueueAnswer(serializers.Serializer):
    """The status of a task in the queue of a device."""

    worker = serializers.IntegerField(source="worker.pk", help_text="Number of the device.")
    worker_name = serializers.CharField(source="worker.name", help_text="Its name.")
    position = serializers.IntegerField(help_text="Position in the queue; 1 starts next.")
    running = RunningAnswer(many=True, help_text="Running attempts.")
    wait = WaitAnswer(allow_null=True, help_text="Null where nobody can know.")
    causes = CauseAnswer(many=True, help_text="Reasons why it waits, most important first.")
    hints = HintAnswer(many=True, help_text="Devices that would start it sooner.")


class PlaceAnswer(serializers.Serializer):
    """The queue status of a task; null if it does not wait."""

    queue = QueueAnswer(allow_null=True, help_text="Null if the task does not wait.")


class QuotaAnswer(serializers.Serializer):
    """The number of live tasks of a user, and the limit."""

    live = serializers.IntegerField(help_text="Number of tasks that have not ended.")
    limit = serializers.IntegerField(help_text="Maximum at the same time.")


class CommandAnswer(serializers.Serializer):
    """A command line that the device would run."""

    kind = serializers.CharField(
        help_text="`clean`, `profiled` or `dump`; of a script `timeline` or `memory`."
    )
    title = serializers.SerializerMethodField(help_text="Description in the user's language.")
    processes = serializers.IntegerField(help_text="Number of processes.")
    line = serializers.CharField(help_text="As typed on a command line.")
    arm = serializers.CharField(
        allow_blank=True, help_text="Letter of the arm of a paired comparison, or empty."
    )

    def get_title(self, command: Command) -> str:
        return str(PASS_KINDS[command.kind])


class RefusalAnswer(serializers.Serializer):
    """An error in a request."""

    code = serializers.CharField(
        help_text="The `code` of the error that a submission would return."
    )
    field = serializers.CharField(help_text="The field at fault, or empty.", allow_blank=True)
    detail = serializers.SerializerMethodField(
        help_text="Description of the error in the user's language."
    )

    def get_detail(self, error: DomainError | dict[str, str]) -> str:
        return word(error) if isinstance(error, DomainError) else error["detail"]


class EarlierAnswer(serializers.Serializer):
    """A result of the user that equals what the request would measure."""

    task = serializers.IntegerField(help_text="Number of its task.")
    finished_at = serializers.DateTimeField(help_text="When it was measured.")
    latency_p50_ms = serializers.FloatField(
        source="latency_ms",
        allow_null=True,
        help_text="Median iteration time without profiling, ms; null without a clean pass.",
    )
    device_total_s = serializers.FloatField(
        source="device_s",
        allow_null=True,
        help_text="Total device time, s; null without a profiled pass.",
    )
    speed_then = serializers.FloatField(
        allow_null=True,
        help_text="Speed of the device then as a share of its usual one; null if it is not known.",
    )
    speed_now = serializers.FloatField(
        allow_null=True, help_text="The same in the newest run on the device."
    )
    changed = texts(
        "What has changed on the device since then: `agent`, `platform` (system or kernel), "
        "`cpu_model`, `driver` (of its GPU)."
    )
    may_check = serializers.BooleanField(
        help_text="Whether `/api/v1/tasks/{id}/check/` can measure it again in a few seconds: it "
        "has a latency, and its files are still stored."
    )
    text = serializers.CharField(help_text="Text in the user's language.")
    drift = serializers.CharField(
        help_text="What is known of the device since then, in the user's language."
    )


class JudgedAnswer(serializers.Serializer):
    """The result of checking a request."""

    refusal = RefusalAnswer(allow_null=True, help_text="Null: the task could be made now.")
    problems = RefusalAnswer(
        many=True,
        help_text="All errors in the given fields, even if other fields are missing.",
    )
    worker = serializers.IntegerField(allow_null=True, help_text="The device that would run it.")
    runtime_version = serializers.CharField(help_text="The version it would run on, or empty.")
    commands = CommandAnswer(
        many=True,
        help_text="What would run, if there are no problems; paths are those of the device.",
    )
    unavailable = serializers.DictField(
        child=serializers.CharField(),
        help_text="Options that the chosen version on its device cannot do, and why; with a "
        "target those that no matching device can do.",
    )
    libraries = texts("Libraries of operators that it has, or all matching devices.")
    queue = QueueAnswer(allow_null=True, help_text="The queue that it would enter.")
    quota = QuotaAnswer(help_text="Of the reader.")
    earlier = EarlierAnswer(
        allow_null=True,
        help_text="The newest undisturbed result of the user with the same device, version, "
        "options, plan, inputs, seed and files (by `md5`), which can be used instead of a new run; "
        "null if there is none, and for scripts, paired comparisons and files without `md5`.",
    )
