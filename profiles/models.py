"""What an attempt left behind: its files in storage, and the profile made of them."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Artifact(models.Model):
    """A file of an attempt in object storage, kept as uploaded: it is the truth."""

    attempt = models.ForeignKey("tasks.Attempt", models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=100)
    size_bytes = models.PositiveBigIntegerField()
    md5 = models.CharField("MD5", max_length=32)
    #: false between the agent's question where to put it and its word that it is there
    is_stored = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(name="artifact_name", fields=["attempt", "name"])]

    def __str__(self) -> str:
        return f"{self.attempt} {self.name}"

    @property
    def object_key(self) -> str:
        return artifact_key(str(self.attempt_id), self.name)


class Profile(models.Model):
    """The summary of an attempt's profile; its columns lie beside the artifact, as npz."""

    attempt = models.OneToOneField("tasks.Attempt", models.CASCADE, related_name="profile")
    operators = models.PositiveIntegerField(_("operators"))
    device_total_s = models.FloatField(_("total device time (s)"), null=True)
    host_total_s = models.FloatField(_("total host time (s)"), null=True)
    iterations = models.PositiveIntegerField(_("iterations"), null=True)
    mean_ms = models.FloatField(_("mean of an iteration (ms)"), null=True)
    min_ms = models.FloatField(null=True)
    max_ms = models.FloatField(null=True)
    warnings = models.JSONField(default=list)
    built_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("profile")
        verbose_name_plural = _("profiles")

    def __str__(self) -> str:
        return f"{self.attempt} profile"

    @property
    def columns_key(self) -> str:
        return artifact_key(str(self.attempt_id), "columns.npz")


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
    #: standard deviation / mean of the iterations
    cv = models.FloatField(null=True)
    profiled_iterations = models.PositiveIntegerField(default=0)
    profiled_median_ms = models.FloatField(null=True)
    #: median while profiling / median without - 1
    overhead = models.FloatField(_("cost of profiling"), null=True)
    #: by profiled pass, s; null for a profile that could not be read
    device_totals_s = models.JSONField(default=list)
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
    built_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = _("measurement")
        verbose_name_plural = _("measurements")

    def __str__(self) -> str:
        return f"{self.attempt} measurement"


def artifact_key(attempt_id: str, name: str) -> str:
    return f"attempts/{attempt_id}/{name}"
