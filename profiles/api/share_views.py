"""API views of share links. Their readers use no API (`profiles.views.shares`)."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from profiles.comparison.comparison import FEWEST, MOST
from profiles.models import Share
from profiles.sharing import DAYS, create_share, revoke_share, visible_shares
from webprofile import fields
from webprofile.api.schema import problems
from webprofile.api.views import ApiListView, ApiView
from webprofile.errors import DomainError
from webprofile.settings.environment import MOST_DAYS


class ShareBody(fields.Body):
    """The result of a new link, given by one of `task`, `profile` and `profiles`."""

    task = fields.Key(required=False, help_text="Number of a task with a result.")
    profile = fields.Key(required=False, help_text="Number of the profile of an import.")
    profiles = fields.List(
        child=fields.Key(),
        required=False,
        min_length=FEWEST,
        max_length=MOST,
        help_text="Numbers of compared profiles; the first is the baseline.",
    )
    parts = fields.List(
        child=fields.Choice(Share.Part.choices),
        default=list,
        max_length=len(Share.Part.values),
        help_text="What a link to a task shows besides figures, operators and graph.",
    )
    days = fields.Integer(
        required=False,
        min_value=1,
        max_value=MOST_DAYS,
        help_text=f"Days until it expires; by default {DAYS}, or the site's limit if it is lower.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if sum(name in attrs for name in ("task", "profile", "profiles")) != 1:
            raise DomainError("share_result", field="task")
        return attrs


class ShareAnswer(serializers.ModelSerializer[Share]):
    """A share link, without its token."""

    creator = serializers.EmailField(
        source="creator.email", read_only=True, help_text="E-mail address of its creator."
    )
    ids = serializers.ListField(
        child=serializers.IntegerField(),
        read_only=True,
        help_text="Number of the task, or numbers of the profiles.",
    )
    parts = serializers.ListField(
        child=serializers.ChoiceField(Share.Part.choices),
        read_only=True,
        help_text="What it shows besides figures, operators and graph.",
    )
    expires_at = serializers.DateTimeField(source="ends_at", read_only=True, help_text="Expiry.")

    class Meta:
        model = Share
        fields: tuple[str, ...] = (
            "id", "kind", "ids", "name", "parts", "prefix", "creator", "created_at", "expires_at",
            "revoked_at", "first_viewed_at", "last_viewed_at", "views",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "kind": {"help_text": "Kind of the result."},
            "name": {"help_text": "Title of the result when the link was created."},
            "prefix": {"help_text": "The token's first characters."},
            "created_at": {"help_text": "When it was created."},
            "revoked_at": {"help_text": "When it was revoked, or null."},
            "first_viewed_at": {"help_text": "When it was first opened; null if never."},
            "last_viewed_at": {"help_text": "When it was last opened; null if never."},
            "views": {"help_text": "How often its page was opened."},
        }


class MadeShareAnswer(ShareAnswer):
    """A new share link with its address."""

    url = serializers.SerializerMethodField(
        help_text="Address of the link with its token; only contained in this response."
    )

    class Meta(ShareAnswer.Meta):
        fields = (*ShareAnswer.Meta.fields, "url")
        read_only_fields = fields

    def get_url(self, share: Share) -> str:
        return str(self.context["url"])


@extend_schema_view(get=extend_schema(summary="List share links", operation_id="shares_list"))
class ShareList(ApiListView):
    """Share links that the user created, the newest first; administrators see all."""

    queryset = Share.objects.all()
    serializer_class = ShareAnswer

    def get_queryset(self) -> QuerySet[Share]:
        return visible_shares(self.request.user)

    @extend_schema(
        summary="Create a share link",
        operation_id="shares_create",
        request=ShareBody,
        responses={201: MadeShareAnswer}
        | problems(
            {
                403: ["share_off"],
                404: ["not_found"],
                422: ["invalid", "share_result", "share_parts", "share_days", "share_limit"],
            }
        ),
    )
    def post(self, request: Request) -> Response:
        """Create a link to one of the user's own results. Anyone who has it can view the result.

        Only this response contains the address of the link.
        """
        body = ShareBody.read(request.data)
        kind, ids = Share.Kind.COMPARISON, body.get("profiles", [])
        if "task" in body:
            kind, ids = Share.Kind.TASK, [body["task"]]
        elif "profile" in body:
            kind, ids = Share.Kind.IMPORT, [body["profile"]]
        share, token = create_share(
            self.request.user, kind=kind, ids=ids, parts=body["parts"], days=body.get("days")
        )
        url = request.build_absolute_uri(reverse("shared:result", args=[token]))
        return Response(MadeShareAnswer(share, context={"url": url}).data, status=201)


class ShareView(ApiView):
    """One share link."""

    @extend_schema(
        summary="Revoke a share link", operation_id="shares_revoke", responses={204: None}
    )
    def delete(self, request: Request, share_id: int) -> Response:
        """Revoke a link immediately. Idempotent."""
        share = get_object_or_404(visible_shares(self.request.user), pk=share_id)
        revoke_share(share, by=self.request.user)
        return Response(status=204)
