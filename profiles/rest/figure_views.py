"""Figures of a profile: statistics, its trace, its memory and advice."""

from dataclasses import asdict
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from profiles.analysis.advice import advise
from profiles.analysis.coverage import Coverage
from profiles.derived.cuts import trace_cut
from profiles.models import AttemptMeasurement, Profile
from profiles.rest.access import NOT_READY, AnyFile, DataView, ResultView, without_result
from profiles.rest.figure_answers import AdviceAnswer, LatencyAnswer, StatisticsAnswer
from profiles.rest.memory_flow_answers import MemoryFlowAnswer
from profiles.rest.questions import CutQuery
from profiles.rest.static_memory_answers import StaticMemoryAnswer
from profiles.rest.trace_answers import TraceAnswer
from profiles.selectors import measurement_of, measurement_view
from profiles.shown.advising import advice_of, facts_of
from profiles.shown.packed_answer import packed_json
from profiles.shown.run_sources import mismatches
from profiles.shown.statistics import statistics_view
from profiles.shown.trace_file import is_trace
from profiles.shown.trace_timeline import range_of
from webprofile.errors import DomainError
from webprofile.rest.schema import documented

MOST_ROWS = 200


class Statistics(DataView):
    """Figures over passes and iterations."""

    @documented(
        "Show statistics",
        answers={200: StatisticsAnswer},
        errors=NOT_READY,
        operation_id="profiles_statistics",
    )
    def get(self, request: Request, profile_id: int) -> Response:
        """Latency and its histogram, totals, coverage, cost of profiling, stability."""
        profile, data = self.data(profile_id)
        measurement = _measurement(profile)
        found = statistics_view(data, profile, measurement)
        answer = {
            "passes": found["merged"],
            "left_out": found["left_out"],
            "mismatches": mismatches(data, profile),
            "sides": [asdict(each) for each in found["sides"]],
            "coverage": _coverage(found["coverage"], found["withheld"]),
            "latency": measurement and _latency(measurement),
        }
        return Response(StatisticsAnswer(answer).data)


class Measurement(ResultView):
    """What the agent measured for a task."""

    @documented(
        "Show a task's measurement",
        answers={200: LatencyAnswer},
        errors={409: ["profile_not_yet", "profile_never"]},
        operation_id="profiles_measurement_of_task",
    )
    def get(self, request: Request, task_id: int) -> Response:
        """Latency and device state, also of a task whose plan has no profiled pass.

        With a profile they are part of its statistics too.
        """
        task = self.task(task_id)
        found = measurement_of(task)
        if found is None:
            raise without_result(task)
        return Response(LatencyAnswer(_latency(found)).data)


class Trace(DataView):
    """What a dynamic graph's trace says beside its operators."""

    @documented(
        "Show a trace",
        answers={200: TraceAnswer},
        errors={409: ["profile_outdated", "profile_damaged", "trace_none"]},
        operation_id="profiles_trace",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
        """Phases of a step, threads and devices, modules, waits for the device, counters."""
        return self.beside(profile_id, "trace")


class MemoryFlow(DataView):
    """What the Profiler says of memory."""

    @documented(
        "Show memory over time",
        answers={200: MemoryFlowAnswer},
        errors={409: ["profile_outdated", "profile_damaged", "memory_flow_none"]},
        operation_id="profiles_memory_flow",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
        """Tensors with their times and addresses, bytes held over time, and the peak."""
        return self.beside(profile_id, "memory_flow")


class StaticMemory(DataView):
    """The memory plan of a static graph."""

    @documented(
        "Show the static memory",
        answers={200: StaticMemoryAnswer},
        errors={409: ["profile_outdated", "profile_damaged", "static_memory_none"]},
        operation_id="profiles_static_memory",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
        """Peak, weights, reuse, and where and how long each tensor lies, as planned."""
        return self.beside(profile_id, "static_memory")


class TraceCut(ResultView):
    """A part of a dynamic graph's trace."""

    renderer_classes = (AnyFile,)

    @documented(
        "Cut a trace",
        answers={
            (200, "application/json"): OpenApiResponse(
                OpenApiTypes.BINARY, description="A Chrome trace."
            )
        },
        query=CutQuery,
        errors={
            **NOT_READY,
            409: [*NOT_READY[409], "trace_none", "cut_unready"],
            422: ["cut_range", "cut_lane", "cut_large", "cut_heavy"],
            503: ["cut_busy", "reading_stopped"],
        },
        operation_id="profiles_trace_cut",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
        """All spans that touch the range, whole, as complete events, with the counters in it and
        the arrows between them: a Chrome trace that Perfetto opens. Without a question it is all
        of the trace; what is too large is refused.
        """
        asked = self.asked(CutQuery)
        profile = self.profile(profile_id)
        if not is_trace(profile):
            raise DomainError("trace_none", status=409)
        wanted = range_of(asked["begin_s"], asked["end_s"], asked["lane"])
        packed, _ = trace_cut(profile, wanted)
        return packed_json(request, packed)


class Advice(DataView):
    """What to do next."""

    @documented(
        "Show advice",
        answers={200: AdviceAnswer},
        errors=NOT_READY,
        operation_id="profiles_advice",
    )
    def get(self, request: Request, profile_id: int) -> Response:
        """What the rules say of this profile, with the operators and what it could save."""
        profile, data = self.data(profile_id)
        facts = facts_of(profile)
        answer = advice_of(data, facts)
        for shown, finding in zip(answer["findings"], advise(data, facts).findings, strict=True):
            shown |= {
                "step": "".join(piece["text"] for piece in shown["step"]),
                "saves_s": finding.saves_s,
                "estimate": finding.estimate,
                "overlaps": finding.overlaps,
                "options": finding.options,
                "rows": finding.rows[:MOST_ROWS],
            }
        return Response(AdviceAnswer(answer).data)


def _measurement(profile: Profile) -> AttemptMeasurement | None:
    if profile.attempt_id is None:
        return None
    return AttemptMeasurement.objects.filter(attempt=profile.attempt_id).first()


def _coverage(found: Coverage | None, withheld: str | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "share": found.share,
        "lowest_share": found.lowest_share,
        "highest_share": found.highest_share,
        "outside_s": found.outside_s,
        "lowest_outside_s": found.lowest_outside_s,
        "highest_outside_s": found.highest_outside_s,
        "withheld": withheld,
        "passes": found.passes,
    }


def _latency(measurement: AttemptMeasurement) -> Any:
    shown = measurement_view(measurement) or {}
    own = {name: getattr(measurement, name, None) for name in LatencyAnswer.Meta.fields}
    words = zip(measurement.contaminations, shown["contaminations"], strict=True)
    return own | {
        "histogram": measurement.histogram or None,
        "waited_s": shown["waited_s"],
        "device": shown["device"],
        "contaminations": [
            {"code": each["code"], "text": str(said["word"]), "detail": said["detail"]}
            for each, said in words
        ],
    }
