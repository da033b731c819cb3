"""Base classes of the API views of results, and responses that several of them use."""

import gzip
from collections.abc import Sequence
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.formats.detection import FileKind
from profiles.ingest.loading import profile_data, run_data
from profiles.models import Profile
from profiles.selectors import visible_profiles
from tasks.models import Task
from tasks.selectors import visible_tasks
from tasks.states import TaskState
from webprofile.api.renderers import FiniteJSONRenderer
from webprofile.api.views import ApiView
from webprofile.errors import DomainError
from webprofile.fields import QueryParameters

#: error responses of every view that reads the data of a profile
NOT_READY = {409: ["profile_outdated", "profile_damaged", "profile_unusable", "operators_none"]}
#: error responses of exports, of which large ones are limited
EXPORT_PROBLEMS = NOT_READY | {
    422: ["export_question", "export_heavy"],
    429: ["throttled", "export_many"],
    503: ["storage_unreachable", "export_busy", "reading_stopped"],
}
#: codes of `AnalysisError` that mean an invalid query; all others are about the profile
_QUERY_CODES = (
    "aggregate_missing", "bad_pattern", "text_large", "unknown_column",
)  # fmt: skip


class ResultView(ApiView):
    """A view of results, limited to what the user may see."""

    #: the profiles of a share link, whose reader is not a user and may see no others
    shared: Sequence[Profile] | None = None

    def profile(self, profile_id: int) -> Profile:
        """Return the visible profile with this number. Raises Http404."""
        if self.shared is not None:
            return self.shared[0]
        return get_object_or_404(visible_profiles(self.request.user), pk=profile_id)

    def task(self, task_id: int) -> Task:
        """Return the visible task with this number. Raises Http404."""
        return get_object_or_404(visible_tasks(self.request.user), pk=task_id)

    def validated_query(self, query_class: type[QueryParameters]) -> dict[str, Any]:
        """Return the validated query parameters; unknown parameters are refused.

        Raises QueryInvalid; DomainError query_unknown.
        """
        known = query_class().fields
        for name in self.request.query_params:
            if name not in known:
                raise DomainError("query_unknown", field=name[:60], status=400, name=name[:60])
        return query_class.read(self.request.query_params)

    def handle_exception(self, exc: Exception) -> Any:
        """Map errors of a profile that cannot be used to 409, and of an invalid query to 422."""
        if isinstance(exc, AnalysisError) and exc.code in _QUERY_CODES:
            exc = DomainError("export_question", status=422, detail=exc.detail)
        elif isinstance(exc, AnalysisError):
            exc = DomainError("profile_unusable", status=409, detail=exc.detail)
        if isinstance(exc, DomainError) and exc.code in NOT_READY[409]:
            exc.status = 409
        return super().handle_exception(exc)


def for_reader(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return the arguments of `as_view` for the reader of a share link.

    The link was checked and counted before (`profiles.views.shares`).
    """
    return {
        "shared": profiles,
        "authentication_classes": (),
        "permission_classes": (AllowAny,),
        "throttle_classes": (),
    }


class DataView(ResultView):
    """A view of the data of one profile."""

    def data(self, profile_id: int) -> tuple[Profile, ProfileData]:
        """Return the profile with its data.

        Raises Http404; DomainError operators_none, profile_outdated, profile_damaged,
        storage_unreachable.
        """
        profile = self.profile(profile_id)
        return profile, profile_data(profile)

    def summary_response(self, profile_id: int, kind: FileKind) -> HttpResponse:
        """Return the summary of a file of this kind (what it has beside operators) as JSON.

        Raises Http404; DomainError `<kind>_none`, profile_outdated, profile_damaged,
        storage_unreachable.
        """
        data = run_data(self.profile(profile_id))
        if kind not in data.summaries:
            raise DomainError(f"{kind}_none", status=409)
        return HttpResponse(data.summaries[kind], content_type="application/json")


class AnyFile(BaseRenderer):
    """Renderer that accepts any `Accept` header; the view sets the content type of its file."""

    media_type = "*/*"
    format = "file"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """Render an error; the file itself is not rendered by the framework."""
        return bytes(FiniteJSONRenderer().render(data))


def json_response(document: Any) -> HttpResponse:
    """Return JSON encoded by msgspec, which is fast for many numbers; nan and inf become null."""
    return HttpResponse(msgspec.json.encode(document), content_type="application/json")


def gzipped_json_response(request: HttpRequest, packed: bytes) -> HttpResponse:
    """Return JSON from gzip-compressed bytes, decompressed only for a client without gzip."""
    response = HttpResponse(content_type="application/json")
    response["Vary"] = "Accept-Encoding"
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response["Content-Encoding"] = "gzip"
        response.content = packed
    else:
        response.content = gzip.decompress(packed)
    return response


def no_result_error(task: Task) -> DomainError:
    """Return the error for a task without a result: it has not ended, or it produced nothing."""
    code = "profile_never" if task.state == TaskState.FINISHED else "profile_not_yet"
    return DomainError(code, status=409, task=task.pk, state=task.status.label)
