"""Profiles: summaries of what attempts measured and of files that users uploaded."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agent.protocol.artifacts import profile_name
from tasks.models import artifact_key


class ProfileUpload(models.Model):
    """A profile that a user made elsewhere and opened here, without a run.

    `profiles.imports.uploads` alone writes its state.
    """

    class State(models.TextChoices):
        INITIATED = "initiated", _("initiated")
        PROCESSING = "processing", _("processing")
        READY = "ready", _("ready")
        FAILED = "failed", _("failed")
        #: gone for its owner; the sweep removes files and row
        DELETED = "deleted", _("deleted")

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="profile_uploads"
    )
    name = models.CharField(_("name"), max_length=255)
    #: of all its files together
    size_bytes = models.PositiveBigIntegerField(_("size"))
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.INITIATED)
    #: why it failed: a code of `parsers.errors`, `analysis.errors` or `profiles.imports.uploads`,
    #: and one line in English
    problem = models.CharField(max_length=40, blank=True)
    problem_detail = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    #: until when it may stay initiated or in processing; once its files are removed, until when
    #: one may arrive late
    deadline_at = models.DateTimeField(null=True)
    #: when an actor was last asked to read it
    hinted_at = models.DateTimeField(null=True)
    #: until then one actor reads it, and no other begins
    claimed_until = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("opened profile")
        verbose_name_plural = _("opened profiles")
        ordering = ["-pk"]
        indexes = [
            models.Index(name="upload_state_created", fields=["state", "created_at"]),
            models.Index(name="upload_of_owner", fields=["owner", "-id"]),
        ]

    def __str__(self) -> str:
        return self.name


class OpenedFile(models.Model):
    """A file of an opened profile. Kept as uploaded: it is the truth."""

    class Kind(models.TextChoices):
        """As `parsers.first_look.FileKind`."""

        PROFILE = "profile", _("profiled pass")
        TRACE = "trace", _("trace")
        MEMORY_FLOW = "memory_flow", _("memory flow")
        STATIC_MEMORY = "static_memory", _("static memory")
        GRAPH = "graph", _("graph")

    upload = models.ForeignKey(ProfileUpload, models.CASCADE, related_name="files")
    #: from 1; the first pass's graph is shown
    number = models.PositiveSmallIntegerField()
    #: what its first bytes told
    kind = models.CharField(
        _("kind"), max_length=13, choices=Kind, default=Kind.PROFILE, db_default=Kind.PROFILE
    )
    #: as its owner calls it
    name = models.CharField(_("file name"), max_length=255)
    size_bytes = models.PositiveBigIntegerField(_("size"))
    #: these three as in `tasks.models.TaskFile`
    md5 = models.CharField("MD5", max_length=40, blank=True)
    part_bytes = models.PositiveBigIntegerField(default=0)
    etag = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        verbose_name = _("file")
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(name="opened_file_number", fields=["upload", "number"])
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def stored_md5(self) -> str:
        """What storage answers for it if it is whole."""
        return self.etag or self.md5

    @property
    def stored_name(self) -> str:
        """What a pass of an attempt would be called: `profile.json`, `profile-2.json`."""
        return profile_name(self.number)

    @property
    def object_key(self) -> str:
        return upload_key(self.upload_id, self.stored_name)


class Profile(models.Model):
    """The summary of a profile; its derived data lie beside the raw files, as npz.

    It belongs to an attempt that left it or to an upload, never to both.
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
    mean_ms = models.FloatField(_("mean of an iteration (ms)"), null=True)
    min_ms = models.FloatField(null=True)
    max_ms = models.FloatField(null=True)
    warnings = models.JSONField(default=list)
    #: `analysis.archive.VERSION` of the derived file; 0 for one of before there were versions
    derived_version = models.PositiveSmallIntegerField(default=0)
    #: code of why derived data could not be made anew
    problem = models.CharField(max_length=40, blank=True, default="")
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

    def __str__(self) -> str:
        return f"{self.attempt or self.upload} profile"

    def object_key(self, name: str) -> str:
        """Where a raw or derived file of this profile lies in storage."""
        if self.attempt_id is not None:
            return artifact_key(str(self.attempt_id), name)
        return upload_key(self.upload_id or 0, name)

    @property
    def derived_key(self) -> str:
        """Of what the server made of the raw files (`analysis.archive`)."""
        return self.object_key("derived.npz")

    @property
    def spans_key(self) -> str:
        """Of the index of a trace's spans (`traces.span_index`); other profiles have none."""
        return self.object_key("spans.bin")


class AttemptMeasurement(models.Model):
    """The figures of an attempt's `measurement.json`; the formulas are in `analysis.measuring`.

    Times of iterations are those of the clean pass, null without one. JSON columns hold what pages
    show: `passes` as `analysis.measuring.PassRow`, the rest as in `agent.protocol.measurement`.
    """

    attempt = models.OneToOneField("tasks.Attempt", models.CASCADE, related_name="measurement")
    iterations = models.PositiveIntegerField(_("iterations"), default=0)
    median_ms = models.FloatField(_("median of an iteration (ms)"), null=True)
    mean_ms = models.FloatField(_("mean of an iteration (ms)"), null=True)
    p90_ms = models.FloatField(null=True)
    p99_ms = models.FloatField(null=True)
    min_ms = models.FloatField(null=True)
    max_ms = models.FloatField(null=True)
    #: of the clean pass, as `analysis.histogram.Histogram`; empty without one
    histogram = models.JSONField(default=dict)
    #: standard deviation / mean of the iterations
    cv = models.FloatField(null=True)
    profiled_iterations = models.PositiveIntegerField(default=0)
    profiled_median_ms = models.FloatField(null=True)
    #: median while profiling / median without - 1
    overhead = models.FloatField(_("cost of profiling"), null=True)
    #: by profiled pass, s; null for a profile that could not be read
    device_totals_s = models.JSONField(default=list)
    #: the same on the host; empty for a measurement that was read before this was kept
    host_totals_s = models.JSONField(default=list, db_default=[])
    device_cv = models.FloatField(null=True)
    start_s = models.FloatField(_("start-up (s)"), null=True)
    load_ms = models.FloatField(_("load time (ms)"), null=True)
    plan = models.JSONField(default=dict)
    passes = models.JSONField(default=list)
    contaminations = models.JSONField(default=list)
    notes = models.JSONField(default=list)
    gate = models.JSONField(default=dict)
    #: the device before and after: {"before": {...}, "after": {...}}
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
    def iterations_s(self) -> dict[str, float]:
        """The iteration, s, that each profiled pass holds, by the name of its file.

        Rows of an earlier version do not say; `manage.py reprofile` makes them anew.
        """
        return {
            row["profile"]: row["last_ms"] / 1000
            for row in self.passes
            if row.get("profile") and row.get("last_ms")
        }


class PartedUpload(models.Model):
    """A file on its way into storage in parts (`profiles.parts`).

    The row stands as long as storage may hold parts of it. It outlives its file, so that the sweep
    finds what is to be given up.
    """

    object_key = models.CharField(max_length=200, unique=True)
    #: storage's name for it
    upload_id = models.CharField(max_length=1000)
    #: the checksum that its sender told; set before storage is asked to join the parts
    md5 = models.CharField("MD5", max_length=40, blank=True, default="")
    task_file = models.ForeignKey("tasks.TaskFile", models.SET_NULL, related_name="+", null=True)
    opened_file = models.ForeignKey(OpenedFile, models.SET_NULL, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.object_key


class RemovedObjects(models.Model):
    """Objects that the sweep takes out of storage (`profiles.retention.deletion`)."""

    #: one that ends in a slash names everything below it, another one a single object
    prefix = models.CharField(max_length=100, unique=True)
    #: nobody can write there any more: the row goes too
    is_last = models.BooleanField(default=False)
    due_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.prefix


def upload_key(upload_id: int, name: str) -> str:
    return f"opened/{upload_id}/{name}"


def upload_prefix(upload_id: int) -> str:
    """Everything of an upload lies below it, raw and derived."""
    return upload_key(upload_id, "")
