"""Data of the charts and viewers of a profile, which the scripts of the pages draw.

Operators are referenced by their rows; times are in µs.
"""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.decorators import method_decorator
from django.utils.http import quote_etag
from django.utils.translation import get_language
from django.views.decorators.gzip import gzip_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from profiles.analysis.data import ProfileData
from profiles.analysis.roofline import Roofs
from profiles.api.base import NOT_READY, ResultView, gzipped_json_response, json_response
from profiles.api.queries import MemoryFlowQuery, MemoryQuery, NetronQuery, TimelineQuery
from profiles.api.serializer_fields import answer_of
from profiles.comparison.graph import BaselineChart, baseline_data, paired_data
from profiles.comparison.loading import comparison_of
from profiles.exports.originals import are_of_trace
from profiles.formats.memory_flow.presenter import (
    FlowQuery,
    MemoryFlowChart,
    memory_flow_data,
    summary_of,
)
from profiles.formats.static_memory.presenter import KIND as STATIC_MEMORY
from profiles.formats.static_memory.presenter import StaticMemoryChart, static_memory_data
from profiles.ingest.loading import profile_data, run_data
from profiles.models import Profile
from profiles.presenters import charts
from profiles.presenters.charts import roofs_of
from profiles.presenters.viewers import graph_document
from profiles.selectors import baseline_profile, paired_changes
from webprofile.api.schema import problems
from webprofile.errors import DomainError

#: version of the drawn data; increased when the data of an unchanged profile change (`ETag`)
FORMAT = 4


#: a document of the viewer
NETRON = OpenApiResponse(
    OpenApiTypes.OBJECT, description="`view`: what is drawn and where; the rest is Netron's."
)


@method_decorator(gzip_page, name="dispatch")
class ChartsView(ViewSetMixin, ResultView):
    """Data of charts and viewers, which clients cache by `ETag`."""

    def conditional_response(
        self, profile: Profile, build: Callable[[], HttpResponse], question: object = ""
    ) -> HttpResponseBase:
        """Return the response of `build`, or 304 if the client already has it.

        question: what the response depends on besides the profile and the language
        """
        stamp = (FORMAT, profile.pk, profile.built_at.timestamp(), get_language(), question)
        etag = quote_etag(hashlib.sha256(repr(stamp).encode(errors="replace")).hexdigest()[:32])
        response = get_conditional_response(self.request, etag=etag)
        if response is None:
            response = build()
            response["ETag"] = etag
        response["Cache-Control"] = "private, no-cache"
        return response

    def operators_response(
        self, profile_id: int, build: Callable[[ProfileData], Any], question: object = ""
    ) -> HttpResponseBase:
        """Return what `build` makes of the data of the operators, or 304."""
        profile = self.profile(profile_id)
        return self.conditional_response(
            profile, lambda: json_response(build(profile_data(profile))), question
        )

    @extend_schema(
        summary="Data of all charts",
        responses={200: answer_of(charts.OperatorsChart), 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_operators",
    )
    def operators(self, request: Request, profile_id: int) -> HttpResponseBase:
        """All operators, column by column; texts that repeat are sent once."""
        measured = self._measured_roofs(profile_id)
        return self.operators_response(
            profile_id,
            lambda data: charts.operators_data(data, measured[bool(data.on_gpu.any())]),
            measured,
        )

    @extend_schema(
        summary="Differences to the baseline",
        responses={200: answer_of(BaselineChart)}
        | problems(NOT_READY | {404: ["not_found", "baseline_none"], 422: ["comparison_large"]}),
        operation_id="profiles_chart_baseline",
    )
    def baseline(self, request: Request, profile_id: int) -> HttpResponseBase:
        """The baseline is the task that is pinned for the owner, the model and the device.

        Of a paired comparison, whose profile is that of A, these are the differences of B to A.
        """
        profile = self.profile(profile_id)
        if (changes := paired_changes(profile)) is not None:
            return json_response(paired_data(profile_data(profile), changes))
        baseline = baseline_profile(profile.task) if profile.task else None
        if baseline is None:
            raise DomainError("baseline_none", status=404)
        # the verdicts depend on all runs of the device, so there is no ETag
        return json_response(baseline_data(comparison_of([baseline, profile])))

    def _measured_roofs(self, profile_id: int) -> list[Roofs | None]:
        """Return the roofs of the processor and of the GPU."""
        profile = self.profile(profile_id)
        return [roofs_of(profile, on_gpu=on_gpu) for on_gpu in (False, True)]

    @extend_schema(
        summary="Data of the timeline",
        parameters=[TimelineQuery],
        responses={200: answer_of(charts.TimelineChart), 304: None}
        | problems(NOT_READY | {422: ["window_bad", "pass_unknown"]}),
        operation_id="profiles_chart_timeline",
    )
    def timeline(self, request: Request, profile_id: int) -> HttpResponseBase:
        """At most 8,000 bars in lanes; bars that are too narrow for that are merged."""
        query = self.validated_query(TimelineQuery)
        window, place = window_of(query), query["pass"] - 1
        profile = self.profile(profile_id)

        def build(data: ProfileData) -> charts.TimelineChart:
            # a trace without operators has no pass, and an empty timeline
            if place >= max(len(data.passes), 1):
                raise DomainError("pass_unknown", field="pass", status=422)
            of_trace = are_of_trace(profile, data.passes)
            return charts.timeline_data(data, window, place, of_trace=of_trace)

        return self.operators_response(profile_id, build, (window, place))

    @extend_schema(
        summary="Data of types",
        responses={200: answer_of(charts.TypesChart), 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_types",
    )
    def types(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Time by operator type, the largest first."""
        return self.operators_response(profile_id, charts.types_data)

    @extend_schema(
        summary="Data of scopes",
        responses={200: answer_of(charts.ScopesChart), 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_scopes",
    )
    def scopes(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Time by scope of names, as a tree whose leaves are operators."""
        return self.operators_response(profile_id, charts.scopes_data)

    @extend_schema(
        summary="Data of the roofline",
        responses={200: answer_of(charts.RooflineChart), 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_roofline",
    )
    def roofline(self, request: Request, profile_id: int) -> HttpResponseBase:
        """FLOP/s against FLOP/byte, and the ceilings of the hardware if they were measured."""
        measured = self._measured_roofs(profile_id)
        return self.operators_response(
            profile_id,
            lambda data: charts.roofline_data(data, measured[bool(data.on_gpu.any())]),
            measured,
        )

    @extend_schema(
        summary="Data of memory",
        parameters=[MemoryQuery],
        responses={200: answer_of(charts.MemoryChart), 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_memory",
    )
    def memory(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Bytes in use while each operator runs, according to the memory plan."""
        device = self.validated_query(MemoryQuery)["device"]
        return self.operators_response(
            profile_id, lambda data: charts.memory_data(data, device), device
        )

    @extend_schema(
        summary="Data of the running share",
        responses={200: answer_of(charts.CumulativeChart), 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_cumulative",
    )
    def cumulative(self, request: Request, profile_id: int) -> HttpResponseBase:
        """The cumulative share of the slowest operators."""
        return self.operators_response(profile_id, charts.cumulative_data)

    @extend_schema(
        summary="Data of static memory",
        responses={200: answer_of(StaticMemoryChart), 304: None}
        | problems({409: ["profile_outdated", "profile_damaged", "static_memory_none"]}),
        operation_id="profiles_chart_static_memory",
    )
    def static_memory(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Addresses and lifetimes of the tensors of a memory plan."""
        profile = self.profile(profile_id)

        def build() -> HttpResponse:
            data = run_data(profile)
            if STATIC_MEMORY not in data.summaries:
                raise DomainError("static_memory_none", status=409)
            return json_response(static_memory_data(data))

        return self.conditional_response(profile, build)

    @extend_schema(
        summary="Data of memory over time",
        parameters=[MemoryFlowQuery],
        responses={200: answer_of(MemoryFlowChart), 304: None}
        | problems({409: ["profile_outdated", "profile_damaged", "memory_flow_none"]}),
        operation_id="profiles_chart_memory_flow",
    )
    def memory_flow(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Addresses and lifetimes of the tensors that the Profiler recorded; the 5,000 largest and
        longest.
        """
        query = self.validated_query(MemoryFlowQuery)
        profile = self.profile(profile_id)

        def build() -> HttpResponse:
            summary = summary_of(run_data(profile))
            if summary is None:
                raise DomainError("memory_flow_none", status=409)
            return json_response(memory_flow_data(summary, FlowQuery(tag=query["tag"].strip())))

        return self.conditional_response(profile, build, query)

    @extend_schema(
        summary="Document of the graph",
        parameters=[NetronQuery],
        responses={200: NETRON, 304: None}
        | problems(NOT_READY | {404: ["not_found", "operator_not_drawn", "pairs_unprofiled"]}),
        operation_id="profiles_graph_netron",
    )
    def netron(self, request: Request, profile_id: int) -> HttpResponseBase:
        """One view of the graph, in the format of the site's own Netron; nodes and edges are in
        `/api/v1/profiles/{profile_id}/graph/`.
        """
        query = self.validated_query(NetronQuery)
        profile = self.profile(profile_id)
        changes = paired_changes(profile) if query["colour"] == "change" else None
        if query["colour"] == "change" and changes is None:
            raise DomainError("pairs_unprofiled", status=404)
        return self.conditional_response(
            profile,
            lambda: netron_answer(request._request, graph_document(profile, changes, **query)),
            query,
        )


def netron_answer(request: HttpRequest, document: bytes) -> HttpResponse:
    """Return a document for the viewer, compressed to about a tenth if the client accepts gzip."""
    return gzipped_json_response(request, gzip.compress(document, 1))


def window_of(query: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return both ends of the range, or None without a range. Raises DomainError window_bad."""
    ends = query.get("from"), query.get("to")
    if ends == (None, None):
        return None
    low, high = ends
    if low is None or high is None or low >= high:
        raise DomainError("window_bad", field="from", status=422)
    return low, high
