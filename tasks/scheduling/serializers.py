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
    "clean": _("clean pass: the time of an iteration"),
    "profiled": _("profiled pass: the time of each operator"),
    "dump": _("pass that writes dumps"),
    "timeline": _("run that records the timeline"),
    "memory": _("run that records the memory"),
}


class RunningAnswer(serializers.Serializer):
    """A running attempt of a device."""

    since = serializers.DateTimeField(help_text="Since when.")
    task_id = serializers.IntegerField(
        allow_null=True, help_text="Number of the task; null for one that is not the reader's."
    )
    is_own = serializers.BooleanField(help_text="Whether it is the reader's own.")
    is_check = serializers.BooleanField(help_text="Whether it is a health check.")


class WaitAnswer(serializers.Serializer):
    """The expected time until the start, estimated from the history of the device."""

    p50_s = serializers.FloatField(help_text="In half of the cases at most so long, s.")
    p90_s = serializers.FloatField(help_text="In nine of ten cases at most so long, s.")
    runs = serializers.IntegerField(help_text="Attempts that this was computed from.")


class CauseAnswer(serializers.Serializer):
    """A cause why a task has not started."""

    code = serializers.CharField(help_text="Stable code, such as `offline` or `behind`.")
    text = serializers.SerializerMethodField(help_text="In the reader's words.")

    def get_text(self, cause: Cause) -> str:
        return cause_words(cause)


class HintAnswer(serializers.Serializer):
    """A device that would start the task sooner."""

    worker = serializers.IntegerField(source="worker.pk", help_text="Its number.")
    worker_name = serializers.CharField(source="worker.name", help_text="Its name.")
    same = serializers.CharField(help_text="What both share: `chip` or `cpu_model`.")
    value = serializers.CharField(help_text="Its value.")
    is_free = serializers.BooleanField(help_text="Whether it would start at once.")
    text = serializers.SerializerMethodField(help_text="In the reader's words.")

    def get_text(self, hint: Hint) -> str:
        return hint_words(hint)


class QueueAnswer(serializers.Serializer):
    """The status of a task in the queue of a device."""

    worker = serializers.IntegerField(source="worker.pk", help_text="Number of the device.")
    worker_name = serializers.CharField(source="worker.name", help_text="Its name.")
    position = serializers.IntegerField(help_text="1: the next to start.")
    running = RunningAnswer(many=True, help_text="What runs there now.")
    wait = WaitAnswer(allow_null=True, help_text="Null where nobody can know.")
    causes = CauseAnswer(many=True, help_text="Why it waits, the weightiest first.")
    hints = HintAnswer(many=True, help_text="Devices that would start it sooner.")


class PlaceAnswer(serializers.Serializer):
    """The queue status of a task; null if it does not wait."""

    queue = QueueAnswer(allow_null=True, help_text="Null if the task does not wait.")


class QuotaAnswer(serializers.Serializer):
    """The number of live tasks of a user, and the limit."""

    live = serializers.IntegerField(help_text="That have not ended.")
    limit = serializers.IntegerField(help_text="At most at once.")


class CommandAnswer(serializers.Serializer):
    """A command line that the device would run."""

    kind = serializers.CharField(
        help_text="`clean`, `profiled` or `dump`; of a script `timeline` or `memory`."
    )
    title = serializers.SerializerMethodField(help_text="What it does, in the reader's words.")
    processes = serializers.IntegerField(help_text="How many processes.")
    line = serializers.CharField(help_text="As one would type it.")

    def get_title(self, command: Command) -> str:
        return str(PASS_KINDS[command.kind])


class RefusalAnswer(serializers.Serializer):
    """An error in a request."""

    code = serializers.CharField(help_text="As `code` of the error that asking would end with.")
    field = serializers.CharField(help_text="The field at fault, or empty.", allow_blank=True)
    detail = serializers.SerializerMethodField(help_text="What is wrong, in the reader's words.")

    def get_detail(self, error: DomainError | dict[str, str]) -> str:
        return word(error) if isinstance(error, DomainError) else error["detail"]


class JudgedAnswer(serializers.Serializer):
    """The result of checking a request."""

    refusal = RefusalAnswer(allow_null=True, help_text="Null: the task could be made now.")
    problems = RefusalAnswer(
        many=True,
        help_text="All that is wrong with what is given, whether or not the rest is there.",
    )
    worker = serializers.IntegerField(allow_null=True, help_text="The device it would go to.")
    runtime_version = serializers.CharField(help_text="The version it would run on, or empty.")
    commands = CommandAnswer(
        many=True,
        help_text="What would run, if there are no problems; paths are those of the device.",
    )
    unavailable = serializers.DictField(
        child=serializers.CharField(),
        help_text="Options that the chosen version on its device cannot do, and why.",
    )
    libraries = texts("Libraries of operators that it has.")
    queue = QueueAnswer(allow_null=True, help_text="The queue that it would enter.")
    quota = QuotaAnswer(help_text="Of the reader.")
