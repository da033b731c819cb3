"""A profile as a file of each format; for the site and for `manage.py export`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.http import QueryDict

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.merging import merge
from profiles.analysis.query import Query
from profiles.analysis.text import Printed, text_pieces
from profiles.exports.chrome_trace import to_trace
from profiles.exports.csv_file import groups_to_csv, to_csv
from profiles.exports.fields import ExportRows, Rows, rows_by_time, values_of
from profiles.exports.json_file import to_json
from profiles.exports.originals import with_own_names
from profiles.exports.report import report_html
from profiles.formats.columns import ProfileColumns
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.models import Profile
from profiles.tables.page import Places, SideTable
from profiles.tables.request import TableRequest, read_request
from webprofile.errors import DomainError
from webprofile.sentences import sentences

Meta = Mapping[str, Any]
_NOWHERE = Places("", "", "", "")


@dataclass(frozen=True, eq=False)
class Exported:
    """What goes into a file.

    asked: of `shown`, which has the times of one pass where the address asks for a pass
    meta: `provenance`, and `query`, the address, where it asks for something
    profile: None for a file that is no row here
    """

    data: ProfileData
    shown: ProfileData
    asked: ExportRows
    meta: Meta
    profile: Profile | None = None


@dataclass(frozen=True)
class Format:
    """make: returns the file's bytes in pieces, a list of one where it is made at once"""

    ending: str
    content_type: str
    make: Callable[[Exported], Iterable[bytes]]


def _csv(export: Exported) -> list[bytes]:
    if export.asked.groups is not None:
        return [groups_to_csv(export.asked.groups, export.meta)]
    return [to_csv(values_of(export.shown, export.asked.rows), export.meta)]


def _json(export: Exported) -> list[bytes]:
    values = values_of(export.shown, export.asked.rows)
    return [to_json(export.shown, export.asked, values, export.meta)]


def _trace(export: Exported) -> list[bytes]:
    return [to_trace(export.data, export.meta)]


def text_of(columns: ProfileColumns, top: int = 0) -> Iterable[bytes]:
    """What profile_analyze prints of one pass: `top` rows of each table, or all.

    Raises DomainError export_question for a text that nobody could read.
    """
    try:
        return text_pieces(columns, Query(), Printed(top=top, show_host=True))
    except AnalysisError as error:
        raise _refusal(str(error)) from error


def _text(export: Exported) -> Iterable[bytes]:
    # the original knows one pass, and no medians
    return text_of(export.data.columns_of_pass(0))


def _report(export: Exported) -> list[bytes]:
    return [report_html(export.data, export.meta, export.profile).encode()]


FORMATS: dict[str, Format] = {
    "csv": Format(".csv", "text/csv; charset=utf-8", _csv),
    "json": Format(".json", "application/json", _json),
    "trace": Format(".trace.json", "application/json", _trace),
    "report": Format(".html", "text/html; charset=utf-8", _report),
    "text": Format(".txt", "text/plain; charset=utf-8", _text),
}


def profile_of_files(paths: Sequence[str]) -> ProfileData:
    """The profile of files of load_and_run, one for each pass.

    Raises OSError, ProfileFormatError.
    """
    limit = settings.PROFILE_SIZE_LIMIT_BYTES
    (lead, data), *others = [(Path(path).name, Path(path).read_bytes()) for path in paths]
    columns, graph = parse_whole(data, max_bytes=limit)
    passes = [(name, parse(other, max_bytes=limit)) for name, other in others]
    return merge([(lead, columns), *passes], graph())


def exported(
    parameters: QueryDict, data: ProfileData, meta: Meta, profile: Profile | None = None
) -> Exported:
    """What the address of a result page asks for, as its first table shows it.

    Without a question it is every operator, also those that were timed on the host alone. A
    question that cannot be answered raises DomainError export_question.
    """
    data = with_own_names(data, profile)
    request = read_request(parameters, passes=len(data.passes))
    request = replace(request, columns=(), page=1)
    if request.problems:
        raise _refusal(sentences(request.problems.values()))
    displayed = data.of_pass(request.pass_number - 1) if request.pass_number else data
    address = request.address()
    try:
        rows = _asked(data, request) if address else ExportRows(rows_by_time(data.columns))
    except AnalysisError as error:
        raise _refusal(str(error)) from error
    return Exported(data, displayed, rows, {**meta, "query": address} if address else meta, profile)


def _refusal(detail: str) -> DomainError:
    return DomainError("export_question", status=422, detail=detail)


def _asked(data: ProfileData, request: TableRequest) -> ExportRows:
    groups = None
    if request.query.aggregate:
        groups = SideTable(data, request, request.sides[0], _NOWHERE).selection
        request = _ungrouped(request)
    return ExportRows(_rows(data, request), groups)


def _ungrouped(request: TableRequest) -> TableRequest:
    query = replace(request.query, aggregate="", by_type=False, order="time")
    return replace(request, query=query, order="time", top=0)


def _rows(data: ProfileData, request: TableRequest) -> Rows:
    table = SideTable(data, request, request.sides[0], _NOWHERE)
    rows = table.selection.rows[: table.total]
    if request.pass_number > 1:
        rows = data.order[request.pass_number - 1][rows]
    return rows.astype(np.intp)
