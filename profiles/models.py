"""Models of profiles and measurements of attempts, of imports, and of objects in storage."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from agent.protocol.artifacts import profile_name
from tasks.models import Task, UploadedFile, artifact_key


class ProfileUpload(models.Model):
    """An import: a profile that a user recorded elsewhere and uploaded.

    Only `profiles.imports.uploads` changes its state.
    """

    class State(models.TextChoices):
        INITIATED = "initiated", _("initiated")
        PROCESSING = "processing", _("processing")
        READY = "ready", _("ready")
        FAILED = "failed", _("failed")
        #: invisible to all users; the sweep removes the files and the row
        DELETED = "deleted", _("deleted")

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        related_name="profile_uploads",
        verbose_name=_("owner"),
    )
    name = models.CharField(_("name"), max_length=255)
    #: total size of its files
    size_bytes = models.PositiveBigIntegerField(_("size"))
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.INITIATED)
    #: why it failed: a code of `profiles.formats.errors`, `profiles.analysis.errors` or
    #: `profiles.imports.uploads`, and a detail in English
    problem = models.CharField(_("problem"), max_length=40, blank=True)
    problem_detail = models.CharField(_("problem detail"), max_length=500, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    #: deadline of the state initiated, and of processing from the start of the reading; for a
    #: deleted import whose files were removed, the time after which no file can arrive any more
    deadline_at = models.DateTimeField(null=True)
    #: when a message to read it was last enqueued
    hinted_at = models.DateTimeField(null=True)
    #: end of the claim of the actor that reads it
    claimed_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("imported profile")
        verbose_name_plural = _("imported profiles")
        ordering = ["-pk"]
        indexes = [
            models.Index(name="upload_state_created", fields=["state", "created_at"]),
            models.Index(name="upload_of_owner", fields=["owner", "-id"]),
        ]

    def __str__(self) -> str:
        return self.name


class OpenedFile(UploadedFile):
    """A file of an import, kept as uploaded; derived data can be rebuilt from it."""

    class Kind(models.TextChoices):
        """As `profiles.formats.detection.FileKind`."""

        PROFILE = "profile", _("profiled pass")
        TRACE = "trace", _("trace")
        MEMORY_FLOW = "memory_flow", _("memory flow")
        STATIC_MEMORY = "static_memory", _("static memory")
        GRAPH = "graph", _("graph")

    upload = models.ForeignKey(ProfileUpload, models.CASCADE, related_name="files")
    #: from 1; the graph of the first pass is shown
    number = models.PositiveSmallIntegerField(_("file number"))
    #: detected from its first bytes
    kind = models.CharField(
        _("kind"), max_length=13, choices=Kind, default=Kind.PROFILE, db_default=Kind.PROFILE
    )
    #: name of the uploaded file
    name = models.CharField(_("file name"), max_length=255)

    class Meta:
        verbose_name = _("file")
        verbose_name_plural = _("files")
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(name="opened_file_number", fields=["upload", "number"])
        ]
        indexes = [
            models.Index(
                fields=["upload_removal_at"],
                name="opened_upload_removal",
                condition=Q(upload_removal_at__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def stored_name(self) -> str:
        """The name in storage, as for a pass of an attempt: `profile.json`, `profile-2.json`."""
        return profile_name(self.number)

    @property
    def upload_key(self) -> str:
        return upload_key(self.upload_id, self.stored_name)


class Profile(models.Model):
    """The summary of a profile; its derived data are stored next to the raw files, as npz.

    It belongs either to an attempt or to an import.
    """

    attempt = models.OneToOneField(
        "tasks.Attempt", models.CASCADE, related_name="profile", null=True, blank=True
    )
    upload = models.OneToOneField(
        ProfileUpload, models.CASCADE, related_name="profile", null=True, blank=True
    )
    operators = models.PositiveIntegerField(_("operators"))
    device_total_s = models.FloatField(_("total device time (s)"), null=True)
    host_total_s = models.FloatField(_("total host time (s)"), null=True)
    iterations = models.PositiveIntegerField(_("iterations"), null=True)
    mean_ms = models.FloatField(_("mean iteration time (ms)"), null=True)
    min_ms = models.FloatField(null=True)
    max_ms = models.FloatField(null=True)
    warnings = models.JSONField(default=list)
    #: `analysis.archive.VERSION` of the derived file
    derived_version = models.PositiveSmallIntegerField(default=0)
    #: error code of the last failed rebuild of the derived data
    problem = models.CharField(max_length=40, blank=True, default="")
    #: when a message to rebuild the derived data was last enqueued; null if no rebuild is requested
    rebuild_hinted_at = models.DateTimeField(null=True)
    built_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("profile")
        verbose_name_plural = _("profiles")
        constraints = [
            models.CheckConstraint(
                name="profile_of_one_source",
                condition=models.Q(attempt__isnull=True) ^ models.Q(upload__isnull=True),
            )
        ]
        indexes = [
            models.Index(
                fields=["rebuild_hinted_at"],
                name="profile_rebuild",
                condition=models.Q(rebuild_hinted_at__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.attempt or self.upload} profile"

    @property
    def task(self) -> Task | None:
        """The task that it is the result of; None for an import."""
        return self.attempt.task if self.attempt else None

    @property
    def owner(self) -> User:
        """The owner of its task or import."""
        source = self.task or self.upload
        assert source is not None  # the constraint `profile_of_one_source`
        return source.owner

    @property
    def page_url(self) -> str:
        """The URL of its result page: that of its task, or its own for an import."""
        if self.attempt is not None:
            return reverse("tasks:detail", args=[self.attempt.task_id])
        return reverse("profiles:detail", args=[self.pk])

    @property
    def measurement(self) -> "AttemptMeasurement | None":
        """The measurement of its attempt; None for an import, and if the agent sent none."""
        return getattr(self.attempt, "measurement", None)

    def raw_key(self, stored_name: str) -> str:
        """The object key of a raw file, which is a copy for an import."""
        if self.upload is None:
            return self.object_key(stored_name)
        return {file.stored_name: file.object_key for file in self.upload.files.all()}[stored_name]

    def object_key(self, name: str) -> str:
        """The object key of a derived file, or of a raw file of an attempt."""
        if self.attempt_id is not None:
            return artifact_key(str(self.attempt_id), name)
        return upload_key(self.upload_id or 0, name)

    @property
    def derived_key(self) -> str:
        """The object key of the derived data (`analysis.archive`)."""
        return self.object_key("derived.npz")

    @property
    def spans_key(self) -> str:
        """The object key of the span index (`formats.chrome_trace.span_index`); traces only."""
        return self.object_key("spans.bin")


class Share(models.Model):
    """A share link to a result or a comparison; only the SHA-256 of its token is stored.

    The result is named by numbers, not by foreign keys: a link outlives its result, so that readers
    learn that it has ended.
    """

    class Kind(models.TextChoices):
        TASK = "task", _("task")
        IMPORT = "import", _("imported profile")
        COMPARISON = "comparison", _("comparison")

    class Part(models.TextChoices):
        """What a link shows in addition to figures, operators and graph."""

        LOG = "log", _("log")
        INPUTS = "inputs", _("inputs")
        MODEL = "model", _("model")

    creator = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", verbose_name=_("creator")
    )
    kind = models.CharField(_("kind"), max_length=10, choices=Kind)
    #: the number of the task, or the numbers of the profiles, the baseline of a comparison first
    ids = models.JSONField(default=list)
    #: title of the result when the link was created
    name = models.CharField(_("name"), max_length=300)
    #: values of `Part`
    parts = models.JSONField(_("also shows"), default=list)
    #: the first characters of the token, by which users tell links apart
    prefix = models.CharField(_("prefix"), max_length=16)
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"))
    revoked_at = models.DateTimeField(_("revoked"), null=True)
    first_viewed_at = models.DateTimeField(_("first viewed"), null=True)
    last_viewed_at = models.DateTimeField(_("last viewed"), null=True)
    views = models.PositiveIntegerField(_("views"), default=0)

    class Meta:
        verbose_name = _("share link")
        verbose_name_plural = _("share links")
        ordering = ["-id"]
        indexes = [models.Index(name="share_of_creator", fields=["creator", "-id"])]

    def __str__(self) -> str:
        return self.name

    @property
    def ends_at(self) -> datetime:
        """When it expires; a lower `SHARE_DAYS_LIMIT` also shortens links that exist."""
        return min(self.expires_at, self.created_at + timedelta(days=settings.SHARE_DAYS_LIMIT))

    @property
    def has_ended(self) -> bool:
        """Whether it was revoked or has expired."""
        return self.revoked_at is not None or self.ends_at <= timezone.now()

    @property
    def part_names(self) -> list[str]:
        return [str(self.Part(part).label) for part in self.parts]


class ReadingTurn(models.Model):
    """When a user's imports and profiles were last read in the background (`profiles.readings`)."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    #: in the future while an actor reads for this user; otherwise the end of the last reading
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.user} until {self.until}"


class PairedResult(models.Model):
    """The result of a paired comparison: an attempt's `paired.json`, reduced to what pages show.

    `arms` and `verdicts` are as in `agent.protocol.pairs`. `pairs` has an entry for each measured
    pair: {ratios: ln(time of the arm / time of the baseline) of each other arm, disturbances: list
    of `agent.protocol.measurement.Disturbance`}. `operators` has an entry for each other arm,
    `comparison.paired_operators.ArmChanges`; it is empty if the arms were not profiled.
    """

    attempt = models.OneToOneField("tasks.Attempt", models.CASCADE, related_name="paired")
    #: of the order of turns
    seed = models.PositiveBigIntegerField()
    #: from the start of the first pair to the verdict
    measuring_s = models.FloatField()
    arms = models.JSONField(default=list)
    pairs = models.JSONField(default=list)
    verdicts = models.JSONField(default=list)
    operators = models.JSONField(default=list)

    class Meta:
        verbose_name = _("paired comparison")
        verbose_name_plural = _("paired comparisons")

    def __str__(self) -> str:
        return f"{self.attempt} pairs"

    @property
    def pairs_to_verdict(self) -> int:
        """Number of pairs, from the first, until all verdicts were clear; all if one is not.

        Later pairs were measured only to find the operators that differ.
        """
        counted = [number for number, pair in enumerate(self.pairs, 1) if not pair["disturbances"]]
        needed = max((row["pairs"] for row in self.verdicts), default=0)
        is_clear = all(row["verdict"] != "not_enough" for row in self.verdicts)
        return counted[needed - 1] if is_clear and 0 < needed < len(counted) else len(self.pairs)


class AttemptMeasurement(models.Model):
    """The figures of an attempt's `measurement.json`; the formulas are in `analysis.measurement`.

    Iteration times are those of the clean passes, null without one. The JSON columns hold the data
    that pages show: `passes` as in `analysis.measurement.figures`, the others as in
    `agent.protocol.measurement`.
    """

    attempt = models.OneToOneField("tasks.Attempt", models.CASCADE, related_name="measurement")
    iterations = models.PositiveIntegerField(_("iterations"), default=0)
    median_ms = models.FloatField(_("median iteration time (ms)"), null=True)
    mean_ms = models.FloatField(_("mean iteration time (ms)"), null=True)
    p90_ms = models.FloatField(null=True)
    p99_ms = models.FloatField(null=True)
    min_ms = models.FloatField(null=True)
    max_ms = models.FloatField(null=True)
    #: iteration times of the clean passes, as `analysis.measurement.Histogram`; empty without one
    histogram = models.JSONField(default=dict)
    #: of the clean passes, as `analysis.measurement.SteadyState`; empty for too few iterations
    steady_state = models.JSONField(default=dict)
    #: of the steady iterations, as `agent.statistics.steadiness.Mode`, fastest first
    modes = models.JSONField(default=list)
    #: of the median, as `agent.statistics.processes.MedianInterval`; empty for one clean pass
    interval = models.JSONField(default=dict)
    #: standard deviation / mean of the iterations
    cv = models.FloatField(null=True)
    profiled_iterations = models.PositiveIntegerField(default=0)
    profiled_median_ms = models.FloatField(null=True)
    #: median while profiling / median without - 1
    overhead = models.FloatField(_("profiling overhead"), null=True)
    #: total device time of each profiled pass, s; null for an unreadable profile
    device_totals_s = models.JSONField(default=list)
    #: the same for the host
    host_totals_s = models.JSONField(default=list, db_default=[])
    device_cv = models.FloatField(null=True)
    start_s = models.FloatField(_("start-up (s)"), null=True)
    load_ms = models.FloatField(_("load time (ms)"), null=True)
    plan = models.JSONField(default=dict)
    passes = models.JSONField(default=list)
    disturbances = models.JSONField(default=list)
    #: load of other processes, as `agent.protocol.measurement.OtherLoad`; empty if unknown
    other_load = models.JSONField(default=dict, db_default={})
    #: speed of the device compared with itself, as `agent.protocol.measurement.Canary`; empty if
    #: the agent did not read it
    canary = models.JSONField(default=dict, db_default={})
    notes = models.JSONField(default=list)
    gate = models.JSONField(default=dict)
    #: state of the device before and after the run: {"before": {...}, "after": {...}}
    device = models.JSONField(default=dict)
    #: as in `Profile`
    derived_version = models.PositiveSmallIntegerField(default=0)
    built_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("measurement")
        verbose_name_plural = _("measurements")

    def __str__(self) -> str:
        return f"{self.attempt} measurement"

    @property
    def is_cut(self) -> bool:
        """Whether the user ended the run before all passes of its plan."""
        return any(note.get("code") == "ended_early" for note in self.notes)

    @property
    def iterations_s(self) -> dict[str, float]:
        """Duration, s, of the iteration recorded by each profiled pass, by the name of its file."""
        return {
            row["profile"]: row["last_ms"] / 1000
            for row in self.passes
            if row.get("profile") and row.get("last_ms")
        }


class PartedUpload(models.Model):
    """A multipart upload in progress (`profiles.parts`).

    The row exists as long as storage may hold parts. It outlives the row of its file, so that the
    sweep can abort the upload.
    """

    object_key = models.CharField(max_length=200, unique=True)
    #: id of the multipart upload in storage
    upload_id = models.CharField(max_length=1000)
    #: checksum of the whole, from the MD5s that the sender listed; set before the parts are joined
    md5 = models.CharField("MD5", max_length=40, blank=True, default="")
    task_file = models.ForeignKey("tasks.TaskFile", models.SET_NULL, related_name="+", null=True)
    opened_file = models.ForeignKey(OpenedFile, models.SET_NULL, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.object_key


class RemovedObjects(models.Model):
    """Objects that the sweep removes from storage (`profiles.retention.deletion`)."""

    #: a prefix of object keys if it ends with a slash, otherwise a single key
    prefix = models.CharField(max_length=100, unique=True)
    #: the next removal is the last: no presigned URL can write there any more, and the row is
    #: deleted
    is_last = models.BooleanField(default=False)
    due_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.prefix


def upload_key(upload_id: int, name: str) -> str:
    return f"opened/{upload_id}/{name}"


def upload_prefix(upload_id: int) -> str:
    """Prefix of all objects of an import, raw and derived."""
    return upload_key(upload_id, "")
