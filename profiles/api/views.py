"""API views of results, from tasks and from opened files."""

import io

from django.db.models import QuerySet
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.plumbing import build_array_type
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSetMixin

from profiles.api.base import AnyFile, ResultView, no_result_error
from profiles.api.filters import ProfileFilters
from profiles.api.queries import TasksQuery
from profiles.api.serializers import ProfileAnswer, ProfileRow
from profiles.exports.many import ROWS, WRITERS, task_columns
from profiles.models import Profile
from profiles.selectors import profile_of, visible_profiles
from tasks.selectors import visible_tasks
from webprofile.api.schema import problems
from webprofile.api.views import ApiListView


@extend_schema_view(get=extend_schema(summary="List profiles", operation_id="profiles_list"))
class ProfileList(ApiListView):
    """Profiles of the user's tasks and imports; administrators see all."""

    queryset = Profile.objects.all()
    serializer_class = ProfileRow
    filterset_class = ProfileFilters

    def get_queryset(self) -> QuerySet[Profile]:
        return visible_profiles(self.request.user).prefetch_related("attempt__task__files")


class ProfilesView(ViewSetMixin, ResultView):
    """One result."""

    @extend_schema(summary="Show a profile", responses=ProfileAnswer, operation_id="profiles_show")
    def retrieve(self, request: Request, profile_id: int) -> Response:
        """Totals, origin, raw files and export formats of a profile."""
        return Response(ProfileAnswer(self.profile(profile_id)).data)

    @extend_schema(
        summary="Show a task's profile",
        responses={200: ProfileAnswer} | problems({409: ["profile_not_yet", "profile_never"]}),
    )
    def of_task(self, request: Request, task_id: int) -> Response:
        """The profile that a task produced; 409 with the task's state until it has ended."""
        task = self.task(task_id)
        profile = profile_of(task)
        if profile is not None:
            return Response(ProfileAnswer(self.profile(profile.pk)).data)
        raise no_result_error(task)


class TasksTable(ResultView):
    """Several tasks as one table."""

    renderer_classes = (AnyFile,)

    @extend_schema(
        summary="Tasks as a table",
        parameters=[TasksQuery],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.BINARY, description="CSV, RFC 4180."),
            (200, "application/json"): OpenApiResponse(
                build_array_type({"type": "object", "additionalProperties": {}}),
                description="A list of objects, one for each task.",
            ),
        },
        operation_id="profiles_tasks_table",
    )
    def get(self, request: Request) -> HttpResponseBase:
        """One row per task, also for tasks without a result: model, title, options, device
        (`worker`), plan, status, reason, latency and totals, as `manage.py export` writes them.

        Tasks that the caller may not see are left out.
        """
        query = self.validated_query(TasksQuery)
        tasks = visible_tasks(self.request.user).filter(pk__in=query["task"])
        stream = io.BytesIO()
        WRITERS[query["format"]](stream, ROWS["task"], task_columns(tasks))
        kind = "text/csv; charset=utf-8" if query["format"] == "csv" else "application/json"
        return HttpResponse(stream.getvalue(), content_type=kind)
