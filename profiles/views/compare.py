"""Comparison of results: `/profiles/compare/?p=3&p=8`, the first result is the baseline; and of the
values of all variables of two tasks.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from accounts.selectors import current_user
from agent.protocol.pairs import MOST_ARMS
from profiles.comparison import presenter
from profiles.comparison.candidates import candidates, chosen_profiles, named, problem_of
from profiles.comparison.comparison import MOST
from profiles.comparison.dumps import dumps_compare
from profiles.comparison.facts import compared_facts, warnings_of
from profiles.comparison.graph import graph_view, row_at
from profiles.comparison.loading import ComparisonResult, comparison_of
from profiles.comparison.messages import letter
from profiles.comparison.question import RowQuery, select_rows
from profiles.comparison.request import (
    ComparisonRequest,
    page_problem,
    read_comparison_request,
)
from profiles.models import Profile, Share
from profiles.presenters.attempt_messages import DISTURBED_RUN
from profiles.presenters.charts import chart_side
from profiles.query_values import unknown_choice
from profiles.selectors import get_dump, tasks_with_dumps
from profiles.views.common import ResultLinks, profile_links, task_or_404
from webprofile.integers import LARGEST_KEY, parse_int

#: variables on a page
COMPARE_ROWS = 200


@login_required
@require_safe
def compare(request: HttpRequest) -> HttpResponse:
    """Show the comparison, or the chooser for too few or too many results and for `?choose=1`."""
    comparison = read_comparison_request(request.GET)
    profiles = chosen_profiles(current_user(request), comparison.ids)
    if profiles is None:
        raise Http404
    problem = problem_of(comparison.ids)
    if problem or "choose" in request.GET:
        return _chooser(request, comparison, profiles, problem)
    return compare_page(request, comparison, profiles)


def compare_page(
    request: HttpRequest,
    comparison: ComparisonRequest,
    profiles: Sequence[Profile],
    share: Share | None = None,
) -> HttpResponse:
    """Show the comparison of these profiles.

    share: the link of the reader, who can neither choose other results nor leave the page
    """
    compared = comparison_of(profiles)
    # one without device times has nothing to compare on the device
    if "host" in map(chart_side, compared.data):
        comparison = replace(comparison, usual_side="host")
        if not request.GET.get("side"):
            comparison = replace(comparison, question=replace(comparison.question, side="host"))
    if comparison.row is None and comparison.at is not None:
        comparison = replace(
            comparison, row=row_at(compared.comparison, comparison.drawn, comparison.at)
        )
    answer = select_rows(compared.comparison, comparison.question)
    of_rows = ComparisonRequest(ids=comparison.ids, question=comparison.question)
    of_graph = replace(of_rows, question=RowQuery(side=comparison.question.side))
    of_graph = replace(of_graph, other=comparison.other, graph=comparison.graph)
    graph_address, timelines_address = (
        f"{request.path}data/compare/{name}/" if share else reverse(f"api:compare-{name}")
        for name in ("graph", "timelines")
    )
    rows = presenter.row_page(compared, comparison, answer)
    selected = presenter.selected_view(compared, comparison)
    facts = compared_facts(compared, is_shared=share is not None)
    context = {
        "comparison": comparison,
        "runs": _runs(compared, comparison),
        "add_address": f"{comparison.changed(row=None, page=1)}&choose=1"
        if len(comparison.ids) < MOST and share is None
        else "",
        "warnings": warnings_of(compared),
        "answers": presenter.answers(compared),
        "facts": facts,
        "differences": [fact for fact in facts if fact.differs],
        "common_facts": (common := [fact for fact in facts if not fact.differs]),
        "common_names": [fact.name for fact in common],
        "disturbed": DISTURBED_RUN,
        # letters of profiles that share nothing with the baseline
        "apart": [
            letter(n) for n, count in enumerate(compared.comparison.common, start=1) if not count
        ],
        "totals": presenter.total_table(compared),
        "totals_notes": presenter.total_notes(compared),
        "waterfall": presenter.waterfall_view(compared, comparison),
        "filter": presenter.filter_view(comparison, answer),
        "page": rows,
        "unit": presenter.row_unit(compared, comparison).name,
        "page_before": comparison.changed(page=rows.number - 1),
        "page_after": comparison.changed(page=rows.number + 1),
        "graph": graph_view(comparison),
        "timelines_data": f"{timelines_address}?{replace(of_graph, graph=None).address()}",
        "profile": profiles[comparison.drawn],
        "change_document": f"{graph_address}?{of_graph.address()}",
        "links": ResultLinks(request.path) if share else profile_links(profiles[comparison.drawn]),
        "share": share,
        "may_share": settings.SHARE_DAYS_LIMIT > 0
        and all(profile.owner == request.user for profile in profiles),
        "selected": selected,
        "problems": _problems(request, comparison, rows, is_row_there=selected is not None),
        "address": comparison.address(),
        "paired": _paired(profiles) if share is None else None,
        "share_address": ComparisonRequest(ids=comparison.ids).address(),
        "export_address": of_rows.address(),
    }
    return render(request, "profiles/compare.html", context)


def _paired(profiles: Sequence[Profile]) -> dict[str, Any] | None:
    """Return what the button for a paired comparison needs; None if these cannot be compared so."""
    tasks = [task for profile in profiles if (task := profile.task)]
    if len(tasks) < len(profiles) or len(tasks) > MOST_ARMS:
        return None
    if any(task.is_script or not task.may_copy for task in tasks):
        return None
    return {"baseline": tasks[0], "others": [task.pk for task in tasks[1:]]}


def _problems(
    request: HttpRequest, comparison: ComparisonRequest, rows: "Page[Any]", *, is_row_there: bool
) -> list[str]:
    """Return messages about invalid values of the query string."""
    problems = [*comparison.problems, page_problem(rows, request.GET.get("page", ""))]
    if comparison.row is not None and not is_row_there:
        problems.append(unknown_choice("row", str(comparison.row)))
    return list(filter(None, problems))


def _chooser(
    request: HttpRequest, comparison: ComparisonRequest, profiles: Sequence[Profile], problem: str
) -> HttpResponse:
    find = request.GET.get("find", "").replace("\0", "")[:200]
    kept = list(dict.fromkeys(profiles))
    is_wrong = bool(problem) and len(comparison.ids) > 1
    page_text = request.GET.get("page", "")
    page = _candidates(request, comparison, profiles, find, page_text)
    context = {
        "page_problem": page_problem(page, page_text),
        "is_wrong": is_wrong,
        "chosen": [
            {
                **named(profile),
                "letter": letter(n) if n < MOST else "",
                "page": profile.page_url,
                "remove": _without(comparison, n),
            }
            for n, profile in enumerate(profiles)
        ],
        "kept": [profile.pk for profile in kept],
        # one came from this result
        "is_current": len(profiles) == 1,
        "problem": problem if comparison.ids else "",
        "is_full": len(comparison.ids) >= MOST,
        "most": MOST,
        "find": find,
        "address": comparison.address(),
        "fields": comparison.fields(),
        "page": page,
    }
    if "part" in request.GET:
        return render(request, "profiles/compare_add_results.html", context)
    return render(request, "profiles/compare_choose.html", context, status=400 if is_wrong else 200)


def others_of(request: HttpRequest, profile: Profile) -> dict[str, Any]:
    """Return the context of `profiles/compare_add_results.html`: what to compare a result with."""
    comparison = ComparisonRequest(ids=(profile.pk,))
    page = _candidates(request, comparison, [profile])
    return {"page": page, "find": "", "address": comparison.address()}


def _candidates(
    request: HttpRequest,
    comparison: ComparisonRequest,
    profiles: Sequence[Profile],
    find: str = "",
    page_text: str = "",
) -> "Page[Any]":
    """Return a page of results that can be added, each with the address of the comparison then."""
    page = candidates(current_user(request), profiles, find=find, page=page_text)
    ids = comparison.ids
    for candidate in page.object_list:
        number = candidate["profile"].pk
        # the baseline, if one came from the other
        more = (number, *ids) if len(ids) == 1 else (*ids, number)
        candidate["address"] = comparison.changed(ids=more, row=None, graph=None)
    return page


def _without(comparison: ComparisonRequest, place: int) -> str:
    ids = comparison.ids[:place] + comparison.ids[place + 1 :]
    return comparison.changed(ids=ids, row=None, other=1, graph=None)


def _runs(compared: ComparisonResult, comparison: ComparisonRequest) -> list[dict[str, Any]]:
    runs = []
    for n, profile in enumerate(compared.profiles):
        ids = comparison.ids
        first = (ids[n], *ids[:n], *ids[n + 1 :])
        runs.append(
            {
                **named(profile),
                "letter": letter(n),
                "passes": len(compared.data[n].passes),
                "page": profile.page_url,
                "is_baseline": n == 0,
                "as_baseline": comparison.changed(ids=first, row=None, other=1),
                "remove": _without(comparison, n),
            }
        )
    return runs


@login_required
@require_safe
def compare_choose(request: HttpRequest, task_id: int) -> HttpResponse:
    """Redirect `?other=N`, sent by the form of a task's page, to the comparison."""
    task = task_or_404(request, task_id)
    number = parse_int(request.GET.get("other", ""), maximum=LARGEST_KEY)
    if number is None:
        raise Http404
    return redirect("tasks:compare-io", task.pk, task_or_404(request, number).pk)


@login_required
@require_safe
def compare_io(request: HttpRequest, task_id: int, other_id: int) -> HttpResponse:
    """Show the values of all variables of two tasks side by side, in order of execution."""
    task, other = task_or_404(request, task_id), task_or_404(request, other_id)
    comparison = dumps_compare(get_dump(task), get_dump(other))
    only = "differing" in request.GET
    rows = [row for row in comparison["rows"] if row["status"] != "equal" or not only]
    first = next((n for n, row in enumerate(rows) if row["is_first"]), None)
    page_text = request.GET.get("page", "")
    page = Paginator(rows, COMPARE_ROWS).get_page(page_text)
    context = {
        "task": task,
        "other": other,
        # the first difference may be beyond the stored rows
        "first_page": None if first is None else first // COMPARE_ROWS + 1,
        "others": tasks_with_dumps(task, current_user(request)),
        "comparison": comparison,
        "only_differing": only,
        "page": page,
        "page_problem": page_problem(page, page_text),
    }
    return render(request, "profiles/compare_io.html", context)
