"""API views of presets of options."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from tasks.api.serializers import OptionPresetAnswer
from tasks.models import OptionPreset
from tasks.submission.presets import NAME_LIMIT, save_option_preset
from tasks.submission.schema import OptionValue
from webprofile import fields
from webprofile.api.schema import problems
from webprofile.api.views import ApiListView, ApiView


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
