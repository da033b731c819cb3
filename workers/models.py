"""Models of workers (devices): runtimes, secrets, grants, pools and health checks."""

import datetime

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from agent.protocol.messages import MeasuredRoofs
from agent.protocol.options import Capabilities
from webprofile.messages.notes import note_text, notes_text
from webprofile.texts import validate_texts

#: heartbeats that may be missed before a worker counts as offline
MISSED_HEARTBEATS = 3


class WorkerManager(models.Manager["Worker"]):
    """Workers with their last heartbeat, which decides whether they are online."""

    def get_queryset(self) -> models.QuerySet["Worker"]:
        return super().get_queryset().select_related("last_heartbeat")


#: large columns of a worker that scheduling does not need
LONG = ("labels", "facts")


class Worker(models.Model):
    """A registered device. Whether it is online is computed from its last heartbeat, not stored."""

    name = models.CharField(
        _("name"),
        max_length=60,
        unique=True,
        validators=[
            RegexValidator(r"^[\w.-]+$", _("Letters, digits, dots, hyphens and underscores."))
        ],
    )
    is_public = models.BooleanField(
        _("public"),
        default=True,
        help_text=_(
            "If selected, every user can choose this device; otherwise only users with a grant."
        ),
    )
    is_enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("A disabled device gets no new tasks.")
    )
    #: since when it is disabled (drained); None while it is enabled
    disabled_at = models.DateTimeField(null=True, blank=True, editable=False)
    slots = models.PositiveSmallIntegerField(
        _("slots"),
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(16)],
        help_text=_(
            "Number of tasks that may run at the same time. If several tasks run at the same time, "
            "their times are unreliable."
        ),
    )
    #: set by an administrator; the device's owner decides in the agent's configuration
    #: (`db_default`, since processes of the previous release insert rows during a migration)
    allows_scripts = models.BooleanField(
        _("runs scripts"), default=False, db_default=False, editable=False
    )
    #: reported by the agent: the device's owner allows scripts, and a sandbox works
    offers_scripts = models.BooleanField(default=False, db_default=False, editable=False)
    #: names and values, all strings: {"chip": "Kirin 990", "build": "nightly"}
    labels = models.JSONField(_("labels"), default=dict, blank=True)
    #: why an enabled worker gets no tasks: its last health check failed
    held_reason = models.CharField(_("quarantined"), max_length=300, blank=True, editable=False)
    held_at = models.DateTimeField(_("quarantined since"), null=True, blank=True, editable=False)
    #: taken out of service for good; its history stays
    retired_at = models.DateTimeField(_("retired"), null=True, blank=True, editable=False)
    facts = models.JSONField(_("facts"), default=dict, blank=True, editable=False)
    agent_version = models.CharField(_("agent version"), max_length=32, blank=True, editable=False)
    #: when the agent last reported something new, such as a version that it no longer has; None if
    #: it never did since this is recorded
    changed_at = models.DateTimeField(null=True, blank=True, editable=False)
    #: set when the agent reports something new, since its times may be others then, and by each
    #: health check; cleared once the scatter of equal runs is known and an A/A run has followed
    #: (`tasks.health_checks`)
    may_lack_scatter = models.BooleanField(default=True, db_default=True, editable=False)
    created_at = models.DateTimeField(_("registered"), auto_now_add=True)
    granted = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Grant", related_name="granted_workers", blank=True
    )

    objects = WorkerManager()

    class Meta:
        verbose_name = _("device")
        verbose_name_plural = _("devices")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        validate_texts(name=self.name)

    @property
    def last_seen_at(self) -> datetime.datetime | None:
        """Time of the last heartbeat; None if there was none."""
        heartbeat: LastHeartbeat | None = getattr(self, "last_heartbeat", None)
        return None if heartbeat is None else heartbeat.last_seen_at

    @property
    def takes_scripts(self) -> bool:
        """Whether both an administrator and the device's owner allow scripts."""
        return self.allows_scripts and self.offers_scripts

    @property
    def is_online(self) -> bool:
        return self.last_seen_at is not None and self.last_seen_at >= online_since()

    @cached_property
    def shut_out_at(self) -> datetime.datetime | None:
        """When the last token was revoked; None if a token is valid or there never was one.

        The agent cannot connect until the worker is enrolled again. A queryset that is annotated by
        `workers.status.with_shut_out_at` provides the value without a query.
        """
        tokens = self.secrets.filter(kind=WorkerSecret.SecretKind.TOKEN)
        revoked = list(tokens.values_list("revoked_at", flat=True))
        moments = [moment for moment in revoked if moment is not None]
        return max(moments) if moments and len(moments) == len(revoked) else None

    @cached_property
    def failed_check_reason(self) -> str:
        """Reason code of the last failed health check, or ""; the admin list annotates it."""
        failed = self.health_checks.filter(result=HealthCheck.Result.FAILED)
        return failed.values_list("reason", flat=True).first() or ""


def online_since() -> datetime.datetime:
    """Return the earliest time of a last heartbeat with which a worker counts as online."""
    return timezone.now() - datetime.timedelta(seconds=settings.HEARTBEAT_S * MISSED_HEARTBEATS)


class LastHeartbeat(models.Model):
    """The last heartbeat of a worker, in a small row of its own that each heartbeat updates."""

    worker = models.OneToOneField(
        Worker, models.CASCADE, primary_key=True, related_name="last_heartbeat"
    )
    last_seen_at = models.DateTimeField(_("last seen"))

    class Meta:
        db_table = "workers_pulse"

    def __str__(self) -> str:
        return f"{self.worker_id} {self.last_seen_at}"


class Runtime(models.Model):
    """One MegEngine version installed on a worker.

    If it cannot be used, `problem` is the code of the agent's note, with its values.
    """

    class RuntimeKind(models.TextChoices):
        WHEEL = "wheel", _("Python package")
        BINARY = "binary", _("compiled load_and_run")

    worker = models.ForeignKey(Worker, models.CASCADE, related_name="runtimes")
    version = models.CharField(_("MegEngine version"), max_length=40)
    kind = models.CharField(_("kind"), max_length=8, choices=RuntimeKind)
    python = models.CharField(_("Python"), max_length=40, blank=True)
    problem = models.CharField(_("problem"), max_length=40, blank=True)
    problem_values = models.JSONField(default=dict, blank=True, editable=False)
    #: options that its load_and_run supports; empty for all
    flags = models.JSONField(_("known options"), default=list, blank=True)
    #: parts that it was built with, as in `agent.protocol.messages.RuntimeInfo`
    builds = models.JSONField(_("built with"), default=list, blank=True)
    #: names of the C operator libraries in the agent's configuration
    libraries = models.JSONField(_("operator libraries"), default=list, blank=True)
    #: measured peak performance: one `MeasuredRoofs` of the protocol for each kind of device
    roofs = models.JSONField(_("measured limits"), default=list, blank=True)

    class Meta:
        verbose_name = _("runtime")
        verbose_name_plural = _("runtimes")
        ordering = ["version"]
        constraints = [
            models.UniqueConstraint(name="runtime_worker_version", fields=["worker", "version"])
        ]

    def __str__(self) -> str:
        return self.version

    @property
    def problem_text(self) -> str:
        """Why it cannot be used, in the active language; empty if it can."""
        if not self.problem:
            return ""
        return note_text({"code": self.problem, "values": self.problem_values})

    def roofs_of(self, device: str) -> MeasuredRoofs | None:
        """Return the measured peak performance of a kind of device; None if there is none.

        device: `cpu` or `cuda`
        """
        roofs = next((roofs for roofs in self.roofs if roofs.get("device") == device), None)
        return MeasuredRoofs.model_validate(roofs) if roofs else None

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities on which the availability of options depends."""
        return Capabilities(
            kind="wheel" if self.kind == self.RuntimeKind.WHEEL else "binary",
            flags=frozenset(self.flags),
            builds=frozenset(self.builds),
            libraries=frozenset(self.libraries),
            cpu_model=str(self.worker.facts.get("cpu_model", "")),
            run_cores=tuple(self.worker.facts.get("run_cores", ())),
        )


class Grant(models.Model):
    """The permission of a user to use a private worker."""

    worker = models.ForeignKey(Worker, models.CASCADE, related_name="grants")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="grants")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        constraints = [models.UniqueConstraint(name="grant_worker_user", fields=["worker", "user"])]

    def __str__(self) -> str:
        return f"{self.worker} → {self.user}"


class WorkerSecret(models.Model):
    """The SHA-256 of a worker's secret: an enrolment code, which is used once, or a token."""

    class SecretKind(models.TextChoices):
        CODE = "code", _("enrolment code")
        TOKEN = "token", _("token")

    worker = models.ForeignKey(Worker, models.CASCADE, related_name="secrets")
    kind = models.CharField(max_length=5, choices=SecretKind)
    sha256 = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")

    def __str__(self) -> str:
        return f"{self.kind} {self.sha256[:8]}"


class Pool(models.Model):
    """A named set of workers that a task's target may require."""

    name = models.CharField(
        _("name"),
        max_length=60,
        unique=True,
        validators=[
            RegexValidator(r"^[\w.-]+$", _("Letters, digits, dots, hyphens and underscores."))
        ],
    )
    description = models.CharField(_("description"), max_length=300, blank=True)
    workers = models.ManyToManyField(
        Worker, related_name="pools", verbose_name=_("devices"), blank=True
    )

    class Meta:
        verbose_name = _("pool")
        verbose_name_plural = _("pools")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        validate_texts(name=self.name, description=self.description)


class HealthCheck(models.Model):
    """A health check: a small task that verifies that a worker can still profile."""

    class Cause(models.TextChoices):
        SCHEDULE = "schedule", _("on schedule")
        FAILURE = "failure", _("after failures")
        ASKED = "asked", _("requested")
        #: one of several equal runs that show how far runs on this device differ
        SCATTER = "scatter", _("run-to-run variance")
        #: a paired comparison of a model with itself, which shows how often verdicts are wrong
        AA = "aa", _("A/A run")

    class Result(models.TextChoices):
        PENDING = "", _("in progress")
        PASSED = "passed", _("passed")
        FAILED = "failed", _("failed")
        #: no verdict on the device: it went offline first, or the server was at fault
        ABANDONED = "abandoned", _("abandoned")

    worker = models.ForeignKey(Worker, models.CASCADE, related_name="health_checks")
    runtime_version = models.CharField(_("MegEngine version"), max_length=40)
    cause = models.CharField(_("cause"), max_length=8, choices=Cause)
    result = models.CharField(_("result"), max_length=9, choices=Result, blank=True, default="")
    #: id of the task, not a foreign key, since the task may be deleted before the check
    task_id = models.PositiveBigIntegerField(null=True, blank=True, editable=False)
    reason = models.CharField(_("reason"), max_length=40, blank=True)
    #: as those of a task
    notes = models.JSONField(_("notes"), default=list, blank=True)
    detail = models.CharField(_("detail"), max_length=1000, blank=True)
    created_at = models.DateTimeField(_("started"), auto_now_add=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    #: median time of an iteration, s
    median_s = models.FloatField(_("median"), null=True, blank=True)
    #: for `MEASURING`: fingerprint of what the times depend on (kernel, agent, runtime)
    environment = models.CharField(
        max_length=40, blank=True, default="", db_default="", editable=False
    )
    #: for the cause `scatter`: {"device": [s], "host": [s], "latency": [s]}, one value for each
    #: pass; empty if the run was disturbed. For the cause `aa`: `workers.trust.AaFigures`; empty
    #: if all pairs were disturbed
    samples = models.JSONField(default=dict, db_default={}, editable=False)

    class Meta:
        verbose_name = _("health check")
        verbose_name_plural = _("health checks")
        ordering = ["-id"]
        indexes = [models.Index(fields=["worker", "-id"], name="health_check_of_worker")]
        constraints = [
            models.UniqueConstraint(
                name="one_pending_health_check", fields=["worker"], condition=models.Q(result="")
            )
        ]

    def __str__(self) -> str:
        return f"{self.worker} {self.result or 'pending'}"

    @property
    def measures(self) -> bool:
        """Whether it measures the device, and says nothing about its health."""
        return self.cause in MEASURING

    @property
    def message(self) -> str:
        """Explanation of the reason in the active language; empty if there is none."""
        return notes_text(self.notes, self.detail)


#: causes of runs that measure a device; they yield to users' tasks
MEASURING = (HealthCheck.Cause.SCATTER, HealthCheck.Cause.AA)
