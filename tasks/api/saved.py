"""API views of what users save under a name: filters of the task list, and options."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from tasks.api.serializers import OptionPresetAnswer, SavedAnswer, SavedViewAnswer
from tasks.models import OptionPreset, SavedView
from tasks.submission.presets import NAME_LIMIT, save_option_preset
from tasks.submission.schema import OptionValue
from tasks.views.list_filters import save_task_view
from webprofile import fields
from webprofile.api.schema import problems
from webprofile.api.views import ApiListView, ApiView


class SavedViewBody(fields.Body):
    """A name and the filters that it stands for."""

    name = fields.Text(max_length=60, help_text="One of the same name is replaced.")
    query = fields.Text(max_length=1000, help_text="As in the URL of the page, without `?`.")


@extend_schema_view(get=extend_schema(summary="List saved views"))
class SavedViewList(ApiListView):
    """The saved views of the user."""

    queryset = SavedView.objects.all()
    serializer_class = SavedViewAnswer

    def get_queryset(self) -> QuerySet[SavedView]:
        return self.request.user.saved_views.all()

    @extend_schema(
        summary="Save a view",
        request=SavedViewBody,
        responses={
            200: OpenApiResponse(SavedAnswer, description="One of the same name was replaced."),
            201: SavedAnswer,
        }
        | problems({422: ["invalid", "character_bad", "view_*"]}),
    )
    def post(self, request: Request) -> Response:
        """Save a view, or replace the one of the same name; `replaced_query` is its previous query.
        Unknown filters are dropped, and a query without any known filter is refused.
        """
        body = SavedViewBody.read(request.data)
        view, before = save_task_view(self.request.user, **body)
        answer = SavedViewAnswer(view).data | {"replaced_query": before}
        return Response(answer, status=200 if before else 201)


class SavedViewDetail(ApiView):
    """One saved view."""

    @extend_schema(summary="Delete a saved view", responses={204: None})
    def delete(self, request: Request, view_id: int) -> Response:
        """Delete the saved view; its tasks are not affected."""
        views = self.request.user.saved_views.all()
        get_object_or_404(views, pk=view_id).delete()
        return Response(status=204)


class OptionPresetBody(fields.Body):
    """A name and the options that it stands for."""

    name = fields.Text(max_length=NAME_LIMIT, help_text="One of the same name is replaced.")
    options = fields.Table(
        child=OptionValue(help_text="true, a number or a text."),
        help_text="Options of load_and_run by name, without those that need a file.",
    )


@extend_schema_view(get=extend_schema(summary="List presets of options"))
class OptionPresetList(ApiListView):
    """The presets of options that the user saved, newest first."""

    queryset = OptionPreset.objects.all()
    serializer_class = OptionPresetAnswer

    def get_queryset(self) -> QuerySet[OptionPreset]:
        return self.request.user.option_presets.all()

    @extend_schema(
        summary="Save a preset of options",
        request=OptionPresetBody,
        responses={
            200: OpenApiResponse(
                OptionPresetAnswer, description="One of the same name was replaced."
            ),
            201: OptionPresetAnswer,
        }
        | problems({422: ["invalid", "character_bad", "preset_*", "option_*"]}),
    )
    def post(self, request: Request) -> Response:
        """Save a preset, or replace the one of the same name. `option_preset` of a new task names
        it.
        """
        body = OptionPresetBody.read(request.data)
        preset, is_new = save_option_preset(self.request.user, **body)
        return Response(OptionPresetAnswer(preset).data, status=201 if is_new else 200)


class OptionPresetDetail(ApiView):
    """One preset of options."""

    @extend_schema(summary="Delete a preset of options", responses={204: None})
    def delete(self, request: Request, preset_id: int) -> Response:
        """Delete the preset; tasks that used it are not affected."""
        get_object_or_404(self.request.user.option_presets.all(), pk=preset_id).delete()
        return Response(status=204)
