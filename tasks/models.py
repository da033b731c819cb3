"""Models of tasks: the task, its files, attempts, events, artifacts and logs."""

import re
import shlex
import uuid
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Case, Q, Value, When
from django.utils.translation import gettext_lazy as _

from agent.protocol.options import OPTIONS
from agent.protocol.pairs import ARM_NAMES
from agent.protocol.plan import Plan
from tasks.options import changed_options
from tasks.states import Outcome, Status, TaskState, status_of
from webprofile.messages.notes import notes_text

#: load_and_run chooses its reader by these suffixes; other data files are read as .npy arrays
DATA_SUFFIXES = (".npy", ".json", ".ppm", ".pgm")
#: file names that are safe on every device, as in `agent.protocol.messages.FileName`
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class TaskKind(models.TextChoices):
    MODEL = "model", _("model")
    SCRIPT = "script", _("script")


def program_name(name: str) -> str:
    """Return the file name of a script on the device: the uploaded name if it is safe.

    The program sees it as `sys.argv[0]`, and it appears in tracebacks.
    """
    if PLAIN_NAME.fullmatch(name) and name.endswith((".py", ".zip")):
        return name
    return "script.zip" if name.lower().endswith(".zip") else "script.py"


def quick_plan() -> dict[str, Any]:
    """Return the default of `Task.plan`; requests use `agent.protocol.plan.DEFAULT` instead."""
    return Plan().model_dump(mode="json")


class Purpose(models.TextChoices):
    USER = "user", _("user’s task")
    HEALTH = "health", _("health check")


class Task(models.Model):
    """A user's request to profile a model or a Python program on a worker."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="tasks", verbose_name=_("owner")
    )
    worker = models.ForeignKey(
        "workers.Worker", models.PROTECT, related_name="tasks", verbose_name=_("device")
    )
    runtime_version = models.CharField(_("MegEngine version"), max_length=40)
    kind = models.CharField(
        _("kind"), max_length=6, choices=TaskKind, default=TaskKind.MODEL, db_default=TaskKind.MODEL
    )
    #: `agent.protocol.messages.Script`, None for a model; scripts do not use options, plan, seed
    #: and inputs
    script = models.JSONField(_("script"), null=True, blank=True)
    #: a paired comparison, of which the task's own fields are the baseline: the fields of
    #: `agent.protocol.pairs.Pairing`, and `arms`, a list of {runtime_version, options, inputs} with
    #: None for options and inputs that are those of the baseline; None for other tasks
    pairing = models.JSONField(_("paired comparison"), null=True, blank=True)
    options = models.JSONField(_("options"), default=dict)
    #: `agent.protocol.plan.Plan`
    plan = models.JSONField(_("measuring plan"), default=quick_plan)
    #: seed of all random inputs
    seed = models.PositiveBigIntegerField(_("seed"), default=0)
    #: input variables without a file: a list of `agent.protocol.messages.GivenInput`
    inputs = models.JSONField(_("inputs"), default=list, blank=True)
    #: the task of which this one is a copy
    copied_from = models.ForeignKey(
        "self", models.SET_NULL, related_name="copies", null=True, blank=True
    )
    #: requirements that any worker must meet to take over the task, None if it stays on `worker`:
    #: {"labels": {name: value}, "pool": name, "versions": ">=1.12,<1.14"}, each key optional
    target = models.JSONField(_("any device with"), null=True, blank=True)
    #: higher ones start first; see `tasks.scheduling.fair_share`
    priority = models.SmallIntegerField(_("priority"), default=0)
    purpose = models.CharField(max_length=6, choices=Purpose, default=Purpose.USER)
    #: free text by which the user recognizes the task
    title = models.CharField(_("title"), max_length=200, blank=True, default="")
    #: the owner's limit for all passes of a model together; 0 for the site's limit
    time_limit_s = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    #: the limit that the agent enforces
    timeout_s = models.PositiveIntegerField(_("time limit (s)"))
    state = models.CharField(
        _("state"), max_length=12, choices=TaskState, default=TaskState.INITIATED
    )
    outcome = models.CharField(_("outcome"), max_length=12, choices=Outcome, blank=True, default="")
    reason = models.CharField(_("reason"), max_length=40, blank=True, default="")
    #: explanation of the reason: notes of the agent (`agent.protocol.notes`) as JSON, and a line of
    #: another program's output or an English text
    notes = models.JSONField(_("notes"), default=list, blank=True)
    detail = models.CharField(_("detail"), max_length=1000, blank=True, default="")
    #: the task's files are exempt from retention rules (`profiles.retention.policy`)
    keeps_files = models.BooleanField(_("files are kept"), default=False)
    #: W3C trace context of the request that created the task, if tracing is enabled
    traceparent = models.CharField(max_length=55, blank=True, default="", editable=False)
    event_seq = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)
    submitted_at = models.DateTimeField(_("submitted"), null=True)
    finished_at = models.DateTimeField(_("finished"), null=True)
    upload_deadline_at = models.DateTimeField(null=True)
    queue_deadline_at = models.DateTimeField(null=True)
    processing_deadline_at = models.DateTimeField(null=True)
    #: when the message to build its profile was last sent
    hinted_at = models.DateTimeField(null=True)
    #: after a failure of the infrastructure, the next attempt does not start before this time
    not_before_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["state", "upload_deadline_at"], name="task_upload_deadline"),
            models.Index(fields=["state", "queue_deadline_at"], name="task_queue_deadline"),
            models.Index(fields=["owner", "-id"], name="task_of_owner"),
            models.Index(fields=["worker", "state", "submitted_at"], name="task_queue"),
            # for task lists: each index yields its tasks ordered by id
            models.Index(fields=["owner", "state", "outcome", "-id"], name="task_of_owner_as"),
            models.Index(fields=["state", "outcome", "-id"], name="task_as"),
            models.Index(fields=["worker", "-id"], name="task_of_worker"),
            models.Index(fields=["owner", "worker", "-id"], name="task_of_owner_there"),
            models.Index(fields=["created_at"], name="task_created"),
            models.Index(
                fields=["worker", "state", "owner", "priority", "submitted_at"], name="task_turns"
            ),
            models.Index(
                fields=["state", "submitted_at"],
                name="task_with_target",
                condition=Q(target__isnull=False),
            ),
        ]
        constraints = [
            models.CheckConstraint(
                name="task_outcome_iff_finished",
                condition=(Q(state=TaskState.FINISHED) & ~Q(outcome=""))
                | (~Q(state=TaskState.FINISHED) & Q(outcome="")),
            ),
            models.CheckConstraint(
                name="task_script_iff_kind",
                condition=(
                    Q(kind=TaskKind.SCRIPT) & Q(script__isnull=False) & Q(pairing__isnull=True)
                )
                | (Q(kind=TaskKind.MODEL) & Q(script__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"

    @property
    def is_script(self) -> bool:
        return self.kind == TaskKind.SCRIPT

    @property
    def is_paired(self) -> bool:
        return self.pairing is not None

    @property
    def changed_options(self) -> list[str]:
        """Options that differ from their defaults, such as `--fast_run`.

        They distinguish the task from others with the same model. For a script this is the list of
        its arguments, joined into one string.
        """
        if self.script is not None:
            arguments = self.script.get("arguments", ())
            return [shlex.join(arguments)] if arguments else []
        return changed_options(self.options)

    @property
    def model_name(self) -> str:
        """File name of the model or the program; needs no query if the files are prefetched.

        Of a paired comparison, the names of all arms.
        """
        if self.pairing is not None:
            return " ↔ ".join(file.name for file in self.arm_models)
        return self.model_file.name if self.model_file else ""

    @property
    def arm_models(self) -> "list[TaskFile]":
        """The model of each arm; an arm without its own has that of the baseline."""
        models = {f.arm: f for f in self.files.all() if f.kind == TaskFile.Kind.MODEL}
        count = 1 + len(self.pairing["arms"]) if self.pairing else 1
        return [models.get(arm, models[0]) for arm in range(count)] if 0 in models else []

    @property
    def given_inputs(self) -> list[dict[str, Any]]:
        """The input variables without files of all arms, each with the letter of its arm."""
        arms = self.pairing["arms"] if self.pairing else ()
        of_arms = [self.inputs, *(arm["inputs"] or () for arm in arms)]
        return [
            given | {"arm_letter": letter}
            for letter, inputs in zip(ARM_NAMES, of_arms, strict=False)
            for given in inputs
        ]

    @property
    def model_file(self) -> "TaskFile | None":
        return next((f for f in self.files.all() if f.kind == TaskFile.Kind.MODEL), None)

    @property
    def has_stored_model(self) -> bool:
        file = None if self.is_script else self.model_file
        return file is not None and file.is_stored

    @property
    def may_copy(self) -> bool:
        """Whether all its files are still stored, so that it can be repeated unchanged."""
        return all(file.is_stored for file in self.files.all())

    @property
    def data_files(self) -> "list[TaskFile]":
        return [f for f in self.files.all() if f.kind == TaskFile.Kind.DATA and not f.arm]

    @property
    def status(self) -> Status:
        return status_of(self.state, self.outcome)

    @property
    def message(self) -> str:
        """Explanation of the reason in the active language; empty if there is none."""
        return notes_text(self.notes, self.detail)

    @property
    def is_live(self) -> bool:
        return self.state != TaskState.FINISHED


class UploadedFile(models.Model):
    """A file that is uploaded to object storage by a presigned URL.

    The URL can be used until it expires, also after the file was confirmed. The confirmation
    therefore copies the object to a key that no URL for uploading names.
    """

    size_bytes = models.PositiveBigIntegerField(_("size"))
    #: of a file uploaded in parts as `agent.protocol.multipart` computes it; empty until then
    md5 = models.CharField("MD5", max_length=40, blank=True)
    #: size of the parts of the upload; 0 for a file that is uploaded as a whole
    part_bytes = models.PositiveBigIntegerField(default=0)
    #: ETag of an object that was uploaded in parts; empty for others, whose ETag is the MD5
    etag = models.CharField(max_length=100, blank=True, default="")
    #: random end of the confirmed object's key; empty before the confirmation, and for files
    #: in parts
    copy = models.CharField(max_length=16, blank=True, default="", db_default="", editable=False)
    #: when no presigned URL can write to `upload_key` any more, so that the sweep removes what was
    #: uploaded there after the confirmation
    upload_removal_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        abstract = True

    @property
    def upload_key(self) -> str:
        """Key to which the file is uploaded; contains no text chosen by the user."""
        raise NotImplementedError

    @property
    def object_key(self) -> str:
        """Key of the object in the bucket."""
        return f"{self.upload_key}-{self.copy}" if self.copy else self.upload_key

    @property
    def stored_md5(self) -> str:
        """The checksum that `ObjectStorage.head` returns for the intact object."""
        return self.etag or self.md5


class TaskFile(UploadedFile):
    """A file that the user uploaded: the model, data for input variables, or the file of an option.

    The program of a script has the kind `model`, and its data files are placed beside it.
    """

    class Kind(models.TextChoices):
        MODEL = "model", _("model")
        DATA = "data", _("data")
        OPTION = "option", _("option’s file")

    task = models.ForeignKey(Task, models.CASCADE, related_name="files")
    kind = models.CharField(max_length=6, choices=Kind)
    #: the arm of a paired comparison that it belongs to; 0 for the baseline
    arm = models.PositiveSmallIntegerField(default=0, db_default=0)
    #: its position among the files of its kind and arm, which is part of its name on the device
    position = models.PositiveSmallIntegerField(default=0)
    #: the variable that it feeds; empty for JSON, which names its variables itself
    input = models.CharField(_("input variable"), max_length=300, blank=True)
    #: the option whose file it is; empty for model and data
    option = models.CharField(_("option"), max_length=60, blank=True, default="")
    name = models.CharField(_("file name"), max_length=300)
    #: reported by the first device that downloaded the file; empty until then
    sha256 = models.CharField("SHA-256", max_length=64, blank=True, default="")
    #: arrays from the file's header: [{"name", "dtype", "shape"}], several for JSON
    arrays = models.JSONField(default=list, blank=True)
    stored_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)
    #: the retention rule that removed it, in days (`profiles.retention.policy`); None if another
    #: cause removed it
    kept_days = models.PositiveSmallIntegerField(null=True)

    class Meta:
        indexes = [
            # files whose SHA-256 is known
            models.Index(
                fields=["md5", "size_bytes"], name="file_by_content", condition=~Q(sha256="")
            ),
            models.Index(
                fields=["upload_removal_at"],
                name="file_upload_removal",
                condition=Q(upload_removal_at__isnull=False),
            ),
        ]
        ordering = [
            "arm",
            Case(When(kind="model", then=Value(0)), When(kind="data", then=Value(1)), default=2),
            "position",
            "pk",
        ]
        constraints = [
            models.UniqueConstraint(
                name="one_model_per_task", fields=["task", "arm"], condition=Q(kind="model")
            ),
            models.UniqueConstraint(
                name="one_file_per_input",
                fields=["task", "arm", "input"],
                condition=Q(kind="data") & ~Q(input=""),
            ),
            models.UniqueConstraint(
                name="one_file_per_option",
                fields=["task", "arm", "option"],
                condition=Q(kind="option"),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def arm_letter(self) -> str:
        return ARM_NAMES[self.arm]

    @property
    def is_stored(self) -> bool:
        """Whether storage holds the file: it was uploaded and confirmed, and not removed."""
        return self.stored_at is not None and self.purged_at is None

    @property
    def upload_key(self) -> str:
        return f"tasks/{self.task_id}/{self.pk}"

    @property
    def device_name(self) -> str:
        """File name on the device, with the suffix by which load_and_run chooses its reader.

        A script and its data keep the user's names, which were validated, since the program opens
        them by name.
        """
        if self.task.is_script:
            return program_name(self.name) if self.kind == self.Kind.MODEL else self.name
        if self.kind == self.Kind.MODEL:
            return "model.mge"
        if self.kind == self.Kind.OPTION:
            return OPTIONS[self.option].file
        suffix = PurePosixPath(self.name.lower()).suffix
        return f"input-{self.position}{suffix if suffix in DATA_SUFFIXES else '.npy'}"


class Attempt(models.Model):
    """One execution of a task on one worker.

    It is live until `ended_at` is set; from then on it is fenced: later reports change nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task = models.ForeignKey(Task, models.CASCADE, related_name="attempts")
    worker = models.ForeignKey("workers.Worker", models.PROTECT, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    slot = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    accepted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    lease_expires_at = models.DateTimeField()
    command = models.TextField(blank=True, default="")
    download_s = models.FloatField(null=True)
    run_s = models.FloatField(null=True)
    #: peak memory, the largest of its passes (`AttemptFinished`); null if it was not recorded
    host_memory_bytes = models.BigIntegerField(null=True)
    gpu_memory_bytes = models.BigIntegerField(null=True)
    #: what its times depend on besides the task, as it was at the start: `agent` (version),
    #: `platform` (system and kernel) and `cpu_model` as in `agent.protocol.messages.Facts`, and
    #: `driver` of the first GPU, null without one
    environment = models.JSONField(default=dict, db_default={}, editable=False)
    #: number of passes, 0 if the agent does not report it, and number of passes that have ended
    passes = models.PositiveSmallIntegerField(default=0, db_default=0)
    passes_done = models.PositiveSmallIntegerField(default=0, db_default=0)
    #: when its user asked to end it early and to keep what is measured
    enough_at = models.DateTimeField(null=True)
    #: slowest operators of the first profiled pass, until the result replaces them:
    #: `agent.protocol.messages.SlowestOperators`
    slowest = models.JSONField(null=True, editable=False)
    #: latency of the clean passes so far: `agent.protocol.messages.LatencySoFar`
    latency = models.JSONField(null=True, editable=False)
    #: verdicts of a paired comparison while it is measured: `agent.protocol.pairs.ArmVerdict`
    verdicts = models.JSONField(default=list, db_default=[], editable=False)
    exit_code = models.IntegerField(null=True)
    end_reason = models.CharField(max_length=20, blank=True, default="")
    #: as those of the task
    notes = models.JSONField(default=list, blank=True)
    detail = models.CharField(max_length=1000, blank=True, default="")
    #: end of the output of a run that failed, as its agent reported it; kept until the diagnosis
    log_end = models.TextField(blank=True, default="", db_default="")
    #: when a retention rule removed its log, and the rule's number of days
    log_removed_at = models.DateTimeField(null=True)
    log_kept_days = models.PositiveSmallIntegerField(null=True)

    class Meta:
        ordering = ["number"]
        indexes = [
            models.Index(
                fields=["lease_expires_at"], name="attempt_lease", condition=Q(ended_at=None)
            ),
            models.Index(fields=["worker", "ended_at"], name="attempt_of_worker"),
            # attempts that ended since some time, to be counted or removed
            models.Index(fields=["ended_at"], name="attempt_ended"),
        ]
        constraints = [
            models.UniqueConstraint(name="attempt_number", fields=["task", "number"]),
            models.UniqueConstraint(
                name="one_live_attempt_per_slot",
                fields=["worker", "slot"],
                condition=Q(ended_at=None),
            ),
            models.UniqueConstraint(
                name="one_live_attempt_per_task", fields=["task"], condition=Q(ended_at=None)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} attempt {self.number}"


class TaskEvent(models.Model):
    """Append-only history of a task: audit trail, and the cursor of browsers that catch up."""

    task = models.ForeignKey(Task, models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    kind = models.CharField(max_length=40)
    data = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["seq"]
        constraints = [models.UniqueConstraint(name="task_event_seq", fields=["task", "seq"])]

    def __str__(self) -> str:
        return f"{self.task} {self.seq} {self.kind}"

    @property
    def message(self) -> str:
        """Why another attempt is needed, in the active language; empty for other events."""
        if not self.data.get("retry_because"):
            return ""
        return notes_text(self.data.get("notes", ()), self.data.get("detail", ""))


class Artifact(models.Model):
    """A file of an attempt in object storage, kept unchanged; profiles are derived from it."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=100)
    size_bytes = models.PositiveBigIntegerField()
    md5 = models.CharField("MD5", max_length=32)
    #: false from the agent's request for an upload URL until its report that the file is stored
    is_stored = models.BooleanField(default=True)
    #: when a retention rule removed it, and the rule's number of days (`profiles.retention.policy`)
    removed_at = models.DateTimeField(null=True)
    kept_days = models.PositiveSmallIntegerField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(name="artifact_name", fields=["attempt", "name"])]

    def __str__(self) -> str:
        return f"{self.attempt} {self.name}"

    @property
    def object_key(self) -> str:
        return artifact_key(str(self.attempt_id), self.name)


class LogChunk(models.Model):
    """A chunk of an attempt's log. `offset` and `size` are in bytes of UTF-8."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="log")
    seq = models.PositiveIntegerField()
    offset = models.PositiveBigIntegerField()
    size = models.PositiveIntegerField()
    text = models.TextField()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(name="log_chunk_seq", fields=["attempt", "seq"])]

    def __str__(self) -> str:
        return f"{self.attempt} log {self.seq}"


class EndTally(models.Model):
    """Number of attempts with an outcome and a reason, including deleted attempts.

    See `tasks.lifecycle.counters`.
    """

    outcome = models.CharField(max_length=12)
    reason = models.CharField(max_length=20)
    number = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(name="end_tally", fields=["outcome", "reason"])]

    def __str__(self) -> str:
        return f"{self.outcome} {self.reason} {self.number}"


class Mark(models.Model):
    """The time up to which the sweep has processed a stream of timestamped rows."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} {self.at}"


class Baseline(models.Model):
    """The task with which its owner's other tasks of the same model and device are compared.

    `tasks.baselines` pins and unpins it. It is deleted with the task.
    """

    task = models.OneToOneField(Task, models.CASCADE, related_name="baseline")
    #: those of the task; `model_name` is the file name of the model or the program
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    worker = models.ForeignKey("workers.Worker", models.CASCADE, related_name="+")
    model_name = models.CharField(max_length=300)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="one_baseline_per_model", fields=["owner", "worker", "model_name"]
            )
        ]

    def __str__(self) -> str:
        return f"{self.task} baseline"


class SavedView(models.Model):
    """Filters of the task list under a name."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views")
    name = models.CharField(_("name"), max_length=60)
    #: query string without `?`
    query = models.CharField(max_length=1000)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(name="saved_view_name", fields=["owner", "name"]),
        ]

    def __str__(self) -> str:
        return self.name


class OptionPreset(models.Model):
    """Options of load_and_run that a user saved under a name."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="option_presets"
    )
    name = models.CharField(_("name"), max_length=40)
    #: values by name, as in `Task.options`
    options = models.JSONField()

    class Meta:
        verbose_name = _("preset of options")
        verbose_name_plural = _("presets of options")
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(name="option_preset_name", fields=["owner", "name"]),
        ]

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """The idempotency key of an API request, and the task that the request created."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    #: SHA-256 of method, path and body: reusing the key for another request is an error
    request_sha256 = models.CharField(max_length=64)
    #: the task that the first request created; None until then
    task = models.ForeignKey(Task, models.CASCADE, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="idempotency_key_of_user", fields=["user", "key"]),
        ]

    def __str__(self) -> str:
        return self.key


def artifact_key(attempt_id: str, name: str) -> str:
    return f"attempts/{attempt_id}/{name}"
