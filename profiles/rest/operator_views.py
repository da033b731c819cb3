"""Operators of a profile: tables, single ones, files of them."""

from itertools import islice
from typing import Any

import numpy as np
from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request

from profiles.analysis.data import ProfileData
from profiles.analysis.stability import unstable
from profiles.analysis.text import Printed, text_pieces
from profiles.exporting.fields import group_rows, values_of
from profiles.exporting.json_file import operators_as_json
from profiles.exports import FORMATS, exported
from profiles.originals import originals_of
from profiles.parsers.columns import Side
from profiles.provenance import file_name, provenance
from profiles.rest.access import NOT_READY, AnyFile, DataView, ResultView, written
from profiles.rest.operator_answers import OperatorDetail, TableAnswer
from profiles.rest.questions import (
    ExportQuery,
    OperatorsQuery,
    TextQuery,
    table_request,
)
from profiles.shown.operator_facts import SIDES, operator_facts
from profiles.tables.page import Places, SideTable
from profiles.tables.request import TableRequest
from webprofile.errors import DomainError
from webprofile.rest.schema import documented, redirect_to
from webprofile.storage import storage
from webprofile.streaming import answer_of

_NOWHERE = Places("", "", "", "")
QUESTION = {422: ["export_question"]}


class Operators(DataView):
    """The table of operators."""

    @documented(
        "List operators",
        answers={200: TableAnswer},
        query=OperatorsQuery,
        errors=NOT_READY | QUESTION,
        operation_id="profiles_operators",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponse:
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


class Operator(DataView):
    """One operator."""

    @documented(
        "Show an operator",
        answers={200: OperatorDetail},
        errors=NOT_READY,
        operation_id="profiles_operator",
    )
    def get(self, request: Request, profile_id: int, row: int) -> HttpResponse:
        """All that is known of it; `row` as tables and pictures name it."""
        _, data = self.data(profile_id)
        if row >= len(data.columns):
            raise Http404
        facts = operator_facts(data, row)
        (operator,) = _operators(data, np.array([row], dtype=np.intp))
        return written(
            operator
            | {
                **{f"{side}_place": _place(data, side, row) for side in SIDES},
                **{f"is_unstable_on_{side}": bool(unstable(data, side)[row]) for side in SIDES},
                "inputs": facts.get("inputs", []),
                "outputs": facts.get("outputs", []),
            }
        )


class Export(DataView):
    """A profile as a file."""

    renderer_classes = (AnyFile,)

    @documented(
        "Export a profile",
        answers={
            (200, wanted.content_type.partition(";")[0]): OpenApiResponse(
                OpenApiTypes.BINARY, description="The file."
            )
            for wanted in FORMATS.values()
        },
        query=ExportQuery,
        errors=NOT_READY | QUESTION | {404: ["not_found", "export_unknown"]},
        operation_id="profiles_export",
    )
    def get(self, request: Request, profile_id: int, name: str) -> HttpResponseBase:
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


class Text(DataView):
    """A pass as text."""

    renderer_classes = (AnyFile,)

    @documented(
        "Read a profile as text",
        answers={(200, "text/plain"): OpenApiResponse(str, description="The text.")},
        query=TextQuery,
        errors=NOT_READY | QUESTION,
        operation_id="profiles_text",
    )
    def get(self, request: Request, profile_id: int) -> HttpResponseBase:
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


class Raw(ResultView):
    """A file as MegEngine wrote it."""

    @documented(
        "Fetch a raw profile",
        answers=redirect_to("the file in storage"),
        operation_id="profiles_raw",
    )
    def get(self, request: Request, profile_id: int, number: int) -> HttpResponse:
        """A redirect to storage for a file of the run. Do not send the token along.

        What else a task left is below its own address.
        """
        profile = self.profile(profile_id)
        found = next((each for each in originals_of(profile) if each.number == number), None)
        if found is None:
            raise Http404
        name = file_name(profile, found.ending)
        return redirect(storage.presign_get(found.key, filename=name))


def _rows(table: SideTable, start: int, stop: int) -> list[dict[str, Any]]:
    """A window of operators, each with its numbers in this table."""
    data, asked, found = table.data, table.request, table.selection
    window = slice(start, max(start, stop))
    rows = table.operators()[window]
    shown = data.of_pass(asked.pass_number - 1) if asked.pass_number else data
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
            zip(_operators(shown, rows), own, strict=True), start
        )
    ]


def _operators(data: ProfileData, rows: Any) -> list[dict[str, Any]]:
    return operators_as_json(data, rows, values_of(data, rows))


def _place(data: ProfileData, side: Side, row: int) -> int | None:
    """The place by self time on one side, None if the operator was not timed there."""
    return SideTable(data, TableRequest(sides=(side,)), side, _NOWHERE).place_of(row)
