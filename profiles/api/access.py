"""What views of results share: which exist for the reader, their data, answers that are large."""

import gzip
from typing import Any, cast

import msgspec
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from rest_framework.renderers import BaseRenderer, JSONRenderer

from profiles.analysis.data import ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.formats.detection import FileKind
from profiles.ingest.loading import profile_data, run_data
from profiles.models import Profile
from profiles.selectors import visible_profiles
from tasks.models import Task
from tasks.selectors import visible_tasks
from tasks.states import TaskState
from webprofile.api.views import ApiView
from webprofile.errors import DomainError
from webprofile.fields import Query

#: of every view that reads a profile's data
NOT_READY = {409: ["profile_outdated", "profile_damaged", "profile_unusable", "operators_none"]}
#: what `AnalysisError` says of a question; the rest is about the profile
_OF_QUESTIONS = (
    "aggregate_missing", "bad_pattern", "text_large", "unknown_column", "unknown_word",
)  # fmt: skip


class ResultView(ApiView):
    """A view of a result."""

    def profile(self, profile_id: int) -> Profile:
        """The profile of this number, if it exists for the reader. Raises Http404."""
        return get_object_or_404(visible_profiles(self.request.user), pk=profile_id)

    def task(self, task_id: int) -> Task:
        return get_object_or_404(visible_tasks(self.request.user), pk=task_id)

    def asked(self, query_class: type[Query]) -> dict[str, Any]:
        """The address's validated parameters; what is not known is refused.

        Raises QueryInvalid; DomainError query_unknown.
        """
        query = query_class(data=self.request.query_params)
        for name in self.request.query_params:
            if name not in query.fields:
                raise DomainError("query_unknown", field=name[:60], status=400, name=name[:60])
        query.is_valid(raise_exception=True)
        return cast(dict[str, Any], query.validated_data)

    def handle_exception(self, exc: Exception) -> Any:
        """A profile that cannot be used says so with 409, wherever it is noticed."""
        if isinstance(exc, AnalysisError) and exc.code in _OF_QUESTIONS:
            exc = DomainError("export_question", status=422, detail=exc.detail)
        elif isinstance(exc, AnalysisError):
            exc = DomainError("profile_unusable", status=409, detail=exc.detail)
        if isinstance(exc, DomainError) and exc.code in NOT_READY[409]:
            exc.status = 409
        return super().handle_exception(exc)


class DataView(ResultView):
    """A view of one profile's data."""

    def data(self, profile_id: int) -> tuple[Profile, ProfileData]:
        """The profile with its data.

        Raises Http404; DomainError operators_none, profile_outdated, profile_damaged,
        storage_unreachable.
        """
        profile = self.profile(profile_id)
        return profile, profile_data(profile)

    def beside(self, profile_id: int, kind: FileKind) -> HttpResponse:
        """What a file of this kind says beside operators, as JSON.

        Raises Http404; DomainError `<kind>_none`, profile_outdated, profile_damaged,
        storage_unreachable.
        """
        data = run_data(self.profile(profile_id))
        if kind not in data.beside:
            raise DomainError(f"{kind}_none", status=409)
        return HttpResponse(data.beside[kind], content_type="application/json")


class AnyFile(BaseRenderer):
    """So that any `Accept` finds a file, whose type the view alone knows."""

    media_type = "*/*"
    format = "file"
    charset = None

    def render(self, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """An answer that is none of the view's own: a problem that a renderer made."""
        return bytes(JSONRenderer().render(data))


def written(document: Any) -> HttpResponse:
    """JSON of many numbers, which Django's own writer takes long for; nan and inf become null."""
    return HttpResponse(msgspec.json.encode(document), content_type="application/json")


def packed_json(request: HttpRequest, packed: bytes) -> HttpResponse:
    """Return gzip-compressed JSON; it is decompressed only if the client does not accept gzip."""
    response = HttpResponse(content_type="application/json")
    response["Vary"] = "Accept-Encoding"
    response["Cache-Control"] = "private, no-store"
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response["Content-Encoding"] = "gzip"
        response.content = packed
    else:
        response.content = gzip.decompress(packed)
    return response


def without_result(task: Task) -> DomainError:
    """Why a task has nothing to show: it has not ended, or left nothing."""
    code = "profile_never" if task.state == TaskState.FINISHED else "profile_not_yet"
    return DomainError(code, status=409, task=task.pk, state=task.status.label)
