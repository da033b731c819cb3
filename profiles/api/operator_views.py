"""API views of the operators of a profile: tables, exported files and trace excerpts."""

from itertools import islice
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from profiles.analysis.data import ProfileData
from profiles.analysis.stability import unstable
from profiles.analysis.text import PrintOptions
from profiles.analysis.totals import plausible
from profiles.api.base import (
    EXPORT_PROBLEMS,
    NOT_READY,
    AnyFile,
    DataView,
    gzipped_json_response,
    json_response,
)
from profiles.api.queries import (
    CutQuery,
    OperatorsQuery,
    PassesQuery,
    TextQuery,
)
from profiles.exports.fields import FIELDS, Field, group_rows
from profiles.exports.formats import (
    FORMATS,
    NO_LINKS,
    export_response,
    original_response,
    printed_response,
    table_request,
)
from profiles.exports.json_file import operators_as_json
from profiles.formats.chrome_trace.timeline_presenter import range_of
from profiles.formats.columns import SIDES, Side
from profiles.ingest import trace_excerpts
from profiles.ingest.loading import run_data
from profiles.tables.page import SideTable
from webprofile.answers import number, numbers
from webprofile.api.schema import REDIRECT, problems
from webprofile.errors import DomainError

QUESTION = {422: ["export_question"]}


def _field(field: Field) -> serializers.Field:
    if field.kind == "text":
        return serializers.CharField(help_text=field.help, allow_null=True)
    help_text = f"{field.help} Null: unknown."
    if field.kind == "json":
        return serializers.JSONField(allow_null=True, help_text=help_text)
    if field.kind == "count":
        return serializers.IntegerField(allow_null=True, help_text=help_text)
    return number(field.help)


class _SideAnswer(serializers.Serializer):
    """Times of one operator on one side."""

    side: Side

    def get_fields(self) -> dict[str, serializers.Field]:
        start = f"{self.side}."
        fields = {
            field.key.removeprefix(start): _field(field)
            for field in FIELDS
            if field.key.startswith(start)
        }
        return fields | {"passes_s": numbers("Self time in each pass, s.")}


class DeviceTimesAnswer(_SideAnswer):
    """Times of one operator on the device."""

    side = "device"


class HostTimesAnswer(_SideAnswer):
    """Times of one operator on the host."""

    side = "host"


class OperatorAnswer(serializers.Serializer):
    """One operator."""

    device = DeviceTimesAnswer(help_text="On the device.")
    host = HostTimesAnswer(help_text="On the host.")

    def get_fields(self) -> dict[str, serializers.Field]:
        own = {field.key: _field(field) for field in FIELDS if "." not in field.key}
        return own | super().get_fields()


class OperatorRow(OperatorAnswer):
    """One operator in a table."""

    place = serializers.IntegerField(help_text="Its place in the table, from 0.")
    self_s = number(
        "Self time in this table, s: of its side, to the end or the first kernel as asked."
    )
    share = number("`self_s` / total of the side.")
    cumulative_s = number("`self_s` of this row and those above it, s.")
    cumulative_share = number("The same as a share of the total.")
    is_unstable = serializers.BooleanField(
        help_text="Whether its times are unstable across passes."
    )


class GroupRow(serializers.Serializer):
    """Operators of one type, or all of them."""

    type = serializers.CharField(help_text="The operators' type; `all` for all of them.")
    operators = serializers.IntegerField(help_text="Number of operators.")
    time_s = number("The aggregate of their self times on the side that was asked for, s.")
    share = number("`time_s` / total of the side.")
    cumulative_s = number("`time_s` of this row and those above it, s.")
    computation_flo = number("The aggregate of their operations of one execution.")
    flops_per_s = number("`computation_flo` / `time_s`, operations per second.")
    memory_bytes = number("The aggregate of the bytes of their inputs and outputs.")
    bandwidth_bytes_per_s = number("`memory_bytes` / `time_s`, bytes per second.")


class TableAnswer(serializers.Serializer):
    """A window of the table of operators."""

    side = serializers.CharField(help_text="Side of the times: `device` or `host`.")
    total = serializers.IntegerField(help_text="Number of rows of the whole table.")
    offset = serializers.IntegerField(help_text="Index of the first row.")
    place = serializers.IntegerField(
        allow_null=True, help_text="Place of the operator `around`; null: not in the table."
    )
    totals = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="`device_s` and `host_s`: of all operators, also of those left out, s.",
    )
    said = serializers.CharField(help_text="Number of rows, as text.")
    operators = OperatorRow(many=True, help_text="The rows; none if groups were asked for.")
    groups = GroupRow(many=True, help_text="The groups, if `agg` asked for them.")


class OperatorsView(DataView):
    """The table of operators."""

    @extend_schema(
        summary="List operators",
        parameters=[OperatorsQuery],
        responses={200: TableAnswer} | problems(NOT_READY | QUESTION),
        operation_id="profiles_operators",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
        """All options of `profile_analyze` and of the result page: types, names, data types, limits
        of time, groups, orders, sides, passes.
        """
        query = self.validated_query(OperatorsQuery)
        _, data = self.data(profile_id)
        table = _table(request, data)
        place, start, limit = None, query["offset"], query["limit"]
        if query["around"] is not None:
            place = table.place_of(query["around"])
            start = (place or 0) // limit * limit
        stop = min(start + limit, table.total)
        grouped = table.selection.is_grouped
        return json_response(
            {
                "side": table.side,
                "total": table.total,
                "offset": start,
                "place": place,
                "totals": {
                    f"{side}_s": plausible(table.columns.times(side).total_s()) for side in SIDES
                },
                "said": table.summary_text(),
                "operators": [] if grouped else _rows(table, start, stop),
                "groups": list(islice(group_rows(table.selection), start, stop)) if grouped else [],
            }
        )


class FilesView(ViewSetMixin, DataView):
    """A profile as a file."""

    renderer_classes = (AnyFile,)

    @extend_schema(
        summary="Export a profile",
        parameters=[PassesQuery],
        responses={
            (200, kind): OpenApiResponse(
                OpenApiTypes.OBJECT if kind == "application/json" else OpenApiTypes.BINARY,
                description="The file.",
            )
            for kind in sorted({item.content_type.partition(";")[0] for item in FORMATS.values()})
        }
        | problems(EXPORT_PROBLEMS | {404: ["not_found", "export_unknown"]}),
    )
    def export(self, request: Request, profile_id: int, name: str) -> HttpResponseBase:
        """A file in one of the formats csv, json, trace (Chrome, Perfetto), report (HTML) and
        text (as `profile_analyze` prints). csv and json hold the operators that the query
        selects; without a query they hold all operators. trace and text, and the timeline of a
        report, are of the one `pass` that the query names, by default the first.
        """
        self.validated_query(PassesQuery)
        return export_response(request._request, self.profile(profile_id), name)

    @extend_schema(
        summary="Read a profile as text",
        parameters=[TextQuery],
        responses={(200, "text/plain"): OpenApiResponse(str, description="The text.")}
        | problems(EXPORT_PROBLEMS),
    )
    def text(self, request: Request, profile_id: int) -> HttpResponseBase:
        """One pass, exactly as `profile_analyze` prints it, with all of its options.

        All rows, unless `rows` limits them.
        """
        query = self.validated_query(TextQuery)
        profile = self.profile(profile_id)
        printed = PrintOptions(
            top=query.get("rows", 0),
            show_host=True,
            print_only=query.get("only", ""),
            copy_time="copies" in query,
            only_operators=query["style"] == "names",
            wiki=query["style"] == "wiki",
        )
        return printed_response(request._request, profile, printed)

    @extend_schema(
        summary="Download a raw profile",
        responses=REDIRECT,
    )
    def raw(self, request: Request, profile_id: int, number: int) -> HttpResponse:
        """A redirect to storage for a file of the run. Do not send the token to storage.

        Other files of a task are below its own URL.
        """
        return original_response(self.profile(profile_id), number)

    @extend_schema(
        summary="Cut a trace",
        parameters=[CutQuery],
        responses={
            (200, "application/json"): OpenApiResponse(
                OpenApiTypes.OBJECT, description="A Chrome trace."
            )
        }
        | problems(
            {
                **NOT_READY,
                404: ["not_found", "object_missing"],
                409: [*NOT_READY[409], "trace_none", "cut_unready"],
                422: ["cut_range", "cut_lane", "cut_large", "cut_heavy"],
                503: ["cut_busy", "reading_stopped"],
            }
        ),
    )
    def trace_cut(self, request: Request, profile_id: int) -> HttpResponse:
        """All spans that overlap the range, uncut, as complete events, with the counters in the
        range and the arrows between spans: a Chrome trace that Perfetto opens. Without parameters
        it is the whole trace; a trace that is too large is refused. The header `X-Trace-Events`
        holds the number of spans and counters.
        """
        query = self.validated_query(CutQuery)
        profile = self.profile(profile_id)
        if "trace" not in run_data(profile).summaries:
            raise DomainError("trace_none", status=409)
        excerpt = range_of(query["begin_s"], query["end_s"], query["lane"])
        packed, events = trace_excerpts.trace_excerpt(profile, excerpt)
        response = gzipped_json_response(request, packed)
        response["X-Trace-Events"] = str(events)
        return response


def _table(request: Request, data: ProfileData) -> SideTable:
    """Return the table of the first side that the query selects."""
    selected = table_request(request.query_params, data)
    return SideTable(data, selected, selected.sides[0], NO_LINKS)


def _rows(table: SideTable, start: int, stop: int) -> list[dict[str, Any]]:
    """Return a window of operators, each with its numbers in this table."""
    data, selection, pass_number = table.data, table.selection, table.request.pass_number
    window = slice(start, max(start, stop))
    rows = table.operators()[window]
    displayed = data.of_pass(pass_number - 1) if pass_number else data
    is_unstable = unstable(data, table.side)
    own = zip(
        selection.self_s[window].tolist(),
        selection.ratio[window].tolist(),
        selection.cumulative_s[window].tolist(),
        selection.cumulative_ratio[window].tolist(),
        is_unstable[rows].tolist(),
        strict=True,
    )
    names = ("self_s", "share", "cumulative_s", "cumulative_share", "is_unstable")
    return [
        operator | {"place": place} | dict(zip(names, numbers, strict=True))
        for place, (operator, numbers) in enumerate(
            zip(operators_as_json(displayed, rows), own, strict=True), start
        )
    ]
