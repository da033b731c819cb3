"""Pages of Netron, the graph viewer, and Perfetto, the trace viewer, and the files of both.

The packages are not changed on disk. The page of a viewer is served without elements that make
requests to other sites, ask for consent or expire, and with files of ours in addition to its own.
It is sandboxed (CSP) in an origin of its own, because it parses files of users: it has no access to
sessions and storage of this site, and may load only the files of its own folder. Files are cached
forever, because their URL changes with their content.
"""

import json
import mimetypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import escape
from django.views.decorators.http import require_safe

from profiles.exports.originals import original_of_kind
from profiles.exports.provenance import title_of
from profiles.formats.chrome_trace.summary import TraceSummary
from profiles.formats.chrome_trace.timeline_presenter import timeline_view
from profiles.ingest.loading import run_data
from profiles.models import Profile
from profiles.presenters.charts import pass_number
from profiles.presenters.viewers import arm_of, model_times, task_model_view, trace_file_view
from profiles.viewer_packages import (
    compressed,
    content,
    perfetto_address,
    perfetto_compressed,
    perfetto_content,
    perfetto_files,
    perfetto_page,
    perfetto_tag,
    viewer_files,
    viewer_page,
    viewer_tag,
)
from profiles.views.common import ResultLinks, task_or_404
from tasks.models import Task
from webprofile.integers import parse_int
from webprofile.origins import framing_origins

_PACKED = {".js", ".json", ".css", ".ico", ".wasm"}
_KINDS = {".js": "text/javascript", ".wasm": "application/wasm", ".woff2": "font/woff2"}
_YEAR_S = 365 * 24 * 3600
#: parts of the package that every graph needs, in the order of use; preloaded in parallel
_EARLY = (
    "python", "base", "text", "flatbuffers", "flexbuffers", "zip", "tar", "json", "xml",
    "protobuf", "hdf5", "grapher", "browser", "view", "message", "dagre",
)  # fmt: skip


def graph(request: HttpRequest, profile: Profile, links: ResultLinks) -> HttpResponse:
    """Show the graph on a page of its own, as large as the window."""
    return render(request, "profiles/graph.html", {"profile": profile, "links": links})


@login_required
@require_safe
def task_model(request: HttpRequest, task_id: int) -> HttpResponse:
    """Show the model of a task in the viewer, whatever the task's state.

    The task's page fetches the element `#model-graph` from here when the user opens the preview.
    """
    task = task_or_404(request, task_id)
    return model_page(request, task, reverse("tasks:detail", args=[task.pk]))


def model_page(
    request: HttpRequest, task: Task, page: str, *, expires_s: int | None = None
) -> HttpResponse:
    """Show the model of a task, as `task_model` does.

    page: the page of the task; files are at `files/N/` below it
    expires_s: lifetime of the URL of the file
    """
    arm = arm_of(request.GET)
    context = {
        "task": task,
        "page": page,
        "model": task_model_view(task, arm, expires_s=expires_s),
        "times": model_times(task, arm),
    }
    return render(request, "tasks/model.html", context)


def timeline(request: HttpRequest, profile: Profile, links: ResultLinks) -> HttpResponse:
    """Show a trace, or the timeline of a profile, in Perfetto, as large as the window.

    A trace is shown as uploaded, or a part of it that the user chooses; of a profile, the exported
    trace of a pass (`pass` in the query, by default the first).

    Raises Http404 for a profile without a timeline.
    """
    context: dict[str, Any] = {
        "links": links,
        "name": title_of(profile),
        "viewer": perfetto_address(),
    }
    data = run_data(profile)
    trace = data.summary("trace", TraceSummary)
    if trace is not None:
        original = original_of_kind(profile, "trace")
        context["overview"] = timeline_view(trace.overview)
        context["file"] = trace_file_view(original, is_cut=trace.is_cut)
        context["number"] = original.number if original else 1
    elif not links.login or not data.has_operators:
        # the exported trace of other profiles is not shared by a link
        raise Http404
    elif place := parse_int(request.GET.get("pass", ""), maximum=len(data.passes)):
        context |= {"query": f"?pass={place}", "pass_number": pass_number(data, place - 1)}
    return render(request, "profiles/timeline.html", context)


@require_safe
def netron(request: HttpRequest, tag: str, name: str = "") -> HttpResponse:
    """Return a file of the viewer; `tag` changes with its content, so browsers may cache it."""
    # the tag becomes part of the policy, so it must be known
    if tag != viewer_tag() or (name and name not in viewer_files()):
        raise Http404
    if name == "":
        return _netron_page(request)
    return _viewer_file(request, name, lambda: content(name), lambda: compressed(name))


def _netron_page(request: HttpRequest) -> HttpResponse:
    page = viewer_page()
    # with a type that Netron does not know, it does not preload the parts of other formats
    head = '<meta name="type" content="Frame">\n'
    head += "".join(f'<link rel="modulepreload" href="{name}.js">\n' for name in _EARLY)

    folder_url = request.build_absolute_uri(request.path)
    rules = (
        f"script-src {folder_url}",
        f"style-src {folder_url} {page.styles}",
        f"style-src-attr 'unsafe-hashes' {page.style_attributes}",
        f"img-src {folder_url} data:",
    )
    return _viewer_frame(request, page.text, head=head, rules=rules)


@require_safe
def perfetto(request: HttpRequest, tag: str, name: str = "") -> HttpResponse:
    """Return a file of the viewer; `tag` changes with its content, so browsers may cache it."""
    # the tag becomes part of the policy, so it must be known
    if tag != perfetto_tag() or (name and name not in perfetto_files()):
        raise Http404
    if name == "":
        return _perfetto_page(request)
    return _viewer_file(
        request, name, lambda: perfetto_content(name), lambda: perfetto_compressed(name)
    )


def _perfetto_page(request: HttpRequest) -> HttpResponse:
    text, scripts = perfetto_page()
    folder_url = request.build_absolute_uri(request.path)
    rules = (
        f"script-src {folder_url} {scripts} 'wasm-unsafe-eval'",
        # libraries in its bundle add style elements to the page
        f"style-src {folder_url} 'unsafe-inline'",
        f"font-src {folder_url}",
        f"img-src {folder_url} data: blob:",
    )
    return _viewer_frame(request, text, rules=rules)


def _viewer_file(
    request: HttpRequest, name: str, plain: Callable[[], bytes], packed: Callable[[], bytes]
) -> HttpResponse:
    """Return the file, compressed by gzip if that is smaller and the browser accepts it."""
    ending = Path(name).suffix
    kind = _KINDS.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    if ending in _PACKED and "gzip" in request.headers.get("Accept-Encoding", ""):
        response = HttpResponse(packed(), content_type=kind)
        response["Content-Encoding"] = "gzip"
        response["Vary"] = "Accept-Encoding"
    else:
        response = HttpResponse(plain(), content_type=kind)
    response["Cache-Control"] = f"public, max-age={_YEAR_S}, immutable"
    # the page has an opaque origin, so its own files are cross-origin
    response["Access-Control-Allow-Origin"] = "*"
    return response


def _viewer_frame(
    request: HttpRequest, text: str, *, head: str = "", rules: Sequence[str]
) -> HttpResponse:
    """Return the page of a viewer, with the script through which our pages communicate with it.

    head: further elements before its title
    rules: the viewer's own part of the policy
    """
    parents, page_url = framing_origins(request), request.build_absolute_uri(request.path)
    ours = f'{head}<script src="bridge.js" data-parents="{escape(json.dumps(parents))}"></script>\n'
    response = HttpResponse(text.replace("<title>", f"{ours}<title>", 1))
    policy = (
        "sandbox allow-scripts",
        "default-src 'none'",
        *rules,
        f"connect-src {page_url}",
        "worker-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
        f"frame-ancestors {' '.join(parents)}",
    )
    response["Content-Security-Policy"] = "; ".join(policy)
    response["Cache-Control"] = "no-cache"
    if settings.NETRON_ORIGIN:
        response.xframe_options_exempt = True
    else:
        response["X-Frame-Options"] = "SAMEORIGIN"
    return response
