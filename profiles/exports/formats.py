"""Export a profile in each format, and its raw files, for the site and for `manage.py export`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils.http import content_disposition_header

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.passes import merge
from profiles.analysis.select import Query, Selection
from profiles.analysis.text import PrintOptions, text_pieces
from profiles.exports.chrome_trace import to_trace
from profiles.exports.csv_file import to_csv
from profiles.exports.fields import (
    FIELDS,
    GROUP_FIELDS,
    Rows,
    group_columns,
    rows_by_time,
    values_of,
)
from profiles.exports.heavy import content_response
from profiles.exports.json_file import to_json
from profiles.exports.originals import originals_of, with_own_names
from profiles.exports.provenance import file_name, provenance
from profiles.exports.report import report_html
from profiles.formats.columns import take_rows
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.ingest.loading import profile_data
from profiles.models import Profile
from profiles.tables.page import SideTable, TableLinks
from profiles.tables.request import TableRequest, read_request
from webprofile.errors import DomainError
from webprofile.sentences import sentences
from webprofile.storage import storage

Meta = Mapping[str, Any]
NO_LINKS = TableLinks("", "")


@dataclass(frozen=True, eq=False)
class Export:
    """The content of an exported file.

    displayed: `data`, or the times of the one pass that the query selects
    place: the pass, counted from 0, for what shows a single one: a timeline, `profile_analyze`
    rows: (m,) the selected rows of `displayed`
    groups: None if single operators were requested
    meta: `provenance`, and the query string as `query` if it is not empty
    profile: None for a file that is not in the database
    """

    data: ProfileData
    displayed: ProfileData
    rows: Rows
    groups: Selection | None
    meta: Meta
    profile: Profile | None = None
    place: int = 0


@dataclass(frozen=True)
class Format:
    """A format of exports.

    make: returns the bytes of the file in pieces; a single piece if it is made at once
    """

    ending: str
    content_type: str
    make: Callable[[Export], Iterable[bytes]]


def _csv(export: Export) -> list[bytes]:
    if export.groups is not None:
        return [to_csv(GROUP_FIELDS, group_columns(export.groups), export.meta)]
    return [to_csv(FIELDS, values_of(export.displayed, export.rows), export.meta)]


def _json(export: Export) -> list[bytes]:
    displayed = with_own_names(export.displayed, export.profile)
    return [to_json(displayed, export.rows, export.groups, export.meta)]


def _trace(export: Export) -> list[bytes]:
    return [to_trace(export.data, export.meta, export.place)]


def _text(export: Export) -> Iterable[bytes]:
    # `profile_analyze` knows one pass, and no medians
    columns = export.data.columns_of_pass(export.place)
    try:
        return text_pieces(columns, Query(), PrintOptions(top=0, show_host=True))
    except AnalysisError as error:  # a text that is too large to be readable
        raise _refusal(str(error)) from error


def _report(export: Export) -> list[bytes]:
    return [report_html(export.data, export.meta, export.profile, export.place).encode()]


FORMATS: dict[str, Format] = {
    "csv": Format(".csv", "text/csv; charset=utf-8", _csv),
    "json": Format(".json", "application/json", _json),
    "trace": Format(".trace.json", "application/json", _trace),
    "report": Format(".html", "text/html; charset=utf-8", _report),
    "text": Format(".txt", "text/plain; charset=utf-8", _text),
}


def profile_of_files(paths: Sequence[str]) -> ProfileData:
    """Return the profile of files of load_and_run, one for each pass.

    Raises OSError, ProfileFormatError.
    """
    limit = settings.PROFILE_SIZE_LIMIT_BYTES
    (lead, data), *others = [(Path(path).name, Path(path).read_bytes()) for path in paths]
    columns, graph = parse_whole(data, max_bytes=limit)
    passes = [(name, parse(other, max_bytes=limit)) for name, other in others]
    return merge([(lead, columns), *passes], graph())


def export_response(request: HttpRequest, profile: Profile, name: str) -> HttpResponseBase:
    """Return the download of a format; CSV and JSON hold the rows of the query string.

    Raises DomainError export_unknown, export_question, and as `profile_data` and
    `content_response`.
    """
    format_ = FORMATS.get(name)
    if format_ is None:
        raise DomainError("export_unknown", status=404)
    response = content_response(
        request,
        [profile],
        name,
        format_.content_type,
        lambda: pieces_of(profile, request.GET, name),
    )
    # always a download, so that no content is displayed under this site's origin
    disposition = content_disposition_header(True, file_name(profile, format_.ending))
    response["Content-Disposition"] = disposition or "attachment"
    return response


def pieces_of(profile: Profile, parameters: QueryDict, name: str) -> Iterable[bytes]:
    """Return the bytes of a format in pieces. Raises as `prepare_export` and `profile_data`."""
    export = prepare_export(parameters, profile_data(profile), provenance(profile), profile)
    return FORMATS[name].make(export)


def printed_response(
    request: HttpRequest, profile: Profile, printed: PrintOptions
) -> HttpResponseBase:
    """Return one pass as `profile_analyze` prints it. Raises as `export_response`."""
    return content_response(
        request,
        [profile],
        "text",
        FORMATS["text"].content_type,
        lambda: printed_pieces(profile, request.GET, printed),
        printed=printed,
    )


def printed_pieces(
    profile: Profile, parameters: QueryDict, printed: PrintOptions
) -> Iterable[bytes]:
    """Return the text of one pass in pieces. Raises AnalysisError, and as `table_request`."""
    data = profile_data(profile)
    selected = table_request(parameters, data)
    columns = data.columns_of_pass(max(selected.pass_number - 1, 0))
    return text_pieces(columns, selected.query, printed)


def original_response(
    profile: Profile, number: int, *, expires_s: int | None = None
) -> HttpResponse:
    """Redirect to storage for a file as MegEngine wrote it. Raises Http404.

    expires_s: lifetime of the URL in storage; None for the usual one
    """
    original = next((file for file in originals_of(profile) if file.number == number), None)
    if original is None:
        raise Http404
    name = file_name(profile, original.ending)
    return redirect(storage.presign_get(original.key, filename=name, expires_s=expires_s))


def table_request(parameters: QueryDict, data: ProfileData) -> TableRequest:
    """Parse a query string as the result page does, but refuse what it cannot use.

    Raises DomainError export_question.
    """
    request = read_request(parameters, passes=len(data.passes))
    if request.problems:
        raise _refusal(sentences(request.problems.values()))
    return replace(request, columns=(), page=1)


def prepare_export(
    parameters: QueryDict, data: ProfileData, meta: Meta, profile: Profile | None = None
) -> Export:
    """Return the export that the query string of a result page selects, as its first table.

    Without parameters, all operators are exported, also those that were timed only on the host.
    Raises DomainError export_question for an invalid query.
    """
    request = table_request(parameters, data)
    displayed = data.of_pass(request.pass_number - 1) if request.pass_number else data
    address = request.address()
    groups = None
    try:
        if not address:
            rows = rows_by_time(data.columns)
        else:
            if request.query.aggregate:
                table = SideTable(data, request, request.sides[0], NO_LINKS)
                groups = take_rows(table.selection, np.arange(table.total))
                query = replace(request.query, aggregate="", by_type=False, order="time")
                request = replace(request, query=query, order="time", top=0)
            rows = _rows(data, request)
    except AnalysisError as error:
        raise _refusal(str(error)) from error
    meta = {**meta, "query": address} if address else meta
    place = max(request.pass_number - 1, 0)
    return Export(data, displayed, rows, groups, meta, profile, place)


def _refusal(detail: str) -> DomainError:
    return DomainError("export_question", status=422, detail=detail)


def _rows(data: ProfileData, request: TableRequest) -> Rows:
    table = SideTable(data, request, request.sides[0], NO_LINKS)
    rows = table.selection.rows[: table.total]
    if request.pass_number > 1:
        rows = data.order[request.pass_number - 1][rows]
    return rows.astype(np.intp)
