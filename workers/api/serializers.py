"""Serializers of devices, runtimes, pools and options of load_and_run."""

import datetime
from dataclasses import asdict
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tasks.lifecycle.reasons import held_words
from tasks.scheduling.queue_depth import usage_of
from webprofile.answers import number, texts
from workers import releases
from workers.models import Pool, Runtime, Worker
from workers.selectors import labels_of
from workers.status import DeviceStatus, status_of
from workers.trust import trust_of

#: network addresses of a device, which only administrators may see
PRIVATE_FACTS = frozenset({"hostname", "ip"})


class RoofsAnswer(serializers.Serializer):
    """The measured peak performance of a device."""

    device = serializers.CharField(help_text="`cpu` (one core) or `cuda`.")
    peak_flops = serializers.DictField(
        child=serializers.FloatField(),
        help_text="Operations per second by data type; a multiply-add counts as 2.",
    )
    copy_bytes_s = serializers.FloatField(help_text="Bytes per second, read plus written.")
    measured_at = serializers.SerializerMethodField(help_text="When it was measured.")

    def get_measured_at(self, roofs: dict[str, Any]) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(roofs["measured_at"], datetime.UTC)


class RuntimeAnswer(serializers.ModelSerializer[Runtime]):
    """One MegEngine version on a device."""

    problem = serializers.CharField(
        source="problem_text",
        help_text="Why it cannot be used, in the user's language; empty if it can.",
    )
    builds = texts(
        "Parts that it was built with, such as `jit`; `cuda` and `tensorrt` only if the "
        "device has a GPU."
    )
    libraries = texts("Names of operator libraries that the device's owner configured.")
    roofs = RoofsAnswer(many=True, help_text="Measured peak performance of the device.")

    class Meta:
        model = Runtime
        fields = ("version", "kind", "python", "problem", "builds", "libraries", "roofs")
        extra_kwargs = {
            "version": {"help_text": "Version of MegEngine."},
            "kind": {"help_text": "The Python package, or a compiled load_and_run."},
            "python": {"help_text": "Version of Python; empty for a compiled one."},
        }


class WorkerRow(serializers.ModelSerializer[Worker]):
    """A device in a list."""

    is_online = serializers.BooleanField(help_text="Whether it is connected now.")
    last_seen_at = serializers.DateTimeField(
        allow_null=True, help_text="Last heartbeat; null if there was none."
    )
    condition = serializers.SerializerMethodField(help_text="Its most important status.")
    takes_scripts = serializers.BooleanField(
        help_text="Whether both an administrator and its owner allow scripts."
    )
    running = serializers.SerializerMethodField(help_text="Tasks that it runs now.")
    waiting = serializers.SerializerMethodField(help_text="Tasks that wait for it.")
    usual_s = serializers.SerializerMethodField(
        help_text=(
            "Mean duration of user attempts that ended during the last hour, s; null if there "
            "were none."
        )
    )
    labels = serializers.SerializerMethodField(help_text="Labels with their values.")
    pools = serializers.SerializerMethodField(help_text="Names of the pools that it is in.")
    facts = serializers.SerializerMethodField(
        help_text=(
            "Properties reported by its agent, such as `cpu_model`, `cores`, `memory_bytes`, "
            "`gpus`."
        )
    )
    runtimes = RuntimeAnswer(many=True, help_text="Its MegEngine versions.")

    class Meta:
        model = Worker
        fields: tuple[str, ...] = (
            "id", "name", "condition", "is_online", "is_enabled", "is_public", "held_reason",
            "allows_scripts", "takes_scripts", "held_at", "last_seen_at", "agent_version", "slots",
            "running", "waiting", "usual_s", "labels", "pools", "facts", "runtimes",
        )  # fmt: skip
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Its name."},
            "is_enabled": {"help_text": "Whether it accepts new tasks."},
            "is_public": {"help_text": "Whether all users can use it."},
            "allows_scripts": {
                "help_text": "Whether an administrator allows scripts on the device."
            },
            "held_reason": {"help_text": "Reason of the quarantine, or empty."},
            "held_at": {"help_text": "Since when; null if it is not quarantined."},
            "agent_version": {"help_text": "Version of its agent."},
            "slots": {"help_text": "Maximum number of concurrent tasks."},
        }

    def _load(self, worker: Worker) -> Any:
        return self.context["loads"][worker.pk]

    @extend_schema_field(serializers.ChoiceField(DeviceStatus.choices))
    def get_condition(self, worker: Worker) -> str:
        return status_of(worker, is_busy=self._load(worker).live > 0).value

    def get_running(self, worker: Worker) -> int:
        return int(self._load(worker).live)

    def get_waiting(self, worker: Worker) -> int:
        return int(self._load(worker).waiting)

    def get_usual_s(self, worker: Worker) -> float | None:
        usual_s: float | None = self._load(worker).usual_s
        return usual_s

    def get_labels(self, worker: Worker) -> dict[str, str]:
        return labels_of(worker)

    def get_pools(self, worker: Worker) -> list[str]:
        return sorted(pool.name for pool in worker.pools.all())

    def get_facts(self, worker: Worker) -> dict[str, Any]:
        private = frozenset() if self.context["is_staff"] else PRIVATE_FACTS
        return {name: fact for name, fact in worker.facts.items() if name not in private}


class UsageAnswer(serializers.Serializer):
    """The shares of time in which a device ran something."""

    day = serializers.FloatField(help_text="Of the last 24 hours, 0 to 1.")
    week = serializers.FloatField(help_text="Of the last seven days, 0 to 1.")


class TrustAnswer(serializers.Serializer):
    """What the A/A runs of a device show: paired comparisons of a model with itself."""

    runs = serializers.IntegerField(help_text="A/A runs with an estimate.")
    false_alarms = serializers.IntegerField(help_text="Those that said faster or slower.")
    intervals = serializers.IntegerField(help_text="Those with an interval.")
    covered = serializers.IntegerField(help_text="Those whose interval contains 0.")
    smallest = number("Smallest difference that 2 minutes of measuring show, as a ratio.")
    drift = number(
        "Change of the times from the oldest to the newest runs since kernel, agent or MegEngine "
        "changed last, as a ratio."
    )


class WorkerAnswer(WorkerRow):
    """A device."""

    usage = serializers.SerializerMethodField(help_text="Share of time in which it ran tasks.")
    held_text = serializers.SerializerMethodField(
        help_text="Reason of the quarantine, in the user's language, or empty."
    )
    is_agent_behind = serializers.SerializerMethodField(
        help_text="Whether its agent has another version than the site provides."
    )

    trust = serializers.SerializerMethodField(help_text="How often its verdicts are wrong.")

    class Meta(WorkerRow.Meta):
        fields = (
            *WorkerRow.Meta.fields, "held_text", "is_agent_behind", "usage", "trust", "created_at",
        )  # fmt: skip
        extra_kwargs = WorkerRow.Meta.extra_kwargs | {
            "created_at": {"help_text": "When it was registered."}
        }

    @extend_schema_field(UsageAnswer)
    def get_usage(self, worker: Worker) -> dict[str, float]:
        return usage_of(worker)

    @extend_schema_field(TrustAnswer)
    def get_trust(self, worker: Worker) -> dict[str, Any]:
        return asdict(trust_of([worker])[worker.pk])

    def get_held_text(self, worker: Worker) -> str:
        return held_words(worker)

    def get_is_agent_behind(self, worker: Worker) -> bool:
        return releases.is_behind(worker.agent_version)


class PoolAnswer(serializers.ModelSerializer[Pool]):
    """A named set of devices that a task's target may require."""

    workers = serializers.SerializerMethodField(help_text="Names of those that the reader may see.")

    class Meta:
        model = Pool
        fields = ("id", "name", "description", "workers")
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "name": {"help_text": "Its name, for `target.pool` of a task."},
            "description": {"help_text": "Purpose of the pool."},
        }

    def get_workers(self, pool: Pool) -> list[str]:
        return sorted(worker.name for worker in pool.seen)  # type: ignore[attr-defined]


@extend_schema_field(OpenApiTypes.NUMBER)
class Limit(serializers.Field):
    """A number that is returned unchanged: a float would round large integers."""

    def to_representation(self, value: Any) -> Any:
        return value


class OptionAnswer(serializers.Serializer):
    """One option of load_and_run; limits are inclusive."""

    name = serializers.CharField(help_text="As a task's `options` name it.")
    group = serializers.CharField(help_text="load_and_run's own group.")
    group_title = serializers.CharField(help_text="The same in the user's language.")
    kind = serializers.CharField(
        help_text=(
            "Kind of value: `bool`, `int`, `float`, `choice`, `text`; `artifact`: a switch that "
            "produces a file; `file`: an uploaded file; `library`: a name; `agent`: not "
            "supported."
        )
    )
    type = serializers.CharField(help_text="Of load_and_run's own flag.")
    help = serializers.DictField(
        child=serializers.CharField(), help_text="One line, by language: `en`, `zh-hans`."
    )
    default = serializers.JSONField(help_text="true, false, a number or a text.")
    minimum = Limit(
        allow_null=True, help_text="Least value, in the unit that `help` tells, or null."
    )
    maximum = Limit(allow_null=True, help_text="Greatest value, in the same unit, or null.")
    choices = serializers.ListField(
        child=serializers.CharField(allow_blank=True), help_text="The values of a choice."
    )
    pattern = serializers.CharField(
        allow_blank=True, help_text="A regular expression that a text matches, or empty."
    )
    needs = texts("At least one of these must be set too.")
    excludes = texts("None of these may be set too.")
    keeps_only = texts("If not empty: setting this option resets all options except these.")
    alone = serializers.BooleanField(help_text="Whether the plan must have no profiled pass.")
    platform = serializers.CharField(
        allow_blank=True, help_text="Required feature of the device: `cuda`, `tensorrt`, `opencl`."
    )
    lite = serializers.CharField(help_text="Effect together with `lite`: ok, abort, no-op.")
    wheel = serializers.BooleanField(help_text="Whether the Python package supports it.")
    wheel_mdl = serializers.BooleanField(help_text="Whether the graph interface supports it, too.")
    wheel_graph = serializers.BooleanField(
        help_text="Whether it selects the graph interface in the Python package."
    )
    wheel_needs = texts("As `needs`, for the Python package.")
    by_agent = serializers.BooleanField(help_text="Whether the agent implements it.")
    since = serializers.CharField(
        allow_blank=True, help_text="First MegEngine version that supports it, or empty."
    )
    file_taken = serializers.BooleanField(help_text="Whether a file can provide its content.")
    artifact = serializers.CharField(
        allow_blank=True, help_text="The file that it writes, or empty."
    )
    taken = serializers.BooleanField(help_text="Whether users can set it.")


class RuntimeOptionAnswer(OptionAnswer):
    """One option of load_and_run, for one MegEngine version on one device."""

    unavailable = serializers.CharField(
        allow_blank=True,
        help_text="Why it cannot be used there: `never`, `wheel`, `flag`, `cuda`, `tensorrt`, "
        "`opencl`, `amd`, `library`; empty if it can.",
    )
    unavailable_text = serializers.CharField(
        allow_blank=True, help_text="The same in the user's language."
    )
