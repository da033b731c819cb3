"""Share links: the pages below `/s/<token>/` for their readers, and the list of their creator.

A reader is not a user (`profiles.sharing.ShareReader`). Every route of readers is a function with
the decorator `shared`, which passes the reader; it finds its objects in `reader.result` only, never
by a number in the request.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.selectors import current_user
from profiles.api.base import ResultView, for_reader
from profiles.api.chart_views import ChartsView
from profiles.api.compare_views import CompareGraph, CompareTimelines, CompareView
from profiles.api.operator_views import FilesView
from profiles.comparison.comparison import MOST
from profiles.comparison.request import read_comparison_request
from profiles.exports.formats import original_response
from profiles.exports.originals import originals_of
from profiles.models import Profile, Share
from profiles.selectors import measurement_of, measurement_view
from profiles.sharing import (
    ShareReader,
    create_share,
    find_share,
    note_view,
    open_share,
    revoke_share,
    shared_result,
    usual_days,
    visible_shares,
)
from profiles.views import compare, result, viewers
from profiles.views.common import ResultLinks
from tasks.models import TaskFile
from tasks.selectors import log_after
from webprofile.api.problems import problem
from webprofile.api.throttling import ShareThrottle
from webprofile.errors import DomainError
from webprofile.integers import LARGEST_KEY, parse_int
from webprofile.messages.errors import word
from webprofile.middleware import wants_json
from webprofile.observability.requests import note
from webprofile.storage import storage
from webprofile.turns import begin_turn

#: lifetime of URLs of files in storage, which a revoked link cannot end
FILE_EXPIRY_S = 60
#: kinds of raw files that are shown as they are
_SHOWN = ("trace", "memory_flow")
#: what each optional part of a link shows
PART_HELP = {
    Share.Part.LOG: gettext_lazy("the log of the run, its warnings and the command on the device"),
    Share.Part.INPUTS: gettext_lazy("names and shapes of the inputs, and the files for download"),
    Share.Part.MODEL: gettext_lazy("the uploaded file, in the viewer and for download"),
}


def shared(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Pass the reader of the link to a view, as its second argument.

    An unknown token gives 404, a link that has ended 410. Requests are counted by address and by
    link, and those of one link wait for each other like those of one user.
    """

    @require_safe
    @wraps(view)
    def with_reader(request: HttpRequest, token: str, **kwargs: Any) -> HttpResponseBase:
        ShareThrottle().check(request)
        share = find_share(token)
        if share is None:
            raise Http404
        ShareThrottle(share.pk).check(request)
        note(request, share=share.pk)
        # numbers of users are positive
        begin_turn(-share.pk)
        try:
            reader = open_share(share)
        except DomainError as error:
            if wants_json(request):
                return problem(error)
            return render(request, "profiles/share_ended.html", status=error.status)
        request.share = share  # type: ignore[attr-defined]
        return view(request, reader, **kwargs)

    return with_reader


def _links(request: HttpRequest, reader: ShareReader) -> ResultLinks:
    """Return the addresses below the link, whose token only the request has."""
    match = request.resolver_match
    page = reverse("shared:result", args=[match.kwargs["token"] if match else ""])
    if reader.share.kind == Share.Kind.COMPARISON:
        return ResultLinks(page)
    task = reader.result.task
    has_model = reader.may_read(Share.Part.MODEL) and task is not None and not task.is_script
    model = f"{page}model/" if has_model else ""
    return ResultLinks(page, parts=page, data=f"{page}data/", model=model)


def _profile(reader: ShareReader) -> Profile:
    """Return the profile of a task or an import. Raises Http404."""
    if reader.share.kind == Share.Kind.COMPARISON or not reader.result.profiles:
        raise Http404
    return reader.result.profiles[0]


# -- pages and fragments of readers ----


@shared
def shared_page(request: HttpRequest, reader: ShareReader, view: str = "") -> HttpResponse:
    """Show the result as its own page does, without actions, or the comparison."""
    if request.method == "GET" and not view and "part" not in request.GET:
        note_view(reader.share)
    links = _links(request, reader)
    if reader.share.kind == Share.Kind.COMPARISON:
        if view:
            raise Http404
        _fix_profiles(request, reader)
        return compare.compare_page(
            request,
            read_comparison_request(request.GET),
            reader.result.profiles,
            reader.share,
        )
    profile = reader.result.profiles[0] if reader.result.profiles else None
    context: dict[str, Any] = {"share": reader.share}
    if (task := reader.result.task) is not None:
        measurement = measurement_of(task)
        measured = measurement_view(measurement, is_shared=True)
        # one of both exists (`shared_result`)
        attempt = (profile or measurement).attempt  # type: ignore[union-attr]
        context |= result.task_context(task, attempt, measured)
        context["shared_files"] = _files(reader)
        if reader.may_read(Share.Part.LOG):
            context["log"] = "".join(log_after(task, 0).values_list("text", flat=True))
    elif profile is not None:
        context["upload"] = profile.upload
    return result.result_page(request, profile, view, links, context)


def for_reader_of(page: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    """Return the view of a page of a profile (`views.common.for_owner`) for readers."""

    @shared
    @wraps(page)
    def view(request: HttpRequest, reader: ShareReader, **kwargs: Any) -> HttpResponse:
        return page(request, _profile(reader), _links(request, reader), **kwargs)

    return view


@shared
def shared_model(request: HttpRequest, reader: ShareReader) -> HttpResponse:
    """Show the model in the viewer, if the link shows it."""
    links = _links(request, reader)
    if not links.model or reader.result.task is None:
        raise Http404
    return viewers.model_page(request, reader.result.task, links.page, expires_s=FILE_EXPIRY_S)


@shared
def shared_file(request: HttpRequest, reader: ShareReader, file_id: int) -> HttpResponse:
    """Redirect to an uploaded file in storage, if the link shows files of its kind."""
    file = next((file for file in _files(reader) if file.pk == file_id), None)
    if file is None:
        raise Http404
    address = storage.presign_get(file.object_key, filename=file.name, expires_s=FILE_EXPIRY_S)
    return redirect(address)


def _files(reader: ShareReader) -> list[TaskFile]:
    """Return the uploaded files of a task that the link shows and that are in storage."""
    if reader.result.task is None:
        return []
    return [
        file
        for file in reader.result.task.files.all()
        if file.stored_at is not None
        and file.purged_at is None
        and reader.may_read(
            Share.Part.MODEL if file.kind == TaskFile.Kind.MODEL else Share.Part.INPUTS
        )
    ]


# -- data for the scripts of these pages ----


def _of_profile(
    view_class: type[ResultView], actions: dict[str, str]
) -> Callable[..., HttpResponseBase]:
    """Return a view of the API for readers, which answers for the profile of the link."""

    @shared
    def answer(request: HttpRequest, reader: ShareReader) -> HttpResponseBase:
        profile = _profile(reader)
        view: Any = view_class.as_view
        response: HttpResponseBase = view(actions, **for_reader([profile]))(
            request, profile_id=profile.pk
        )
        return response

    return answer


def shared_chart(name: str) -> Callable[..., HttpResponseBase]:
    """Return the view of the data of a chart."""
    return _of_profile(ChartsView, {"get": name.replace("-", "_")})


shared_graph_data = _of_profile(ChartsView, {"get": "netron"})
shared_excerpt = _of_profile(FilesView, {"get": "trace_cut"})


@shared
def shared_original(request: HttpRequest, reader: ShareReader, number: int) -> HttpResponse:
    """Redirect to a file that the viewer of traces or memory shows; others are not shared."""
    profile = _profile(reader)
    if number not in {file.number for file in originals_of(profile) if file.kind in _SHOWN}:
        raise Http404
    return original_response(profile, number, expires_s=FILE_EXPIRY_S)


def _of_comparison(view_class: type[CompareView]) -> Callable[..., HttpResponseBase]:
    """Return a view of the reader of a comparison that calls a view of the API."""

    @shared
    def answer(request: HttpRequest, reader: ShareReader) -> HttpResponseBase:
        if reader.share.kind != Share.Kind.COMPARISON:
            raise Http404
        _fix_profiles(request, reader)
        return view_class.as_view(**for_reader(reader.result.profiles))(request)

    return answer


shared_compared_graph = _of_comparison(CompareGraph)
shared_compared_timelines = _of_comparison(CompareTimelines)


def _fix_profiles(request: HttpRequest, reader: ShareReader) -> None:
    """Replace the profiles that the query of a comparison names by those of the link."""
    query = request.GET.copy()
    query.setlist("p", [str(profile.pk) for profile in reader.result.profiles])
    request.GET = query  # type: ignore[assignment]


# -- pages of the creator ----


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def shares(request: HttpRequest) -> HttpResponse:
    """List the links of the user, and create one for the result that the query names.

    Only the response that creates a link contains its address.
    """
    user, context = current_user(request), dict[str, Any]()
    kind, ids = _target(request)
    subject = shared_result(user, kind, ids) if kind else None
    if subject is None and (kind or request.method == "POST"):
        raise Http404
    status = 200
    if request.method == "POST":
        try:
            made, token = create_share(
                user,
                kind=kind,
                ids=ids,
                parts=request.POST.getlist("parts"),
                days=parse_int(request.POST.get("days", ""), maximum=LARGEST_KEY) or 0,
            )
        except DomainError as error:
            context["problem"], status = word(error), error.status
        else:
            path = reverse("shared:result", args=[token])
            context |= {"made": made, "secret": request.build_absolute_uri(path)}
    limit = settings.SHARE_DAYS_LIMIT
    listed = Share.objects.filter(creator=user)
    if subject is not None:
        # JSON, so compared as a whole
        listed = listed.filter(kind=kind, ids=list(ids))
        task = subject.task
        context |= {
            "subject": subject,
            "back": _page_of(kind, ids),
            "days": usual_days(),
            "parts": [
                {"key": part.value, "title": part.label, "help": PART_HELP[part]}
                for part in Share.Part
                if task is not None and not (task.is_script and part == Share.Part.INPUTS)
            ],
        }
    context |= {"shares": listed, "limit": limit}
    return render(request, "profiles/shares.html", context, status=status)


@require_POST
@login_required
def share_revoke(request: HttpRequest, share_id: int) -> HttpResponse:
    """Revoke a link of the user; administrators may revoke all."""
    share = get_object_or_404(visible_shares(current_user(request)), pk=share_id)
    if revoke_share(share, by=current_user(request)):
        messages.success(request, _("The link to “%(name)s” is revoked.") % {"name": share.name})
    return redirect("profiles:shares")


def _target(request: HttpRequest) -> tuple[str, list[int]]:
    """Return kind and numbers of the result that the query names, as in `Share`; empty if none.

    The query is `?task=7`, `?profile=3` of an import, or `?p=3&p=8` of a comparison.
    """
    names = {
        "task": Share.Kind.TASK,
        "profile": Share.Kind.IMPORT,
        "p": Share.Kind.COMPARISON,
    }
    for name, kind in names.items():
        if texts := request.GET.getlist(name)[: MOST + 1]:
            ids = [parse_int(text, maximum=LARGEST_KEY) for text in texts]
            return kind, [number or 0 for number in ids]
    return "", []


def _page_of(kind: str, ids: Sequence[int]) -> str:
    """Return the address of the page of a result."""
    if kind == Share.Kind.TASK:
        return reverse("tasks:detail", args=[ids[0]])
    if kind == Share.Kind.IMPORT:
        return reverse("profiles:detail", args=[ids[0]])
    return f"{reverse('profiles:compare')}?{urlencode([('p', number) for number in ids])}"
