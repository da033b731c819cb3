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
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from profiles.analysis.data import ProfileData
from profiles.api.base import NOT_READY, ResultView, gzipped_json_response, json_response
from profiles.api.queries import MemoryFlowQuery, MemoryQuery, NetronQuery, TimelineQuery
from profiles.api.serializer_fields import number, numbers, texts, whole
from profiles.formats.memory_flow.presenter import FlowQuery, memory_flow_data, summary_of
from profiles.formats.static_memory.presenter import KIND as STATIC_MEMORY
from profiles.formats.static_memory.presenter import static_memory_data
from profiles.ingest.loading import profile_data, run_data
from profiles.models import Profile
from profiles.presenters import charts
from profiles.presenters.charts import roofs_of
from profiles.presenters.viewers import graph_document
from webprofile.api.schema import problems
from webprofile.errors import DomainError

#: version of the drawn data; increased when the data of an unchanged profile change (`ETag`)
FORMAT = 2


class _Words(serializers.Serializer):
    """The text beside a chart."""

    sentence = serializers.CharField(
        help_text="What the chart shows, in the reader's words.", allow_blank=True
    )
    notes = texts("What one must know of it, in the reader's words.")


class OperatorsChart(serializers.Serializer):
    """Data that all charts share."""

    side = serializers.CharField(
        help_text="Whose times: `device`, or `host` for a profile without times on the device."
    )
    names = texts("Name of each operator, by row.")
    types = whole("Type of each operator: a place in `type_names`, or -1.")
    type_names = texts("The types.")
    us = numbers("Self time of each operator, µs.")


class LaneAnswer(serializers.Serializer):
    """A computing node, or a thread of the host."""

    side = serializers.CharField(help_text="`device` or `host`.")
    name = serializers.CharField(help_text="Its name.", allow_blank=True)
    operators = serializers.IntegerField(help_text="How many ran there.")
    wait = number("How long they waited, added up, µs.")
    work = number("How long they computed, added up, µs.")


class TimelineChart(_Words):
    """When operators ran: bars, column by column."""

    lanes = LaneAnswer(many=True, help_text="The lanes.")
    span = number("From the first start to the last end, µs.")
    lane = whole("Lane of each bar.")
    start = numbers("Where each bar begins, µs.")
    end = numbers("Where it ends, µs.")
    wait = numbers("How much of it is waiting, µs.")
    work = numbers("How much of it is computing, µs.")
    copy = whole("1 if it copies or converts data.")
    count = whole("Operators in each bar.")
    rows = whole("Rows of these operators, bar after bar.")
    merged = serializers.BooleanField(help_text="Whether a bar has several operators.")
    pass_number = serializers.IntegerField(help_text="The profiled pass that is drawn, from 1.")
    passes = serializers.IntegerField(
        help_text="Profiled passes that were merged; tables show medians over them."
    )


class TypesChart(_Words):
    """Time by type, column by column."""

    types = whole("The type: a place in `type_names`.")
    us = numbers("Time of all its operators, µs.")
    operators = whole("How many they are.")
    total = number("Time of all types, µs.")


class ScopesChart(_Words):
    """Time by scope of names."""

    tree = serializers.ListField(
        child=serializers.JSONField(),
        help_text="Scopes `{n: name, c: [content]}` and leaves `{r: [rows], t: µs}`.",
    )


class RoofAnswer(serializers.Serializer):
    """A compute ceiling of the roofline."""

    name = serializers.CharField(
        help_text="Data type; empty: the best operator of this profile.", allow_blank=True
    )
    flops = number("Operations per second.")


class RooflineChart(_Words):
    """Speed against intensity, column by column."""

    rows = whole("The operators that have a place.")
    intensity = numbers("Operations per byte.")
    flops = numbers("Operations per second.")
    us = numbers("Self time, µs.")
    measured = serializers.BooleanField(help_text="Whether the limits are those of the hardware.")
    roofs = RoofAnswer(many=True, help_text="The limits of computing.")
    bytes_s = number("The limit of moving data, bytes per second.")


class OwnerAnswer(serializers.Serializer):
    """A memory block that is in use at the peak."""

    name = serializers.CharField(help_text="The variable.", allow_blank=True)
    row = serializers.IntegerField(help_text="The operator that writes it, or -1.")
    bytes = number("Its size, bytes.")
    kind = serializers.CharField(help_text="`persistent`, `planned` or `estimated`.")
    first = serializers.IntegerField(help_text="The first step at which it is taken.")
    last = serializers.IntegerField(help_text="The last one.")


class MemoryChart(_Words):
    """Memory over the order of execution, column by column."""

    device = serializers.CharField(help_text="Such as `cpu0`.", allow_blank=True)
    devices = texts("All that have blocks.")
    rows = whole("The operator of each step, or -1.")
    persistent = number("Bytes that are taken all the time.")
    planned = whole("Bytes of the memory plan at each step.")
    estimated = whole("Bytes that were estimated, at each step.")
    peak = serializers.IntegerField(help_text="The step with most bytes, or -1.")
    peak_bytes = number("How many these are.")
    owners = OwnerAnswer(many=True, help_text="The largest blocks of that step.")


class CumulativeChart(_Words):
    """The running share of the slowest operators, column by column."""

    rows = whole("The operators, the slowest first.")
    us = numbers("Self time, µs.")
    share = numbers("Share of the total of this one and those before it.")
    milestones = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text="`[share, number of operators that reach it]`.",
    )


class StaticMemoryChart(_Words):
    """Tensors of a memory plan over steps, column by column. Steps are places in the order of
    execution, from 0.
    """

    steps = serializers.IntegerField(help_text="Operators of the plan.")
    peak = number("The highest address of a tensor, bytes.")
    most = number("The most in use at one step, bytes.")
    moment = serializers.ListField(
        child=serializers.IntegerField(),
        allow_null=True,
        help_text="First and last step at which most is in use; null without tensors.",
    )
    id = whole("Id of each chunk, as in the file.")
    to = whole("The step after the last one at which it is alive.")
    low = whole("Its lowest address, bytes.")
    size = whole("Its size, bytes.")
    in_place = whole("1 if it is written in another one's place.")
    at_peak = whole("1 if it is alive when most is in use.")
    name = texts("Its tensor; empty where it is not certain.")
    row = whole("The operator that writes it, or -1.")
    names = texts("Names of operators.")
    first = whole("The operator that writes it: a place in `names`.")
    last = whole("The last operator that needs it: a place in `names`.")
    curve = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="Steps, and the bytes in use from each to the one before the next.",
    )

    def get_fields(self) -> dict[str, serializers.Field]:
        """Add `from`, which is a keyword of Python."""
        declared = super().get_fields()
        declared["from"] = whole("The first step at which each chunk is alive.")
        return declared


class MemoryFlowChart(_Words):
    """Tensors of a dynamic graph over time, column by column."""

    end = number("When the last tensor ended, µs since the Profiler began.")
    used = number("Addresses that any tensor ever had, bytes.")
    peak = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="`bytes`: the most that is held; `at`: when that is first so, µs; null without.",
    )
    curve = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField()),
        help_text="`[µs, bytes]`: what is held from each moment to the next one.",
    )
    regions = serializers.ListField(
        child=serializers.ListField(child=serializers.JSONField()),
        help_text="`[place, address]` where each region of used addresses begins.",
    )
    names = texts("Name of each tensor.")
    start = numbers("When it began, µs.")
    length = numbers("How long it lived, µs.")
    place = whole("Where it lies if unused addresses are left out, bytes.")
    size = whole("Its size, bytes.")
    shape = texts("Its shape and type, in the reader's words.")
    address = texts("Where the memory begins that it shares with its views, hexadecimal.")
    at_peak = whole("1 if it is alive when most bytes are held.")


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

        question: what the response depends on beside the profile and the language
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
        responses={200: OperatorsChart, 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_operators",
    )
    def operators(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Names, types and times of all operators, by row."""
        return self.operators_response(profile_id, charts.operators_data)

    @extend_schema(
        summary="Data of the timeline",
        parameters=[TimelineQuery],
        responses={200: TimelineChart, 304: None} | problems(NOT_READY | {422: ["window_bad"]}),
        operation_id="profiles_chart_timeline",
    )
    def timeline(self, request: Request, profile_id: int) -> HttpResponseBase:
        """At most 8,000 bars in lanes; bars that are too narrow for that are merged."""
        window = _window(self.validated_query(TimelineQuery))
        return self.operators_response(
            profile_id, lambda data: charts.timeline_data(data, window), window
        )

    @extend_schema(
        summary="Data of types",
        responses={200: TypesChart, 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_types",
    )
    def types(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Time by operator type, the largest first."""
        return self.operators_response(profile_id, charts.types_data)

    @extend_schema(
        summary="Data of scopes",
        responses={200: ScopesChart, 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_scopes",
    )
    def scopes(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Time by scope of names, as a tree whose leaves are operators."""
        return self.operators_response(profile_id, charts.scopes_data)

    @extend_schema(
        summary="Data of the roofline",
        responses={200: RooflineChart, 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_roofline",
    )
    def roofline(self, request: Request, profile_id: int) -> HttpResponseBase:
        """FLOP/s against FLOP/byte, and the ceilings of the hardware if they were measured."""
        profile = self.profile(profile_id)
        measured = [roofs_of(profile, on_gpu=on_gpu) for on_gpu in (False, True)]
        return self.operators_response(
            profile_id,
            lambda data: charts.roofline_data(data, measured[bool(data.on_gpu.any())]),
            measured,
        )

    @extend_schema(
        summary="Data of memory",
        parameters=[MemoryQuery],
        responses={200: MemoryChart, 304: None} | problems(NOT_READY),
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
        responses={200: CumulativeChart, 304: None} | problems(NOT_READY),
        operation_id="profiles_chart_cumulative",
    )
    def cumulative(self, request: Request, profile_id: int) -> HttpResponseBase:
        """The cumulative share of the slowest operators."""
        return self.operators_response(profile_id, charts.cumulative_data)

    @extend_schema(
        summary="Data of static memory",
        responses={200: StaticMemoryChart, 304: None}
        | problems({409: ["profile_outdated", "profile_damaged", "static_memory_none"]}),
        operation_id="profiles_chart_static_memory",
    )
    def static_memory(self, request: Request, profile_id: int) -> HttpResponseBase:
        """Addresses and lifetimes of the tensors of a memory plan."""
        profile = self.profile(profile_id)

        def build() -> HttpResponse:
            data = run_data(profile)
            if STATIC_MEMORY not in data.beside:
                raise DomainError("static_memory_none", status=409)
            return json_response(static_memory_data(data))

        return self.conditional_response(profile, build)

    @extend_schema(
        summary="Data of memory over time",
        parameters=[MemoryFlowQuery],
        responses={200: MemoryFlowChart, 304: None}
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
        | problems(NOT_READY | {404: ["not_found", "operator_not_drawn"]}),
        operation_id="profiles_graph_netron",
    )
    def netron(self, request: Request, profile_id: int) -> HttpResponseBase:
        """One view of the graph, in the format of the site's own Netron; nodes and edges are in
        `/api/v1/profiles/{profile_id}/graph/`.
        """
        query = self.validated_query(NetronQuery)
        profile = self.profile(profile_id)
        return self.conditional_response(
            profile,
            lambda: netron_answer(request._request, graph_document(profile, **query)),
            query,
        )


def netron_answer(request: HttpRequest, document: bytes) -> HttpResponse:
    """Return a document for the viewer, compressed to about a tenth if the client accepts gzip."""
    return gzipped_json_response(request, gzip.compress(document, 1))


def _window(query: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return both ends of the range, or None without a range. Raises DomainError window_bad."""
    ends = query.get("from"), query.get("to")
    if ends == (None, None):
        return None
    low, high = ends
    if low is None or high is None or low >= high:
        raise DomainError("window_bad", field="from", status=422)
    return low, high
