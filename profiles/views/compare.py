"""Results side by side: `/profiles/compare/?p=3&p=8`, the first of which is the baseline."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Page
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from accounts.selectors import reader_of
from profiles.comparison import presenter
from profiles.comparison.candidates import candidates, choices, chosen_profiles, problem_of
from profiles.comparison.comparison import MOST
from profiles.comparison.facts import facts_of, warnings_of
from profiles.comparison.graph import graph_view, row_at
from profiles.comparison.loading import Compared, comparison_of
from profiles.comparison.messages import letter, origin_of
from profiles.comparison.question import RowQuery, select_rows
from profiles.comparison.request import (
    ComparisonRequest,
    page_problem,
    read_comparison_request,
    unknown_choice,
)
from profiles.exports.provenance import title_of
from profiles.models import Profile
from profiles.views.addresses import page_of


@login_required
@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """The comparison; with too few or too many results, or at `?choose=1`, the chooser."""
    asked = read_comparison_request(request.GET)
    profiles = _profiles(request, asked)
    problem = problem_of(asked.ids)
    if problem or "choose" in request.GET:
        return _chooser(request, asked, profiles, problem)
    compared = comparison_of(profiles)
    if asked.row is None and asked.at is not None:
        asked = replace(asked, row=row_at(compared.comparison, asked.drawn, asked.at))
    answer = select_rows(compared.comparison, asked.question)
    of_rows = ComparisonRequest(ids=asked.ids, question=asked.question)
    of_graph = replace(of_rows, question=RowQuery(side=asked.question.side))
    of_graph = replace(of_graph, other=asked.other, graph=asked.graph)
    rows = presenter.row_page(compared, asked, answer)
    selected = presenter.selected_view(compared, asked)
    context = {
        "asked": asked,
        "runs": _runs(compared, asked),
        "add_address": _add_address(asked),
        "warnings": warnings_of(compared),
        "facts": facts_of(compared),
        "common": _without_common(compared),
        "totals": presenter.total_rows(compared),
        "totals_notes": presenter.total_notes(compared),
        "waterfall": presenter.waterfall_view(compared, asked),
        "filter": presenter.filter_view(asked, answer),
        "page": rows,
        "page_before": asked.changed(page=rows.number - 1),
        "page_after": asked.changed(page=rows.number + 1),
        "graph": graph_view(asked),
        "profile": profiles[asked.drawn],
        "change_document": f"{reverse('api:compare-graph')}?{of_graph.address()}",
        "selected": selected,
        "problems": _problems(request, asked, rows, is_row_there=selected is not None),
        "address": asked.address(),
        "export_address": of_rows.address(),
    }
    return render(request, "profiles/compare.html", context)


def _problems(
    request: HttpRequest, asked: ComparisonRequest, rows: "Page[Any]", *, is_row_there: bool
) -> list[str]:
    """What of the address makes no sense, in sentences."""
    found = [*asked.problems, page_problem(rows, request.GET.get("page", ""))]
    if asked.row is not None and not is_row_there:
        found.append(unknown_choice("row", str(asked.row)))
    return list(filter(None, found))


def _profiles(request: HttpRequest, asked: ComparisonRequest) -> list[Profile]:
    profiles = chosen_profiles(reader_of(request), asked.ids)
    if profiles is None:
        raise Http404
    return profiles


def _chooser(
    request: HttpRequest, asked: ComparisonRequest, profiles: Sequence[Profile], problem: str
) -> HttpResponse:
    find = request.GET.get("find", "").replace("\0", "")[:200]
    kept = list(dict.fromkeys(profiles))
    is_wrong = bool(problem) and len(asked.ids) > 1
    wanted = request.GET.get("page", "")
    found = candidates(reader_of(request), profiles, find=find, page=wanted)
    context = {
        "page_problem": page_problem(found, wanted),
        "is_wrong": is_wrong,
        "chosen": [
            {"choice": choice, "remove": _without(asked, n), "page": page_of(choice.profile)}
            for n, choice in enumerate(choices(profiles))
        ],
        "kept": [each.pk for each in kept],
        "problem": problem if asked.ids else "",
        "is_full": len(asked.ids) >= MOST,
        "most": MOST,
        "find": find,
        "address": asked.address(),
        "page": found,
    }
    return render(request, "profiles/compare_choose.html", context, status=400 if is_wrong else 200)


def _without(asked: ComparisonRequest, place: int) -> str:
    ids = asked.ids[:place] + asked.ids[place + 1 :]
    return asked.changed(ids=ids, row=None, other=1, graph=None)


def _runs(compared: Compared, asked: ComparisonRequest) -> list[dict[str, Any]]:
    runs = []
    for n, profile in enumerate(compared.profiles):
        ids = asked.ids
        first = (ids[n], *ids[:n], *ids[n + 1 :])
        runs.append(
            {
                "letter": letter(n),
                "title": title_of(profile),
                "origin": origin_of(profile),
                "profile": profile,
                "passes": len(compared.data[n].passes),
                "page": page_of(profile),
                "is_baseline": n == 0,
                "as_baseline": asked.changed(ids=first, row=None, other=1),
                "remove": _without(asked, n),
            }
        )
    return runs


def _add_address(asked: ComparisonRequest) -> str:
    if len(asked.ids) >= MOST:
        return ""
    return f"{asked.changed(row=None, page=1)}&choose=1"


def _without_common(compared: Compared) -> list[str]:
    """The letters of profiles that share nothing with the baseline."""
    return [letter(n) for n, count in enumerate(compared.comparison.common, start=1) if not count]
