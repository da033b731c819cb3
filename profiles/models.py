"""What an attempt left behind: its files in storage, and the profile made of them."""

from django.db import models
from django.utils.translation import gettext_lazy as _

#: what the build of a profile reads and writes
PROFILE_NAME = "profile.json"
LOG_NAME = "log.txt"
#: the files that an agent may store for an attempt
ARTIFACT_NAMES = (PROFILE_NAME, LOG_NAME)


class Artifact(models.Model):
    """A file of an attempt in object storage, kept as uploaded: it is the truth."""

    attempt = models.ForeignKey("tasks.Attempt", models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=100)
    size_bytes = models.PositiveBigIntegerField()
    md5 = models.CharField("MD5", max_length=32)
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


def artifact_key(attempt_id: str, name: str) -> str:
    return f"attempts/{attempt_id}/{name}"
