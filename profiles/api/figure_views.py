"""API views of the figures of a profile: statistics, trace, memory and recommendations."""

from dataclasses import asdict
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from profiles.analysis.coverage import Coverage
from profiles.analysis.measurement import Histogram, SteadyState
from profiles.analysis.stability import Stability
from profiles.api.base import NOT_READY, DataView, no_result_error
from profiles.api.serializer_fields import answer_of
from profiles.earlier import check_view
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.memory_flow.summary import MemoryFlowSummary
from profiles.formats.static_memory.summary import StaticMemory
from profiles.models import AttemptMeasurement
from profiles.presenters.advice import advice_of, run_facts
from profiles.presenters.attempt_messages import device_speed_text
from profiles.presenters.run_sources import mismatches
from profiles.presenters.statistics import fault_notes, latency_words, statistics_view
from profiles.selectors import measurement_of, measurement_view
from webprofile import answers as fields
from webprofile.api.schema import problems
from webprofile.messages.notes import note_text

MOST_ROWS = 200


class PassAnswer(serializers.Serializer):
    """One process of the attempt."""

    number = serializers.IntegerField(help_text="From 1.")
    kind = serializers.CharField(help_text="`clean`, `profiled`, `dump` or `inspect`.")
    kept = serializers.BooleanField(help_text="Whether its results are kept.")
    iterations = serializers.IntegerField(help_text="Number of timed iterations.")
    median_ms = fields.number("Median of its own iterations, ms.")
    last_ms = fields.number("Its last iteration, which a profile holds, ms.")
    exit_code = serializers.IntegerField(
        allow_null=True, help_text="Null if the process was stopped."
    )
    run_s = fields.number("Run time, s.")
    used = serializers.BooleanField(
        default=True,
        help_text="Whether the figures include this pass; disturbed passes may be left out.",
    )
    waited = fields.number(
        "Time that its threads were ready and waited for a core, as a share of the time observed: "
        "of the iterations that determine its figure, or, with a compiled load_and_run, of the "
        "whole process; null if the device does not count it.",
    )
    waited_in_all = serializers.FloatField(
        default=None,
        allow_null=True,
        help_text="The same for all its timed iterations; null with a compiled load_and_run, and "
        "if it was not counted.",
    )
    disturbed_by = serializers.ListField(
        child=serializers.CharField(), default=[], help_text="Codes of its disturbances."
    )
    host_memory_bytes = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Peak memory of its processes on the host, bytes; null if it was not recorded.",
    )
    memory_method = serializers.CharField(
        default="",
        allow_blank=True,
        help_text="`exit`: also read at the end of the processes; `samples`: only twice a second "
        "while they ran, so a short peak may be missing. Empty if there is none.",
    )
    gpu_memory_bytes = serializers.IntegerField(
        default=None,
        allow_null=True,
        help_text="Its peak memory on all GPUs, from samples; null without an NVIDIA GPU.",
    )


class DisturbanceAnswer(serializers.Serializer):
    """Something that may have distorted the figures."""

    code = serializers.CharField(help_text="Stable code.")
    text = serializers.CharField(help_text="Text in the user's language.")
    detail = serializers.CharField(
        help_text="What was observed, in the user's language.", allow_blank=True
    )


class DeviceStateAnswer(serializers.Serializer):
    """One fact about the device before and after the run, with units, in the user's language."""

    name = serializers.CharField(help_text="What.")
    before = serializers.CharField(help_text="Before the run.")
    after = serializers.CharField(help_text="After it.")


class ModeAnswer(serializers.Serializer):
    """A value around which the iteration times cluster."""

    median_ms = serializers.FloatField(help_text="Median of its iterations, ms.")
    share = serializers.FloatField(help_text="Their share of the iterations, from 0 to 1.")


class MedianIntervalAnswer(serializers.Serializer):
    """The 95 % interval of the median iteration of a process."""

    low_ms = serializers.FloatField(help_text="Lower bound, ms.")
    high_ms = serializers.FloatField(help_text="Upper bound, ms.")
    processes = serializers.IntegerField(help_text="Clean passes that it is computed from.")


class DeviceSpeedAnswer(serializers.Serializer):
    """How fast the device was compared with its latest runs, as shares of its usual speed."""

    before = fields.number("Before the passes; null as long as the usual speed is unknown.")
    after = fields.number("After the passes.")
    low = fields.number("Lower end of the range of 99 % of its readings.")
    high = fields.number("Upper end of that range.")
    repeated = serializers.BooleanField(
        help_text="Whether the passes were run twice, because the device was outside this "
        "range after the first time."
    )
    text = serializers.CharField(help_text="The same in the user's language.")


class LatencyAnswer(serializers.ModelSerializer[AttemptMeasurement]):
    """Iteration times with the profiler off, and the conditions of the run."""

    histogram = answer_of(Histogram)(
        allow_null=True,
        help_text="Histogram of the iterations with the profiler off, of all clean passes that "
        "count; null without one.",
    )
    steady_state = answer_of(SteadyState)(
        allow_null=True,
        help_text="The iteration from which on the model runs at a steady speed; null with fewer "
        "than 10 iterations. `median_ms` always covers all iterations.",
    )
    modes = ModeAnswer(
        many=True,
        help_text="Of the steady iterations, fastest first; several if they are clearly "
        "apart, none with fewer than 30 iterations.",
    )
    interval = MedianIntervalAnswer(
        allow_null=True,
        help_text="95 % interval of the median over processes; null with fewer than two clean "
        "passes, or if a few differ too much for an interval.",
    )
    latency_notes = fields.texts(
        "Steady state, modes, interval and waiting for a core in the user's language, and why no "
        "further passes were measured; empty without a clean pass."
    )
    passes = PassAnswer(many=True, help_text="All processes of the attempt.")
    disturbances = DisturbanceAnswer(many=True, help_text="Disturbances of the run.")
    disturbed_text = serializers.CharField(
        allow_blank=True,
        help_text="Message in the user's language if the run was disturbed, else empty.",
    )
    disturbance_notes = fields.texts("Explanations of the disturbances, in the user's language.")
    device = DeviceStateAnswer(many=True, help_text="The device before and after.")
    device_totals_s = fields.numbers("Total of operators on the device in each profiled pass, s.")
    waited_s = fields.number("Waiting time for an idle device, s.")
    device_speed = DeviceSpeedAnswer(
        allow_null=True,
        help_text="Speed of the device compared with itself; null if its agent did not read it.",
    )

    class Meta:
        model = AttemptMeasurement
        fields: tuple[str, ...] = (
            "iterations", "median_ms", "mean_ms", "p90_ms", "p99_ms", "min_ms", "max_ms", "cv",
            "histogram", "steady_state", "modes", "interval", "latency_notes",
            "profiled_iterations", "profiled_median_ms", "overhead",
            "device_totals_s", "device_cv", "start_s", "load_ms", "waited_s", "passes",
            "disturbances", "disturbed_text", "disturbance_notes", "device", "device_speed",
        )  # fmt: skip
        extra_kwargs = {
            "iterations": {"help_text": "Number of iterations with the profiler off."},
            "median_ms": {"help_text": "Their median, ms; null without a clean pass."},
            "mean_ms": {"help_text": "Their mean, ms."},
            "p90_ms": {"help_text": "90th percentile, ms."},
            "p99_ms": {"help_text": "99th percentile, ms."},
            "min_ms": {"help_text": "Minimum, ms."},
            "max_ms": {"help_text": "Maximum, ms."},
            "cv": {"help_text": "Standard deviation (n - 1) / mean."},
            "profiled_iterations": {"help_text": "Number of iterations with the profiler on."},
            "profiled_median_ms": {"help_text": "Their median, ms."},
            "overhead": {
                "help_text": (
                    "Median with the profiler on / median with it off - 1; negative values are "
                    "within noise."
                )
            },
            "device_cv": {"help_text": "Standard deviation / mean of `device_totals_s`."},
            "start_s": {"help_text": "Run time of a process outside of iterations, s."},
            "load_ms": {"help_text": "Loading time of the model, ms."},
        }


class CheckAnswer(serializers.Serializer):
    """Whether the result that a quick check repeats still holds."""

    task = serializers.IntegerField(source="origin.pk", help_text="The task with that result.")
    verdict = serializers.CharField(
        source="code",
        help_text="On its latency, as in comparisons: `none` if it still holds, `slower` or "
        "`faster` if it no longer holds, else why there is no verdict.",
    )
    text = serializers.CharField(help_text="The same in the user's language.")


class MeasurementAnswer(LatencyAnswer):
    """The measurement of a task, and what it says of the result that it checks."""

    check = CheckAnswer(
        allow_null=True, help_text="Null unless the task is a quick check of an earlier result."
    )

    class Meta(LatencyAnswer.Meta):
        fields = (*LatencyAnswer.Meta.fields, "check")


class SideAnswer(serializers.Serializer):
    """One side: the device or the host."""

    side = serializers.CharField(help_text="`device` or `host`.")
    total_s = fields.number(
        "Sum of all self times, s; with several passes, of the operators' medians over them."
    )
    passes_s = serializers.ListField(
        child=fields.number("s."),
        help_text="Total of each pass, s, in the order of `passes` of the profile; null: nothing "
        "was timed, or a time is no possible time.",
    )
    lowest_s = fields.number("Minimum of the totals of passes, s.")
    highest_s = fields.number("Maximum of the totals of passes, s.")
    place = serializers.ChoiceField(
        ["among", "below", "above"],
        help_text="Whether `total_s` lies among the totals of the passes, or beyond all of them: "
        "the median of an operator leaves out its slow or fast passes.",
    )
    stability = answer_of(Stability)(help_text="Variation of the times.")
    not_finite = serializers.IntegerField(
        source="faults.not_finite",
        help_text="Operators whose time is NaN, infinite or no possible time: then there is no "
        "total.",
    )
    negative = serializers.IntegerField(
        source="faults.negative",
        help_text="Operators that end before they start. The total includes their negative times.",
    )
    notes = fields.texts("The same in the user's language; usually empty.")


class CoverageAnswer(answer_of(Coverage)):  # type: ignore[misc]
    """Which share of an iteration the operators account for, by pass."""

    withheld = serializers.ChoiceField(
        ["disturbed", "overlap", "busy"],
        allow_null=True,
        help_text="Why pages do not show `outside_s`: the run was disturbed, operators overlap, or "
        "the device runs operators nearly all the time.",
    )


class LeftOutAnswer(serializers.Serializer):
    """A file that could not be merged."""

    name = serializers.CharField(help_text="The file.")
    word = serializers.CharField(help_text="Reason in the user's language.")
    detail = serializers.CharField(help_text="Details in English.", allow_blank=True)


class StatisticsAnswer(serializers.Serializer):
    """Figures over passes and iterations."""

    passes = serializers.IntegerField(help_text="Profiled passes that were merged.")
    left_out = LeftOutAnswer(many=True, help_text="Files that could not be merged.")
    mismatches = fields.texts(
        "Reasons why imported files cannot belong to one run, in the user's language; usually "
        "empty."
    )
    damage = fields.texts(
        "Parts of the trace that could not be read, with their positions in the file, in the "
        "user's language; usually empty."
    )
    sides = SideAnswer(many=True, help_text="Device and host.")
    coverage = CoverageAnswer(allow_null=True, help_text="Null if no iteration time is known.")
    latency = LatencyAnswer(
        allow_null=True, help_text="Measurement of the agent; null for an imported profile."
    )


class AdviceOperator(serializers.Serializer):
    """An operator that a finding is about."""

    row = serializers.IntegerField(help_text="Its row in tables.")
    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    type = serializers.CharField(help_text="Its type.", allow_blank=True)
    time = serializers.CharField(help_text="Its time on the device, with its unit.")


class FindingAnswer(serializers.Serializer):
    """One recommendation."""

    rule = serializers.CharField(help_text="Stable code of the rule.")
    severity = serializers.ChoiceField(
        ["warning", "gain", "note"],
        help_text="warning: other figures are wrong as long as this is so; gain: time can be "
        "saved; note: neither.",
    )
    title = serializers.CharField(help_text="Title in the user's language.")
    sentence = serializers.CharField(help_text="Description with figures.")
    why = serializers.CharField(help_text="Explanation.", allow_blank=True)
    step = serializers.CharField(help_text="What to do.", allow_blank=True)
    saves_s = fields.number("Maximum saving per iteration, s.")
    estimate = serializers.CharField(
        help_text="How `saves_s` was estimated: `removed`, `halved`, `roof`, `idle`, `issuing`, "
        "`outside`, or empty.",
        allow_blank=True,
    )
    overlaps = fields.texts(
        "Rules of other findings that cover part of the same time, so the savings do not add up."
    )
    options = fields.texts("Options of load_and_run that may help.")
    rows = fields.whole("Affected operators, slowest first, at most 200.")
    operators = AdviceOperator(many=True, help_text="The first five of them.")


class UnknownRule(serializers.Serializer):
    """A rule that could not be evaluated."""

    title = serializers.CharField(help_text="The rule.")
    lacks = serializers.CharField(help_text="Missing data.")


class AdviceAnswer(serializers.Serializer):
    """The recommendations for a profile."""

    findings = FindingAnswer(
        many=True,
        help_text="Warnings, then potential savings, then notes; findings with an option first.",
    )
    has_gain = serializers.BooleanField(help_text="Whether there are potential savings.")
    one_sample = serializers.BooleanField(
        help_text="Whether there is a single sample of each operator."
    )
    checked = fields.texts("Titles of the rules that were evaluated.")
    suppressed = fields.texts(
        "Titles of the rules that were not, because they depend on times, and the run was "
        "disturbed or is a first execution."
    )
    unknown = UnknownRule(many=True, help_text="Rules that were skipped because of missing data.")


class FiguresView(ViewSetMixin, DataView):
    """Figures of one profile, and the summaries of its trace and memory files."""

    @extend_schema(
        summary="Show statistics",
        responses={200: StatisticsAnswer} | problems(NOT_READY),
    )
    def statistics(self, request: Request, profile_id: int) -> Response:
        """Latency and its histogram, totals, coverage, profiling overhead, stability."""
        profile, data = self.data(profile_id)
        measurement = profile.measurement
        statistics = statistics_view(data, profile, measurement)
        covered: Coverage | None = statistics["coverage"]
        answer = {
            "passes": statistics["merged"],
            "left_out": statistics["left_out"],
            "mismatches": mismatches(data, profile),
            "damage": statistics["damage"],
            "sides": [
                asdict(side) | {"notes": fault_notes(side.faults)} for side in statistics["sides"]
            ],
            "coverage": covered and asdict(covered) | {"withheld": statistics["withheld"]},
            "latency": measurement and _latency(measurement),
        }
        return Response(StatisticsAnswer(answer).data)

    @extend_schema(
        summary="Show a task's measurement",
        responses={200: MeasurementAnswer} | problems({409: ["profile_not_yet", "profile_never"]}),
        operation_id="profiles_measurement_of_task",
    )
    def measurement(self, request: Request, task_id: int) -> Response:
        """Latency and device state, also of a task whose plan has no profiled pass.

        The statistics of a profile include them too.
        """
        task = self.task(task_id)
        measurement = measurement_of(task)
        if measurement is None:
            raise no_result_error(task)
        answer = _latency(measurement) | {"check": check_view(task)}
        return Response(MeasurementAnswer(answer).data)

    @extend_schema(
        summary="Show a trace",
        responses={200: answer_of(TraceSummary)}
        | problems({409: ["profile_outdated", "profile_damaged", "trace_none"]}),
    )
    def trace_summary(self, request: Request, profile_id: int) -> HttpResponse:
        """Phases of a step, threads and devices, modules, waits for the device, counters."""
        return self.summary_response(profile_id, "trace")

    @extend_schema(
        summary="Show memory over time",
        responses={200: answer_of(MemoryFlowSummary)}
        | problems({409: ["profile_outdated", "profile_damaged", "memory_flow_none"]}),
    )
    def memory_flow(self, request: Request, profile_id: int) -> HttpResponse:
        """Tensors with their times and addresses, bytes held over time, and the peak."""
        return self.summary_response(profile_id, "memory_flow")

    @extend_schema(
        summary="Show the static memory",
        responses={200: answer_of(StaticMemory)}
        | problems({409: ["profile_outdated", "profile_damaged", "static_memory_none"]}),
    )
    def static_memory(self, request: Request, profile_id: int) -> HttpResponse:
        """Peak, weights, reuse, and the planned address and lifetime of each tensor."""
        return self.summary_response(profile_id, "static_memory")

    @extend_schema(
        summary="Show advice",
        responses={200: AdviceAnswer} | problems(NOT_READY),
    )
    def advice(self, request: Request, profile_id: int) -> Response:
        """The findings of the rules for this profile, with operators and possible savings."""
        profile, data = self.data(profile_id)
        answer = advice_of(data, run_facts(profile))
        for view in answer["findings"]:
            finding = view["finding"]
            view |= {
                "step": "".join(piece["text"] for piece in view["step"]),
                "saves_s": finding.saves_s,
                "estimate": finding.estimate,
                "overlaps": finding.overlaps,
                "options": finding.options,
                "rows": finding.rows[:MOST_ROWS],
            }
        return Response(AdviceAnswer(answer).data)


def _latency(measurement: AttemptMeasurement) -> Any:
    view = measurement_view(measurement) or {}
    own = {name: getattr(measurement, name, None) for name in LatencyAnswer.Meta.fields}
    pairs = zip(measurement.disturbances, view["disturbances"], strict=True)
    return own | {
        "histogram": measurement.histogram or None,
        "steady_state": measurement.steady_state or None,
        "interval": measurement.interval or None,
        "latency_notes": _latency_notes(measurement),
        "waited_s": view["waited_s"],
        "device_speed": _device_speed(measurement),
        "disturbed_text": view["disturbed_title"],
        "disturbance_notes": view["disturbance_notes"],
        "device": view["device"],
        "disturbances": [
            {"code": item["code"], "text": str(words["word"]), "detail": words["detail"]}
            for item, words in pairs
        ],
    }


def _device_speed(measurement: AttemptMeasurement) -> dict[str, Any] | None:
    canary = measurement.canary
    if not canary:
        return None
    shares = {when: (canary.get(when) or {}).get("share") for when in ("before", "after")}
    return {
        **shares,
        "low": canary.get("low"),
        "high": canary.get("high"),
        "repeated": bool(canary.get("repeated")),
        "text": device_speed_text(measurement),
    }


def _latency_notes(measurement: AttemptMeasurement) -> list[str]:
    words = latency_words(measurement)
    interval = words["interval"] and _(
        "Confidence interval of the median (95 %%): %(interval)s"
    ) % {"interval": words["interval"]}
    text = {"text": words["waits"]}
    waits = words["waits"] and _("Waited for a core (all iterations): %(text)s") % text
    why = [note_text(note) for note in measurement.notes if note.get("code") in _ABOUT_PASSES]
    return [text for text in (words["steady"], words["modes"], interval, waits, *why) if text]


#: codes of notes about how many passes were measured; others may name inputs
_ABOUT_PASSES = {"interval_narrow", "interval_wide", "interval_unknown", "ended_early"}
