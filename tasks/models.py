"""A task, the files it came with, its attempts and its history."""

import shlex
import uuid
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Case, Q, Value, When
from django.utils.translation import gettext_lazy as _

from agent.protocol.options import OPTIONS
from agent.protocol.plan import Plan
from tasks.kinds import Kind, program_name
from tasks.options.words import changed_options
from tasks.states import Outcome, Status, TaskState, status_of

#: load_and_run tells these apart by the suffix; whatever else is uploaded as data is an array
DATA_SUFFIXES = (".npy", ".json", ".ppm", ".pgm")


def quick_plan() -> dict[str, Any]:
    """The plan of a row that is made without one; requests have `agent.protocol.plan.DEFAULT`."""
    return Plan().model_dump(mode="json")


class Purpose(models.TextChoices):
    USER = "user", _("of a user")
    HEALTH = "health", _("health check")


class Task(models.Model):
    """One request of a user to profile a model, or a Python program, on a worker."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="tasks")
    worker = models.ForeignKey("workers.Worker", models.PROTECT, related_name="tasks")
    runtime_version = models.CharField(_("MegEngine version"), max_length=40)
    kind = models.CharField(
        _("kind"), max_length=6, choices=Kind, default=Kind.MODEL, db_default=Kind.MODEL
    )
    #: how a script is called: `agent.protocol.script.Script`; options, plan, seed and inputs, which
    #: are load_and_run's, then mean nothing. None for a model
    script = models.JSONField(_("script"), null=True, blank=True)
    options = models.JSONField(_("options"), default=dict)
    #: what is measured: `agent.protocol.plan.Plan`
    plan = models.JSONField(_("measuring plan"), default=quick_plan)
    #: of all random values
    seed = models.PositiveBigIntegerField(_("seed"), default=0)
    #: the input variables that no file feeds: `agent.protocol.contents.GivenInput`, one each
    inputs = models.JSONField(_("inputs"), default=list, blank=True)
    #: the task that this one repeats
    copied_from = models.ForeignKey(
        "self", models.SET_NULL, related_name="copies", null=True, blank=True
    )
    #: `worker` is where it waits or ran; with a target any device that matches may take it:
    #: {"labels": {name: value}, "pool": name, "versions": ">=1.12,<1.14"}, each key optional
    target = models.JSONField(_("any device with"), null=True, blank=True)
    #: more goes first; of one user's own tasks, unless an administrator set it
    priority = models.SmallIntegerField(_("priority"), default=0)
    purpose = models.CharField(max_length=6, choices=Purpose, default=Purpose.USER)
    #: a user's own words, to find it again
    title = models.CharField(_("title"), max_length=200, blank=True, default="")
    #: what its owner allows a model, of all passes together; 0 for what the site allows
    time_limit_s = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    #: what the device holds to
    timeout_s = models.PositiveIntegerField(_("time limit (s)"))
    state = models.CharField(
        _("state"), max_length=12, choices=TaskState, default=TaskState.INITIATED
    )
    outcome = models.CharField(_("outcome"), max_length=12, choices=Outcome, blank=True, default="")
    reason = models.CharField(_("reason"), max_length=40, blank=True, default="")
    detail = models.CharField(_("detail"), max_length=1000, blank=True, default="")
    #: its owner wants what rules would remove (`profiles.retention.policy`)
    keeps_files = models.BooleanField(_("files are kept"), default=False)
    #: of the request that created it, where traces are kept
    traceparent = models.CharField(max_length=55, blank=True, default="", editable=False)
    event_seq = models.PositiveIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated"), auto_now=True)
    submitted_at = models.DateTimeField(_("submitted"), null=True)
    finished_at = models.DateTimeField(_("finished"), null=True)
    upload_deadline_at = models.DateTimeField(null=True)
    queue_deadline_at = models.DateTimeField(null=True)
    processing_deadline_at = models.DateTimeField(null=True)
    #: when the reading of its profile was asked for last
    hinted_at = models.DateTimeField(null=True)
    #: after a failure of the infrastructure, the next attempt waits until then
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
            # of lists: each holds its tasks in the order of their numbers
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
                condition=(Q(kind=Kind.SCRIPT) & Q(script__isnull=False))
                | (Q(kind=Kind.MODEL) & Q(script__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"

    @property
    def is_script(self) -> bool:
        return self.kind == Kind.SCRIPT

    @property
    def changed_options(self) -> list[str]:
        """What tells it from another task of the same model, in short texts: `--fast_run`.

        The options that differ from their defaults; of a script its arguments, as one text.
        """
        if self.script is not None:
            arguments = self.script.get("arguments", ())
            return [shlex.join(arguments)] if arguments else []
        return changed_options(self.options)

    @property
    def model_name(self) -> str:
        """The model's or the program's file name; of prefetched files without a query."""
        return self.model_file.name if self.model_file else ""

    @property
    def model_file(self) -> "TaskFile | None":
        return next((f for f in self.files.all() if f.kind == TaskFile.Kind.MODEL), None)

    @property
    def data_files(self) -> "list[TaskFile]":
        return [f for f in self.files.all() if f.kind == TaskFile.Kind.DATA]

    @property
    def status(self) -> Status:
        return status_of(self.state, self.outcome)

    @property
    def is_live(self) -> bool:
        return self.state != TaskState.FINISHED


class TaskFile(models.Model):
    """A file of the user's: the model, data for input variables, or the content of an option.

    Of a script the program stands in the model's place, and data lie beside it under their names.
    """

    class Kind(models.TextChoices):
        MODEL = "model", _("model")
        DATA = "data", _("data")
        OPTION = "option", _("option's file")

    task = models.ForeignKey(Task, models.CASCADE, related_name="files")
    kind = models.CharField(max_length=6, choices=Kind)
    #: its place among the data files, which also names it on the device
    position = models.PositiveSmallIntegerField(default=0)
    #: the variable that it feeds; empty for JSON, which names its variables itself
    input = models.CharField(_("input variable"), max_length=300, blank=True)
    #: the option whose content it is, empty for model and data
    option = models.CharField(_("option"), max_length=60, blank=True, default="")
    name = models.CharField(_("file name"), max_length=300)
    size_bytes = models.PositiveBigIntegerField(_("size"))
    #: of a file in parts as `agent.protocol.parts` forms it, empty until all parts arrived
    md5 = models.CharField("MD5", max_length=40, blank=True)
    #: size of the parts that it comes in, 0 for a file that comes in one piece
    part_bytes = models.PositiveBigIntegerField(default=0)
    #: of an object that came in parts what storage calls it; of others that is their MD5
    etag = models.CharField(max_length=100, blank=True, default="")
    #: what a device found, empty until one did
    sha256 = models.CharField("SHA-256", max_length=64, blank=True, default="")
    #: what its header says: [{"name", "dtype", "shape"}], more than one for JSON
    arrays = models.JSONField(default=list, blank=True)
    stored_at = models.DateTimeField(null=True)
    purged_at = models.DateTimeField(null=True)
    #: by which rule it went (`profiles.retention.policy`); None if it went otherwise
    kept_days = models.PositiveSmallIntegerField(null=True)

    class Meta:
        indexes = [
            # of those whose SHA-256 a device told
            models.Index(
                fields=["md5", "size_bytes"], name="file_by_content", condition=~Q(sha256="")
            )
        ]
        ordering = [
            Case(When(kind="model", then=Value(0)), When(kind="data", then=Value(1)), default=2),
            "position",
            "pk",
        ]
        constraints = [
            models.UniqueConstraint(
                name="one_model_per_task", fields=["task"], condition=Q(kind="model")
            ),
            models.UniqueConstraint(
                name="one_file_per_input",
                fields=["task", "input"],
                condition=Q(kind="data") & ~Q(input=""),
            ),
            models.UniqueConstraint(
                name="one_file_per_option",
                fields=["task", "option"],
                condition=Q(kind="option"),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def object_key(self) -> str:
        """Where it lies in the bucket; nothing of the user's own names goes into it."""
        return f"tasks/{self.task_id}/{self.pk}"

    @property
    def stored_md5(self) -> str:
        """What storage answers for it (`ObjectStorage.head`) if it is whole."""
        return self.etag or self.md5

    @property
    def device_name(self) -> str:
        """Its name on the device: load_and_run tells kinds apart by the suffix.

        Of a script and its data it is the user's own, which was checked: the program opens it.
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
    """One try of a task on one worker: lives until `ended_at` is set, is fenced from then on."""

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
    #: how many passes the agent is to make, 0 if it does not say, and how many have ended
    passes = models.PositiveSmallIntegerField(default=0, db_default=0)
    passes_done = models.PositiveSmallIntegerField(default=0, db_default=0)
    exit_code = models.IntegerField(null=True)
    end_reason = models.CharField(max_length=20, blank=True, default="")
    detail = models.CharField(max_length=1000, blank=True, default="")
    #: when a rule removed its log, and after how many days
    log_removed_at = models.DateTimeField(null=True)
    log_kept_days = models.PositiveSmallIntegerField(null=True)

    class Meta:
        ordering = ["number"]
        indexes = [
            models.Index(
                fields=["lease_expires_at"], name="attempt_lease", condition=Q(ended_at=None)
            ),
            models.Index(fields=["worker", "ended_at"], name="attempt_of_worker"),
            # what ended since a moment, to be counted or removed
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


class Artifact(models.Model):
    """A file of an attempt in object storage, kept as uploaded: it is the truth."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=100)
    size_bytes = models.PositiveBigIntegerField()
    md5 = models.CharField("MD5", max_length=32)
    #: false between the agent's question where to put it and its word that it is there
    is_stored = models.BooleanField(default=True)
    #: when a rule removed it, and after how many days (`profiles.retention.policy`)
    removed_at = models.DateTimeField(null=True)
    kept_days = models.PositiveSmallIntegerField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        #: from when it belonged to the app `profiles`
        db_table = "profiles_artifact"
        constraints = [models.UniqueConstraint(name="artifact_name", fields=["attempt", "name"])]

    def __str__(self) -> str:
        return f"{self.attempt} {self.name}"

    @property
    def object_key(self) -> str:
        return artifact_key(str(self.attempt_id), self.name)


class LogChunk(models.Model):
    """A piece of an attempt's log. `offset` and `size` count bytes of UTF-8."""

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
    """How many attempts ever ended so, also removed ones (`tasks.lifecycle.counters`)."""

    outcome = models.CharField(max_length=12)
    reason = models.CharField(max_length=20)
    number = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(name="end_tally", fields=["outcome", "reason"])]

    def __str__(self) -> str:
        return f"{self.outcome} {self.reason} {self.number}"


class Mark(models.Model):
    """Until when the sweep has done something with what comes in the order of time."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} {self.at}"


class SavedView(models.Model):
    """Filters of the task list under a name."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views")
    name = models.CharField(_("name"), max_length=60)
    #: as in the address, without `?`
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


class IdempotencyKey(models.Model):
    """A request that must not act twice, and the task that it made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    #: sha256 of method, path and body: the same key with another request is an error
    request_sha256 = models.CharField(max_length=64)
    #: what the first request made, empty until then
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
