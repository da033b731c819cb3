"""Fragments of a result page: rows of a table, details of one operator."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from profiles.analysis.errors import AnalysisError
from profiles.ingest.loading import profile_data
from profiles.presenters.operator_facts import operator_facts
from profiles.presenters.statistics import is_one_sample
from profiles.tables.columns import columns_without
from profiles.tables.page import SideTable
from profiles.tables.request import PAGE_ROWS, read_request
from profiles.views.common import page_of, profile_or_404, table_links
from webprofile.integers import LARGEST_COUNT, parse_int


@login_required
@require_GET
def operators(request: HttpRequest, profile_id: int) -> HttpResponse:
    """Return rows of the table that the query string selects, from `offset` or around an operator.

    `around` is its row in the profile's columns; if `data-place` is missing, it is not in the
    table.
    """
    table = _table(request, profile_id)
    place, start = None, _whole(request.GET.get("offset", ""))
    if "around" in request.GET:
        place = table.place_of(_whole(request.GET["around"]))
        start = place or 0
    start = start // PAGE_ROWS * PAGE_ROWS
    context = {"start": start, "place": place, "body": table.body(start)}
    return render(request, "profiles/_rows.html", context)


def _table(request: HttpRequest, profile_id: int) -> SideTable:
    profile = profile_or_404(request, profile_id)
    data = profile_data(profile)
    without = columns_without(data.columns)
    table_request = read_request(request.GET, passes=len(data.passes), without=without)
    try:
        return SideTable(data, table_request, table_request.sides[0], table_links(profile))
    except AnalysisError as error:
        raise Http404(str(error)) from error


@login_required
@require_GET
def operator(request: HttpRequest, profile_id: int, row: int) -> HttpResponse:
    """Show all data about one operator, as a fragment of the result page or as a page."""
    profile = profile_or_404(request, profile_id)
    data = profile_data(profile)
    if row >= len(data.columns):
        raise Http404
    page = page_of(profile)
    without = columns_without(data.columns)
    state = read_request(request.GET, passes=len(data.passes), without=without).address()
    is_part = "part" in request.GET
    context = {
        "profile": profile,
        "is_part": is_part,
        "operator": operator_facts(data, row),
        "is_one_sample": is_one_sample(data, profile),
        "page": page,
        "without": f"{page}{state}",
    }
    name = "profiles/_operator.html" if is_part else "profiles/operator.html"
    return render(request, name, context)


def _whole(text: str) -> int:
    """Parse a number of the query string; 0 if it is invalid."""
    return parse_int(text, maximum=LARGEST_COUNT) or 0
