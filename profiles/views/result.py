"""Result page of a task or an import: totals, operators, charts, graph; and its fragments."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.http import content_disposition_header
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.views.decorators.http import require_safe

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.earlier import check_view
from profiles.exports.originals import are_of_trace, original_of_kind
from profiles.formats.chrome_trace.presenter import trace_view
from profiles.formats.memory_flow.presenter import (
    memory_flow_view,
    read_flow_query,
    summary_of,
    tensors_view,
)
from profiles.formats.static_memory.presenter import static_memory_view
from profiles.ingest.loading import profile_data, run_data
from profiles.models import Profile, Share
from profiles.presenters.advice import advice_of, run_facts
from profiles.presenters.attempt_messages import input_words
from profiles.presenters.charts import pareto_sentence, pass_choices
from profiles.presenters.explanations import EXPLANATIONS
from profiles.presenters.operator_facts import operator_facts
from profiles.presenters.paired import paired_view
from profiles.presenters.run_sources import mismatches, sources_of
from profiles.presenters.statistics import is_one_sample, statistics_view
from profiles.selectors import (
    baseline_profile,
    measurement_of,
    measurement_view,
    paired_of,
    plan_title,
    profile_of,
)
from profiles.tables.columns import columns_without
from profiles.tables.form import form_context
from profiles.tables.page import SideTable, TableLinks
from profiles.tables.request import PARAMETERS, TableRequest, read_request
from profiles.views.common import ResultLinks, profile_links, profile_or_404, task_or_404
from profiles.views.compare import others_of
from tasks.models import Attempt, Task
from webprofile.errors import DomainError
from webprofile.integers import parse_int
from webprofile.messages.errors import word
from webprofile.storage import storage

#: largest picture on a page: browsers draw all of it at once, and MegEngine's exceed any window
IMAGE_LIMIT_BYTES = 8 * 1024**2


#: views of a result in the order of their tabs; the first is at the address of the page itself
VIEWS = {
    "pairs": gettext_lazy("Paired comparison"),
    "operators": pgettext_lazy("heading", "Operators"),
    "timeline": gettext_lazy("Timeline"),
    "graph": gettext_lazy("Graph"),
    "roofline": gettext_lazy("Roofline"),
    "memory": pgettext_lazy("heading", "Memory"),
    "scopes": gettext_lazy("Scopes"),
    "compare": gettext_lazy("Compare"),
    "details": gettext_lazy("Run details"),
    "files": gettext_lazy("Log and files"),
}


@login_required
@require_safe
def task(
    request: HttpRequest, task_id: int, state_page: Callable[..., HttpResponse], view: str = ""
) -> HttpResponse:
    """Show a view of a task's result; without a result, the state of the task.

    state_page: renders the state, `tasks.views.pages.detail`, which the routes name
    """
    task = task_or_404(request, task_id)
    profile, measurement = profile_of(task), measurement_of(task)
    source = profile or measurement
    if source is None or task.is_live:
        return state_page(request, task, view)
    links = (
        profile_links(profile) if profile else ResultLinks(reverse("tasks:detail", args=[task.pk]))
    )
    context = task_context(task, source.attempt, measurement_view(measurement)) | {
        "baseline": SimpleLazyObject(lambda: baseline_profile(task)),
        **{
            f"task_{key}": lambda key=key: mark_safe(
                state_page(request, task, key, in_result=True).text
            )
            for key in ("files", "details", "graph")
        },
    }
    return result_page(request, profile, view, links, context)


def task_context(
    task: Task, attempt: Attempt | None, measured: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what the page of a task's result has and that of an import lacks.

    attempt: the attempt that has the result
    measured: as returned by `measurement_view`
    """
    context: dict[str, Any] = {
        "task": task,
        "measured": measured,
        "plan": plan_title(task),
        "inputs": input_words(task),
        "attempt": attempt,
        "explain_memory": EXPLANATIONS["memory"],
    }
    if task.copied_from_id:
        context["check"] = SimpleLazyObject(lambda: check_view(task))
    if paired := paired_of(task):
        context["paired"] = SimpleLazyObject(lambda: paired_view(paired, task))
    return context


@login_required
@require_safe
def result(request: HttpRequest, task_id: int) -> HttpResponse:
    """Redirect to the task: the address that results had of their own."""
    return _to_task(request, task_or_404(request, task_id).pk)


def _to_task(request: HttpRequest, task_id: int, view: str = "") -> HttpResponse:
    """Redirect to a view of a task's result, with the query of the address."""
    url = reverse("tasks:detail", args=[task_id]) + (f"{view}/" if view else "")
    query = request.GET.urlencode()
    return redirect(f"{url}?{query}" if query else url)


@login_required
@require_safe
def imported(request: HttpRequest, profile_id: int, view: str = "") -> HttpResponse:
    """Show a view of an import; redirect to the task for the result of a task."""
    profile = profile_or_404(request, profile_id)
    if profile.attempt is not None:
        return _to_task(request, profile.attempt.task_id, view)
    return result_page(request, profile, view, profile_links(profile), {"upload": profile.upload})


def result_page(
    request: HttpRequest,
    profile: Profile | None,
    view: str,
    links: ResultLinks,
    context: dict[str, Any],
) -> HttpResponse:
    """Show a view of a result; an empty `view` is the first one. Raises Http404.

    context: what depends on the kind of result, as `task_context` returns; `share` for the reader
        of a link
    """
    data, trouble = _data(profile)
    measured = context.get("measured")
    has_operators = data is not None and data.has_operators
    is_script = "task" in context and context["task"].is_script
    share: Share | None = context.get("share")
    context |= {
        "show_log": share is None or Share.Part.LOG in share.parts,
        "show_inputs": share is None or Share.Part.INPUTS in share.parts,
        # with operators; `run` may have none
        "profile": profile if has_operators else None,
        "run": profile if data else None,
        "trouble": trouble,
        # lazy, because fragments of most views show no figures and no recommendations
        "statistics": SimpleLazyObject(
            lambda: statistics_view(data, profile, measured["row"] if measured else None)
        ),
        # a single run of a script is not a measurement
        "has_measurement": not is_script and (has_operators or "task" in context),
        "trace": trace_view(data) if data else None,
        "links": links,
        "may_share": settings.SHARE_DAYS_LIMIT > 0 and _is_owner(request, context),
        **_memory_flow(request, profile, data, links),
        "sources": sources_of(data, profile) if data and profile else [],
        "mismatches": mismatches(data, profile) if data and profile else [],
        "static_memory": static_memory_view(data, request.GET) if data else None,
    }
    if profile is not None and data is not None and has_operators:
        context |= {
            "passes": data.passes,
            "pass_choices": SimpleLazyObject(lambda: pass_choices(data)),
            "of_trace": are_of_trace(profile, data.passes),
            **_figures(data),
            "advice": SimpleLazyObject(lambda: advice_of(data, run_facts(profile))),
            "pareto": pareto_sentence(data),
            "others": SimpleLazyObject(lambda: others_of(request, profile)),
            "selected": parse_int(request.GET.get("op", ""), maximum=len(data.columns) - 1),
        }
    views = _views_of(context)
    chosen = view or views[0]
    if chosen not in views:
        raise Http404
    if chosen == "operators" and profile is not None and data is not None:
        # options of profile_analyze are answered by the server
        context["is_server_table"] = not PARAMETERS.isdisjoint(request.GET)
        context |= _tables(data, _table_request(request, data), links.tables(profile))
    context |= {
        "view": chosen,
        "view_template": f"profiles/views/{chosen}.html",
        "tabs": [
            {"key": key, "title": VIEWS[key], "path": "" if key == views[0] else f"{key}/"}
            for key in views
        ],
    }
    name = context["view_template"] if "part" in request.GET else "profiles/result.html"
    return render(request, name, context)


def _is_owner(request: HttpRequest, context: dict[str, Any]) -> bool:
    """Whether the result is the user's own: administrators see all results."""
    shown = context.get("task") or context.get("upload")
    return shown is not None and shown.owner_id == request.user.pk


def _views_of(context: dict[str, Any]) -> list[str]:
    """Return the keys of the views that have something to show."""
    has_operators = bool(context["profile"])
    has = {
        "pairs": "paired" in context,
        "operators": has_operators,
        "timeline": has_operators or bool(context["trace"]),
        "graph": has_operators or ("task_graph" in context and context["task"].has_stored_model),
        "roofline": has_operators and context["has_roofline"],
        "memory": has_operators or "memory_flow" in context or bool(context["static_memory"]),
        "scopes": has_operators,
        # a link is about one result
        "compare": has_operators and context.get("share") is None,
        # a link shows files only if its creator chose some
        "files": context.get("share") is None or bool(context["share"].parts),
    }
    keys = [key for key in VIEWS if has.get(key, True)]
    # the uploaded model is no result, so it does not come first
    return keys if has_operators else sorted(keys, key=lambda key: key == "graph")


def _figures(data: ProfileData) -> dict[str, Any]:
    """Return the figures that no operator has, as text, and whether a roofline can be drawn."""
    without = columns_without(data.columns)
    words = {
        frozenset({"flo", "flops"}): _(
            "The number of operations of the operators is unknown, so the columns, views and "
            "roofline that need it are omitted."
        ),
        frozenset({"mem", "bw"}): _(
            "The number of bytes that the operators read and write is unknown, so the columns, "
            "views and roofline that need it are omitted."
        ),
        frozenset({"flo", "flops", "mem", "bw"}): _(
            "The numbers of operations and bytes of the operators are unknown, so the columns, "
            "views and roofline that need them are omitted."
        ),
    }
    return {"no_figures": words.get(without, ""), "has_roofline": not without}


def _memory_flow(
    request: HttpRequest, profile: Profile | None, data: ProfileData | None, links: ResultLinks
) -> dict[str, Any]:
    """Return the context of memory over time, if the run has such a file."""
    flow = memory_flow_view(data, read_flow_query(request.GET)) if data else None
    if flow is None or profile is None:
        return {}
    return {
        "memory_flow": flow,
        "flow_page": f"{links.page}memory/",
        "flow_file": original_of(profile, links),
    }


def _data(profile: Profile | None) -> tuple[ProfileData | None, str]:
    """Return a profile's data, or the message why there are none."""
    if profile is None:
        return None, ""
    try:
        return run_data(profile), ""
    except DomainError as error:
        if error.code not in ("profile_damaged", "profile_outdated"):
            raise
        return None, str(word(error))


def _table_request(request: HttpRequest, data: ProfileData) -> TableRequest:
    without = columns_without(data.columns)
    return read_request(request.GET, passes=len(data.passes), without=without)


def _tables(data: ProfileData, table_request: TableRequest, links: TableLinks) -> dict[str, Any]:
    """Return the context of the form, which shows invalid queries, and of the tables."""
    form = form_context(data, table_request, links.page)
    try:
        tables = [
            SideTable(data, table_request, side, links).context() for side in table_request.sides
        ]
    except AnalysisError as error:
        name = "name" if error.code == "bad_pattern" else "choice"
        form["problems"] = {**table_request.problems, name: str(error)}
        tables = []
    return {"form": form, "address": table_request.address(), "tables": tables}


def operator(request: HttpRequest, profile: Profile, links: ResultLinks, row: int) -> HttpResponse:
    """Show all data about one operator, as a fragment of the result page or as a page.

    Raises Http404.
    """
    data = profile_data(profile)
    if row >= len(data.columns):
        raise Http404
    is_part = "part" in request.GET
    context = {
        "profile": profile,
        "operator": operator_facts(data, row),
        "is_one_sample": is_one_sample(data, profile),
        "without": f"{links.operators(profile)}{_table_request(request, data).address()}",
    }
    name = "profiles/_operator.html" if is_part else "profiles/operator.html"
    return render(request, name, context)


def tensors(request: HttpRequest, profile: Profile, links: ResultLinks) -> HttpResponse:
    """Return the table of tensors, with which the page replaces its own. Raises Http404."""
    summary = summary_of(run_data(profile))
    if summary is None:
        raise Http404
    view = tensors_view(summary, read_flow_query(request.GET))
    context = {"memory_flow": view, "flow_page": f"{links.page}memory/"}
    return render(request, "profiles/_memory_flow_tensors.html", context)


def image(request: HttpRequest, profile: Profile, links: ResultLinks) -> HttpResponse:
    """Return the file for `<img>`, in which no script runs and no request is made.

    If a user opens the URL itself, the file is downloaded. If it were displayed as a page all the
    same, the page would have no origin and would run no script either.

    Raises Http404.
    """
    file = original_of_kind(profile, "memory_flow")
    if file is None or file.size_bytes > IMAGE_LIMIT_BYTES:
        raise Http404
    data = storage.read(file.key, limit_bytes=IMAGE_LIMIT_BYTES)
    response = HttpResponse(data, content_type="image/svg+xml")
    response["Content-Disposition"] = content_disposition_header(True, file.name) or "attachment"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Cache-Control"] = "private, max-age=3600"
    return response


def original_of(profile: Profile, links: ResultLinks) -> dict[str, Any] | None:
    """Return {"image", "download", "size_bytes"} with URLs of the file; None if it was deleted."""
    file = original_of_kind(profile, "memory_flow")
    if file is None:
        return None
    image_of = f"{links.parts}memory-flow/image.svg"
    return {
        "image": image_of if file.size_bytes <= IMAGE_LIMIT_BYTES else "",
        "download": f"{links.parts}export/original/{file.number}/",
        "size_bytes": file.size_bytes,
    }
