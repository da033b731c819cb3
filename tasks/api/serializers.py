"""Serializers of the API's responses about tasks.

Request bodies are defined beside their views; the body of a new task is in `submission.schema`.
"""

from typing import Any, get_args

from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from profiles.analysis.stability import Noise
from profiles.presenters.attempt_messages import artifact_title
from tasks.lifecycle.reasons import wording_for
from tasks.models import (
    Artifact,
    Attempt,
    OptionPreset,
    Purpose,
    SavedView,
    Task,
    TaskEvent,
    TaskFile,
    TaskKind,
)
from tasks.states import Outcome, Status, TaskState
from webprofile.answers import texts, whole
from webprofile.api.uploads import UploadAnswer


class ArrayAnswer(serializers.Serializer):
    """An array, as described by the header of its file."""

    name = serializers.CharField(help_text="The input variable that it feeds.", allow_blank=True)
    dtype = serializers.CharField(help_text="Type of its numbers, such as `float32`.")
    shape = whole("Its lengths along each axis.")


class FileAnswer(serializers.ModelSerializer[TaskFile]):
    """An uploaded file of a task."""

    is_stored = serializers.BooleanField(
        help_text="Whether storage holds it (it was uploaded and confirmed, and not removed)."
    )
    removed_at = serializers.DateTimeField(
        source="purged_at", allow_null=True, help_text="When it was removed, or null."
    )
    arrays = ArrayAnswer(many=True, help_text="Arrays in its header; empty until it was read.")

    class Meta:
        model = TaskFile
        fields = (
            "id", "kind", "name", "size_bytes", "md5", "sha256", "arm", "input", "option", "arrays",
            "is_stored", "removed_at", "kept_days",
        )  # fmt: skip
        extra_kwargs = {
            "kept_days": {
                "help_text": "Retention time of the rule that removed it, days; null without one."
            },
            "id": {"help_text": "Its number."},
            "kind": {"help_text": "The model or program, data, or the content of an option."},
            "name": {"help_text": "Name given by its owner."},
            "size_bytes": {"help_text": "Its size in bytes."},
            "md5": {
                "help_text": "Its MD5, 32 hexadecimal digits; of a file in parts the MD5 of their "
                "MD5s, then `-` and how many; empty until they arrived."
            },
            "sha256": {"help_text": "SHA-256 computed by a device; empty until then."},
            "arm": {
                "help_text": "The arm of a paired comparison that it belongs to; 0 is the baseline."
            },
            "input": {"help_text": "The input variable; empty for JSON, which names its own."},
            "option": {"help_text": "The option whose content it is, or empty."},
        }


class ReasonAnswer(serializers.Serializer):
    """The reason why a task failed or was cancelled."""

    code = serializers.CharField(help_text="Stable code.")
    blame = serializers.CharField(help_text="Who can fix it: `user`, `device` or `server`.")
    title = serializers.CharField(help_text="Text in the user's language.")
    next_step = serializers.CharField(help_text="Next step in the user's language.")


class GivenInputAnswer(serializers.Serializer):
    """An input variable that has no file."""

    name = serializers.CharField(help_text="The variable.")
    literal = serializers.CharField(help_text="Its numbers, or empty for random ones.")
    shape = serializers.ListField(
        child=serializers.IntegerField(), allow_null=True, help_text="Null for that of the model."
    )
    dtype = serializers.CharField(
        help_text="Data type of random values; empty for that of the model."
    )


class TargetAnswer(serializers.Serializer):
    """The properties that a device must have."""

    labels = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="Labels with their values."
    )
    pool = serializers.CharField(required=False, help_text="Name of a pool of devices.")
    versions = serializers.CharField(
        required=False, help_text="Range of MegEngine versions, such as `>=1.12,<1.14`."
    )


class PlanAnswer(serializers.Serializer):
    """The measurement plan of a task."""

    preset = serializers.CharField(help_text="`quick`, `standard`, `thorough` or `custom`.")
    clean = serializers.BooleanField(help_text="Whether there are clean passes.")
    clean_passes = serializers.IntegerField(help_text="Number of clean passes.")
    clean_min_s = serializers.FloatField(help_text="Minimum duration of each, s.")
    clean_min_iterations = serializers.IntegerField(
        help_text="Minimum number of iterations of each."
    )
    half_width = serializers.FloatField(
        help_text="With a budget: half width of the 95 % interval of the median, as a ratio, at "
        "which no further clean pass is measured.",
    )
    budget_s = serializers.IntegerField(
        help_text="Longest time of all clean passes, s; 0 adds none to `clean_passes`."
    )
    profiled = serializers.IntegerField(help_text="Number of profiled passes.")


class ScriptAnswer(serializers.Serializer):
    """The program of a task and its arguments."""

    entry = serializers.CharField(
        allow_null=True, help_text="Path of the program within its .zip; null for a .py."
    )
    arguments = serializers.ListField(
        child=serializers.CharField(allow_blank=True), help_text="Arguments of the program."
    )
    formats = texts("Recorded formats, each in a separate run.")
    sample_rate = serializers.IntegerField(help_text="Memory is counted every so many operators.")
    profile_device = serializers.BooleanField(help_text="Whether device times are recorded too.")
    time_limit_s = serializers.IntegerField(
        help_text="Requested limit for all runs together, s; 0 for the site's limit."
    )


class ArmAnswer(serializers.Serializer):
    """What an arm of a paired comparison has in place of the baseline's; see also `files`."""

    runtime_version = serializers.CharField(help_text="Version of MegEngine.")
    options = serializers.DictField(
        child=serializers.JSONField(),
        allow_null=True,
        help_text="Its options of load_and_run; null for those of the baseline.",
    )
    inputs = GivenInputAnswer(
        many=True,
        allow_null=True,
        help_text="Its input variables that no file feeds; null for those of the baseline.",
    )


class PairingAnswer(serializers.Serializer):
    """How a paired comparison is made."""

    margin = serializers.FloatField(help_text="Ratios of times within 1 ± `margin` are equal.")
    budget_s = serializers.IntegerField(help_text="The longest time of measuring, s.")
    least_cosine = serializers.FloatField(
        help_text="Outputs with a smaller cosine similarity are different."
    )
    arms = ArmAnswer(many=True, help_text="The arms after the baseline, which is the task itself.")


class TaskRow(serializers.ModelSerializer[Task]):
    """A task in short."""

    status = serializers.ChoiceField(Status.choices, help_text="Status, one of six values.")
    worker = serializers.IntegerField(source="worker_id", help_text="Number of its device.")
    worker_name = serializers.CharField(source="worker.name", help_text="Name of its device.")
    owner = serializers.CharField(source="owner.email", help_text="E-mail address of its owner.")
    kind = serializers.ChoiceField(
        TaskKind.choices, help_text="Kind of the task: a model or a script."
    )
    model_name = serializers.CharField(help_text="File name of its model, or of its program.")
    reason = serializers.SerializerMethodField(help_text="Reason why it did not succeed, or null.")
    detail = serializers.CharField(
        source="message",
        help_text="Explanation of the reason in the user's language; output of a program is quoted "
        "as it is.",
    )
    outcome = serializers.ChoiceField(
        [*Outcome.choices, ("", "not ended")], help_text="Outcome; empty until it has ended."
    )

    class Meta:
        model = Task
        fields: tuple[str, ...] = (
            "id", "kind", "title", "status", "state", "outcome", "reason", "detail", "owner",
            "worker", "worker_name", "runtime_version", "model_name", "priority", "created_at",
            "submitted_at", "finished_at",
        )  # fmt: skip
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "title": {"help_text": "Title given by its owner."},
            "state": {"help_text": "Detailed state."},
            "runtime_version": {"help_text": "Version of MegEngine."},
            "priority": {
                "help_text": "Tasks with a higher priority run first among those of their owner."
            },
            "created_at": {"help_text": "When it was created."},
            "submitted_at": {"help_text": "When all files had been uploaded; null until then."},
            "finished_at": {"help_text": "When it ended; null until then."},
        }

    @extend_schema_field(ReasonAnswer(allow_null=True))
    def get_reason(self, task: Task) -> dict[str, Any] | None:
        wording = wording_for(task)
        if wording is None:
            return None
        return {
            "code": task.reason,
            "blame": wording.blame.value,
            "title": str(wording.title),
            "next_step": str(wording.next_step),
        }


class FiguresAnswer(serializers.Serializer):
    """Figures of a task; null if they are unknown."""

    latency_p50_ms = serializers.FloatField(
        source="latency_ms",
        allow_null=True,
        help_text="Median iteration time without profiling, ms.",
    )
    device_total_s = serializers.FloatField(
        source="device_s", allow_null=True, help_text="Total device time, s."
    )
    noise = serializers.ChoiceField(
        get_args(Noise),
        allow_null=True,
        help_text="Scatter of the passes; `noisy` also for a disturbed run.",
    )
    host_memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Peak memory of the last attempt on the host, bytes."
    )
    gpu_memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Its peak memory on GPUs, bytes."
    )
    run_s = serializers.FloatField(allow_null=True, help_text="Duration of the last attempt, s.")
    profile = serializers.IntegerField(allow_null=True, help_text="Number of its profile.")
    baseline = serializers.IntegerField(
        source="baseline.task",
        default=None,
        allow_null=True,
        help_text="The pinned baseline of its owner, model and device, which may be the task "
        "itself.",
    )
    difference = serializers.FloatField(
        allow_null=True,
        help_text="Device time / that of the baseline - 1; null for the baseline itself. It is no "
        "verdict.",
    )


class ListedTask(TaskRow):
    """A task in a list, with its figures."""

    figures = serializers.SerializerMethodField(help_text="Figures of the task.")

    class Meta(TaskRow.Meta):
        fields = (*TaskRow.Meta.fields, "figures")

    @extend_schema_field(FiguresAnswer)
    def get_figures(self, task: Task) -> Any:
        return FiguresAnswer(self.context["figures"][task.pk]).data


class LatencySoFarAnswer(serializers.Serializer):
    """The latency of the clean passes that have ended while the task runs."""

    passes = serializers.IntegerField(help_text="Number of clean passes that have ended.")
    used = serializers.IntegerField(help_text="Those that count; the others were disturbed.")
    median_ms = serializers.FloatField(help_text="Median of their iterations, ms.")
    low_ms = serializers.FloatField(
        allow_null=True, help_text="Its 95 % interval, ms; null if the passes are too few."
    )
    high_ms = serializers.FloatField(allow_null=True, help_text="The other end of the interval.")


class AttemptAnswer(serializers.ModelSerializer[Attempt]):
    """An attempt to run a task on a device."""

    worker_name = serializers.CharField(source="worker.name", help_text="The device.")
    latency = LatencySoFarAnswer(
        allow_null=True,
        help_text="Latency of the clean passes so far; null before the first one, and when the "
        "result is there.",
    )

    class Meta:
        model = Attempt
        fields = (
            "number", "worker_name", "created_at", "started_at", "ended_at", "end_reason",
            "exit_code", "download_s", "run_s", "host_memory_bytes", "gpu_memory_bytes", "passes",
            "passes_done", "latency", "enough_at", "command",
        )  # fmt: skip
        extra_kwargs = {
            "number": {"help_text": "From 1."},
            "created_at": {"help_text": "When it was assigned to the device."},
            "started_at": {"help_text": "When load_and_run began; null until then."},
            "ended_at": {"help_text": "When it ended; null until then."},
            "end_reason": {"help_text": "Code of the end reason; empty until then."},
            "exit_code": {"help_text": "Of load_and_run; null if it did not end by itself."},
            "download_s": {"help_text": "Download time of the device, s."},
            "run_s": {"help_text": "Run time, s."},
            "host_memory_bytes": {
                "help_text": "Peak memory of its processes on the host, bytes: the largest of its "
                "passes without that of dumps. Null if it was not recorded."
            },
            "gpu_memory_bytes": {
                "help_text": "The same on all its GPUs; null without an NVIDIA GPU."
            },
            "passes": {
                "help_text": "Number of passes, without those that a budget adds; 0 if its agent "
                "does not report it. If all passes are run again because the speed of the device "
                "was outside its usual range, both numbers include those of the first time."
            },
            "passes_done": {"help_text": "Number of finished passes, as last reported."},
            "enough_at": {"help_text": "When ending it early was requested, or null."},
            "command": {"help_text": "The command line of its first process."},
        }


class TaskAnswer(TaskRow):
    """A task."""

    purpose = serializers.ChoiceField(Purpose.choices, help_text="Purpose of the task.")
    options = serializers.DictField(
        child=serializers.JSONField(),
        help_text="Options of load_and_run that differ from their defaults: true, numbers, texts.",
    )
    plan = PlanAnswer(help_text="Measurement plan.")
    script = ScriptAnswer(
        allow_null=True,
        help_text=(
            "How the program is run; options, plan, seed and inputs are then ignored. Null for "
            "a model."
        ),
    )
    pairing = PairingAnswer(
        allow_null=True,
        help_text="How the task is compared with others in pairs of processes, whose result is "
        "`/api/v1/profiles/of-task/{id}/pairs/`; null for other tasks. `plan` is ignored then.",
    )
    inputs = GivenInputAnswer(many=True, help_text="Input variables that no file feeds.")
    target = TargetAnswer(
        allow_null=True,
        help_text="Requirements for any device; null if a device was requested by name.",
    )
    copied_from = serializers.IntegerField(
        source="copied_from_id", allow_null=True, help_text="The task that this one repeats."
    )
    files = FileAnswer(many=True, help_text="Its files: the model or program first.")
    attempts = serializers.SerializerMethodField(help_text="Its attempts, oldest first.")

    class Meta(TaskRow.Meta):
        fields = (
            *TaskRow.Meta.fields,
            "purpose", "script", "options", "plan", "pairing", "inputs", "seed", "target",
            "time_limit_s", "timeout_s", "copied_from", "keeps_files", "files", "attempts",
        )  # fmt: skip
        extra_kwargs = TaskRow.Meta.extra_kwargs | {
            "seed": {"help_text": "Of all random values."},
            "time_limit_s": {
                "help_text": "Requested limit for all passes of a model, s; 0 for the site's limit."
            },
            "timeout_s": {"help_text": "Time limit of a run, s."},
            "keeps_files": {"help_text": "Whether its files are exempt from retention rules."},
        }

    @extend_schema_field(AttemptAnswer(many=True))
    def get_attempts(self, task: Task) -> Any:
        attempts = self.context.get("attempts")  # by who knows them already
        if attempts is None:
            attempts = task.attempts.select_related("worker").order_by("number")
        return AttemptAnswer(attempts, many=True).data


class BaselineAnswer(serializers.Serializer):
    """The pinned baseline of a task's owner, model and device."""

    baseline = serializers.IntegerField(
        source="baseline.pk",
        default=None,
        allow_null=True,
        help_text="Number of the task, which may be the task itself; null if none is pinned.",
    )


class CreatedTask(TaskAnswer):
    """A new task, with the presigned URLs for its files."""

    uploads = UploadAnswer(many=True, help_text="The files that storage does not hold yet.")

    class Meta(TaskAnswer.Meta):
        fields = (*TaskAnswer.Meta.fields, "uploads")


class EventAnswer(serializers.ModelSerializer[TaskEvent]):
    """An event of a task."""

    status = serializers.SerializerMethodField(help_text="The task's status since then.")
    outcome = serializers.SerializerMethodField(help_text="Outcome, or empty.")
    reason = serializers.SerializerMethodField(help_text="Code of the reason, or empty.")
    state = serializers.SerializerMethodField(help_text="The task's state since then.")

    class Meta:
        model = TaskEvent
        fields = ("seq", "kind", "state", "status", "outcome", "reason", "at")
        extra_kwargs = {
            "seq": {"help_text": "Its number among the task's events, from 1, without gaps."},
            "kind": {"help_text": "Name of the event, such as `task.running`."},
            "at": {"help_text": "When."},
        }

    @extend_schema_field(serializers.ChoiceField([*TaskState.choices, ("", "the same")]))
    def get_state(self, event: TaskEvent) -> str:
        state = event.kind.removeprefix("task.")
        return state if state in TaskState.values else ""

    @extend_schema_field(serializers.ChoiceField([*Status.choices, ("", "the same")]))
    def get_status(self, event: TaskEvent) -> str:
        return str(event.data.get("status", ""))

    def get_outcome(self, event: TaskEvent) -> str:
        return str(event.data.get("outcome", ""))

    def get_reason(self, event: TaskEvent) -> str:
        return str(event.data.get("reason", ""))


class EventsAnswer(serializers.Serializer):
    """Consecutive events of a task."""

    results = EventAnswer(many=True, help_text="In order.")
    last_seq = serializers.IntegerField(help_text="Value of `after` for the next request.")
    is_complete = serializers.BooleanField(help_text="Whether this is the last page.")


class ArtifactAnswer(serializers.Serializer):
    """A file that an attempt produced."""

    name = serializers.CharField(help_text="Its name, such as `profile.json`.")
    attempt = serializers.IntegerField(source="attempt.number", help_text="Number of the attempt.")
    size_bytes = serializers.IntegerField(help_text="Its size in bytes.")
    md5 = serializers.CharField(help_text="Its MD5, 32 hexadecimal digits.")
    title = serializers.SerializerMethodField(help_text="Name in the user's language.")
    url = serializers.SerializerMethodField(
        help_text="URL of the download, which redirects to storage."
    )
    is_stored = serializers.BooleanField(help_text="Whether it can be downloaded.")
    removed_at = serializers.DateTimeField(
        allow_null=True, help_text="When a retention rule removed it, or null."
    )
    kept_days = serializers.IntegerField(
        allow_null=True, help_text="Retention time of the rule, days."
    )

    def get_title(self, artifact: Artifact) -> str:
        return str(artifact_title(artifact.name))

    def get_url(self, artifact: Artifact) -> str:
        attempt = artifact.attempt
        address = reverse("api:task-artifact", args=[attempt.task_id, artifact.name])
        return f"{address}?attempt={attempt.number}"


class OptionPresetAnswer(serializers.ModelSerializer[OptionPreset]):
    """A preset of options."""

    class Meta:
        model = OptionPreset
        fields: tuple[str, ...] = ("id", "name", "options")
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Name given by its owner."},
            "options": {"help_text": "Options of load_and_run by name."},
        }


class SavedViewAnswer(serializers.ModelSerializer[SavedView]):
    """A saved view: filters of the task list under a name."""

    class Meta:
        model = SavedView
        fields: tuple[str, ...] = ("id", "name", "query", "created_at")
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Name given by its owner."},
            "query": {"help_text": "As in the URL of the page, without `?`."},
            "created_at": {"help_text": "When it was saved."},
        }


class SavedAnswer(SavedViewAnswer):
    """The response to saving a view."""

    replaced_query = serializers.CharField(
        help_text="The query that a view of this name had before; empty if the view is new."
    )

    class Meta(SavedViewAnswer.Meta):
        fields = (*SavedViewAnswer.Meta.fields, "replaced_query")
