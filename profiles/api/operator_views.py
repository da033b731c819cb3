"""Operators of a profile: tables, single ones, files of them."""

from itertools import islice
from typing import Any

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.http import content_disposition_header
from django.views.decorators.gzip import gzip_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.viewsets import ViewSetMixin

from profiles.analysis.data import ProfileData
from profiles.analysis.stability import unstable
from profiles.analysis.text import Printed, text_pieces
from profiles.api.access import NOT_READY, AnyFile, DataView, packed_json, written
from profiles.api.answer_fields import number, numbers, whole
from profiles.api.questions import (
    CutQuery,
    ExportQuery,
    OperatorsQuery,
    PassesQuery,
    TextQuery,
    table_request,
)
from profiles.exports.fields import FIELDS, Field, group_rows, values_of
from profiles.exports.formats import FORMATS, exported
from profiles.exports.json_file import operators_as_json
from profiles.exports.originals import originals_of
from profiles.exports.provenance import file_name, provenance
from profiles.formats.chrome_trace.timeline_presenter import range_of
from profiles.formats.columns import Side
from profiles.ingest import cuts
from profiles.presenters.operator_facts import SIDES
from profiles.presenters.trace_file import is_trace
from profiles.tables.page import Places, SideTable
from webprofile.api.schema import problems, redirect_to
from webprofile.errors import DomainError
from webprofile.storage import storage
from webprofile.streaming import answer_of

_NOWHERE = Places("", "", "", "")
QUESTION = {422: ["export_question"]}


def _field(field: Field) -> serializers.Field:
    help_text = f"{field.help} Null: unknown."
    if field.kind == "text":
        return serializers.CharField(help_text=field.help, allow_null=True)
    if field.kind == "json":
        return serializers.JSONField(allow_null=True, help_text=help_text)
    if field.kind == "count":
        return serializers.IntegerField(allow_null=True, help_text=help_text)
    return serializers.FloatField(allow_null=True, help_text=help_text)


class _SideAnswer(serializers.Serializer):
    """Times of one operator on one side."""

    side: Side

    def get_fields(self) -> dict[str, serializers.Field]:
        start = f"{self.side}."
        found = {
            field.key.removeprefix(start): _field(field)
            for field in FIELDS
            if field.key.startswith(start)
        }
        return found | {"passes_s": numbers("Self time in each pass, s.")}


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
        help_text="Whether its times differ much from pass to pass."
    )


class GroupRow(serializers.Serializer):
    """Operators of one type, or all of them."""

    type = serializers.CharField(help_text="The operators' type; `all` for all of them.")
    operators = serializers.IntegerField(help_text="How many they are.")
    time_s = number("The aggregate of their self times on the side that was asked for, s.")
    share = number("`time_s` / total of the side.")
    cumulative_s = number("`time_s` of this row and those above it, s.")
    computation_flo = number("The aggregate of their operations of one execution.")
    flops_per_s = number("`computation_flo` / `time_s`, operations per second.")
    memory_bytes = number("The aggregate of the bytes of their inputs and outputs.")
    bandwidth_bytes_per_s = number("`memory_bytes` / `time_s`, bytes per second.")


class TableAnswer(serializers.Serializer):
    """A window of a table."""

    side = serializers.CharField(help_text="Whose times: `device` or `host`.")
    total = serializers.IntegerField(help_text="Rows of the whole table.")
    offset = serializers.IntegerField(help_text="Place of the first row here.")
    place = serializers.IntegerField(
        allow_null=True, help_text="Place of the operator `around`; null: not in the table."
    )
    totals = serializers.DictField(
        child=serializers.FloatField(allow_null=True),
        help_text="`device_s` and `host_s`: of all operators, also of those left out, s.",
    )
    said = serializers.CharField(help_text="How many rows there are, in words.")
    operators = OperatorRow(many=True, help_text="The rows; none if groups were asked for.")
    groups = GroupRow(many=True, help_text="The groups, if `agg` asked for them.")


class OrderAnswer(serializers.Serializer):
    """The order of a table."""

    rows = whole("Row of the operator of each place; none for groups.")


class Operators(ViewSetMixin, DataView):
    """The table of operators."""

    @extend_schema(
        summary="List operators",
        parameters=[OperatorsQuery],
        responses={200: TableAnswer} | problems(NOT_READY | QUESTION),
        operation_id="profiles_operators",
    )
    def table(self, request: Request, profile_id: int) -> HttpResponse:
        """Every question that `profile_analyze` can be asked, and those of the result page: types,
        names, data types, limits of time, groups, orders, sides, passes.
        """
        wanted = self.asked(OperatorsQuery)
        _, data = self.data(profile_id)
        asked = table_request(request.query_params, len(data.passes))
        table = SideTable(data, asked, asked.sides[0], _NOWHERE)
        place, start = None, wanted["offset"]
        if wanted["around"] is not None:
            place = table.place_of(wanted["around"])
            start = (place or 0) // wanted["limit"] * wanted["limit"]
        stop = min(start + wanted["limit"], table.total)
        grouped = table.selection.is_grouped
        return written(
            {
                "side": table.side,
                "total": table.total,
                "offset": start,
                "place": place,
                "totals": {f"{side}_s": data.columns.times(side).total_s() for side in SIDES},
                "said": table.said(),
                "operators": [] if grouped else _rows(table, start, stop),
                "groups": list(islice(group_rows(table.selection), start, stop)) if grouped else [],
            }
        )

    @extend_schema(
        summary="Order of operators",
        parameters=[PassesQuery],
        responses={200: OrderAnswer} | problems(NOT_READY | QUESTION),
        operation_id="profiles_operators_order",
    )
    @method_decorator(gzip_page)
    def order(self, request: Request, profile_id: int) -> HttpResponse:
        """All operators of a table in its order, each by its row: for scripts that keep it."""
        self.asked(PassesQuery)
        _, data = self.data(profile_id)
        asked = table_request(request.query_params, len(data.passes))
        table = SideTable(data, asked, asked.sides[0], _NOWHERE)
        return written({"rows": table.operators().tolist()})


class Files(ViewSetMixin, DataView):
    """A profile as a file."""

    renderer_classes = (AnyFile,)

    @extend_schema(
        summary="Export a profile",
        parameters=[ExportQuery],
        responses={
            (200, wanted.content_type.partition(";")[0]): OpenApiResponse(
                OpenApiTypes.BINARY, description="The file."
            )
            for wanted in FORMATS.values()
        }
        | problems(NOT_READY | QUESTION | {404: ["not_found", "export_unknown"]}),
    )
    def export(self, request: Request, profile_id: int, name: str) -> HttpResponseBase:
        """A file in one of the formats csv, json, trace (Chrome, Perfetto), report (HTML) and
        text (as `profile_analyze` prints). csv and json hold what the address asks for; without
        a question they hold all operators.
        """
        self.asked(ExportQuery)
        wanted = FORMATS.get(name)
        if wanted is None:
            raise DomainError("export_unknown", status=404)
        profile, data = self.data(profile_id)
        given = exported(request.query_params, data, provenance(profile), profile)
        called = content_disposition_header(True, file_name(profile, wanted.ending))
        answer = answer_of(request._request, wanted.make(given), wanted.content_type)
        answer["Content-Disposition"] = called or "attachment"
        return answer

    @extend_schema(
        summary="Read a profile as text",
        parameters=[TextQuery],
        responses={(200, "text/plain"): OpenApiResponse(str, description="The text.")}
        | problems(NOT_READY | QUESTION),
    )
    def text(self, request: Request, profile_id: int) -> HttpResponseBase:
        """One pass letter for letter as `profile_analyze` prints it, with all of its options.

        All rows, unless `rows` says otherwise.
        """
        wanted = self.asked(TextQuery)
        _, data = self.data(profile_id)
        asked = table_request(request.query_params, len(data.passes))
        columns = data.columns_of_pass(max(asked.pass_number - 1, 0))
        printed = Printed(
            top=wanted["rows"],
            show_host=True,
            print_only=wanted.get("only", ""),
            copy_time="copies" in wanted,
            only_operators=wanted["style"] == "names",
            wiki=wanted["style"] == "wiki",
        )
        pieces = text_pieces(columns, asked.query, printed)
        return answer_of(request._request, pieces, "text/plain; charset=utf-8")

    @extend_schema(
        summary="Fetch a raw profile",
        responses=redirect_to("the file in storage"),
    )
    def raw(self, request: Request, profile_id: int, number: int) -> HttpResponse:
        """A redirect to storage for a file of the run. Do not send the token along.

        What else a task left is below its own address.
        """
        profile = self.profile(profile_id)
        original = next(
            (candidate for candidate in originals_of(profile) if candidate.number == number), None
        )
        if original is None:
            raise Http404
        name = file_name(profile, original.ending)
        return redirect(storage.presign_get(original.key, filename=name))

    @extend_schema(
        summary="Cut a trace",
        parameters=[CutQuery],
        responses={
            (200, "application/json"): OpenApiResponse(
                OpenApiTypes.BINARY, description="A Chrome trace."
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
        """All spans that touch the range, whole, as complete events, with the counters in it and
        the arrows between them: a Chrome trace that Perfetto opens. Without a question it is all
        of the trace; what is too large is refused. The header `X-Trace-Events` says how many spans
        and counters it has.
        """
        query = self.asked(CutQuery)
        profile = self.profile(profile_id)
        if not is_trace(profile):
            raise DomainError("trace_none", status=409)
        excerpt = range_of(query["begin_s"], query["end_s"], query["lane"])
        packed, events = cuts.trace_cut(profile, excerpt)
        answer = packed_json(request, packed)
        answer["X-Trace-Events"] = str(events)
        return answer


def _rows(table: SideTable, start: int, stop: int) -> list[dict[str, Any]]:
    """A window of operators, each with its numbers in this table."""
    data, asked, found = table.data, table.request, table.selection
    window = slice(start, max(start, stop))
    rows = table.operators()[window]
    displayed = data.of_pass(asked.pass_number - 1) if asked.pass_number else data
    shaky = unstable(data, table.side)
    own = zip(
        found.self_s[window].tolist(),
        found.ratio[window].tolist(),
        found.cumulative_s[window].tolist(),
        found.cumulative_ratio[window].tolist(),
        shaky[rows].tolist(),
        strict=True,
    )
    names = ("self_s", "share", "cumulative_s", "cumulative_share", "is_unstable")
    return [
        operator | {"place": place} | dict(zip(names, numbers, strict=True))
        for place, (operator, numbers) in enumerate(
            zip(_operators(displayed, rows), own, strict=True), start
        )
    ]


def _operators(data: ProfileData, rows: Any) -> list[dict[str, Any]]:
    return operators_as_json(data, rows, values_of(data, rows))
