"""API views of a user's webhooks. Access tokens are rejected: they must not change webhooks."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Webhook, WebhookDelivery
from accounts.webhooks.addresses import LONGEST_URL
from accounts.webhooks.registration import (
    add_webhook,
    enable_webhook,
    end_former_secret,
    remove_webhook,
    rotate_webhook_secret,
    send_test_delivery,
)
from webprofile import fields
from webprofile.api.permissions import NoAccessToken
from webprofile.api.schema import problems
from webprofile.api.views import ApiListView, ApiViewSet


class WebhookBody(fields.Body):
    """URL and events of a new webhook."""

    url = fields.Text(max_length=LONGEST_URL, help_text="URL with https:// and port 443 or 8443.")
    events = fields.List(
        child=fields.Choice(Webhook.Event.choices),
        min_length=1,
        max_length=len(Webhook.Event.values),
        help_text="Subscribed events; `device.*` is for administrators.",
    )


class WebhookAnswer(serializers.ModelSerializer[Webhook]):
    """A webhook, without its secrets."""

    events = serializers.ListField(
        child=serializers.ChoiceField(Webhook.Event.choices), help_text="Subscribed events."
    )
    has_former_secret = serializers.BooleanField(
        source="former_secret", help_text="Whether calls are also signed with the previous secret."
    )

    class Meta:
        model = Webhook
        fields: tuple[str, ...] = (
            "id", "url", "events", "created_at", "disabled_at", "has_former_secret",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "url": {"help_text": "URL that is called."},
            "created_at": {"help_text": "When it was created."},
            "disabled_at": {
                "help_text": "When it was disabled after failed calls; null if it is enabled."
            },
        }


class SecretAnswer(serializers.Serializer):
    """The secret of a webhook."""

    secret = serializers.CharField(
        help_text=(
            "Only contained in this response: `whsec_` and base64, as described at "
            "standardwebhooks.com."
        )
    )


class MadeWebhookAnswer(WebhookAnswer):
    """A new webhook with its secret."""

    secret = serializers.CharField(read_only=True, help_text="Only contained in this response.")

    class Meta(WebhookAnswer.Meta):
        fields = (*WebhookAnswer.Meta.fields, "secret")
        read_only_fields = fields


class DeliveryAnswer(serializers.ModelSerializer[WebhookDelivery]):
    """One event for one webhook, with the result of the calls."""

    class Meta:
        model = WebhookDelivery
        fields = (
            "id", "event", "data", "created_at", "attempts", "next_at", "ended_at", "status",
            "problem",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Id; the header `webhook-id` is `msg_` followed by it."},
            "event": {"help_text": "Name of the event; `test` for a test."},
            "data": {"help_text": "Data of the event: ids and URLs of this site."},
            "created_at": {"help_text": "Time of the event."},
            "attempts": {"help_text": "Number of calls."},
            "next_at": {"help_text": "Time of the next call; null if there is none."},
            "ended_at": {"help_text": "When it was delivered or abandoned; null until then."},
            "status": {"help_text": "HTTP status of the last response; null without one."},
            "problem": {
                "help_text": "Why the last call failed: `status`, `refused`, `unknown_name`, "
                "`tls`, `timeout`, `unreachable`, `url`, or `broke` (an error of the site). "
                "`disabled` and `not_yours`: it was not called. Empty if it did not fail."
            },
        }


@extend_schema_view(get=extend_schema(summary="List webhooks", operation_id="me_webhooks"))
class WebhookList(ApiListView):
    """The webhooks of the current user, the newest first, without secrets."""

    permission_classes = (NoAccessToken,)
    queryset = Webhook.objects.all()
    serializer_class = WebhookAnswer

    def get_queryset(self) -> QuerySet[Webhook]:
        return self.request.user.webhooks.all()

    @extend_schema(
        summary="Add a webhook",
        request=WebhookBody,
        responses={201: MadeWebhookAnswer}
        | problems(
            {422: ["invalid", "character_bad", "webhook_url", "webhook_events", "webhook_limit"]}
        ),
        operation_id="me_webhook_add",
    )
    def post(self, request: Request) -> Response:
        """Add a webhook. Only this response contains its secret."""
        body = WebhookBody.read(request.data)
        webhook, secret = add_webhook(self.request.user, **body)
        return Response(WebhookAnswer(webhook).data | {"secret": secret}, status=201)


class WebhookViewSet(ApiViewSet):
    """One webhook."""

    permission_classes = (NoAccessToken,)

    def get_object(self) -> Webhook:
        return get_object_or_404(self.request.user.webhooks, pk=self.kwargs["webhook_id"])

    @extend_schema(summary="Show a webhook", responses=WebhookAnswer, operation_id="me_webhook")
    def retrieve(self, request: Request, webhook_id: int) -> Response:
        """Return a webhook without its secrets."""
        return Response(WebhookAnswer(self.get_object()).data)

    @extend_schema(summary="Enable a webhook", request=None, responses=WebhookAnswer)
    def webhook_enable(self, request: Request, webhook_id: int) -> Response:
        """Enable a webhook that was disabled; it receives events from now on."""
        enable_webhook(self.get_object())
        return self.retrieve(request, webhook_id)

    @extend_schema(summary="Remove a webhook", responses={204: None})
    def webhook_remove(self, request: Request, webhook_id: int) -> Response:
        """Remove a webhook and its pending deliveries."""
        remove_webhook(self.get_object())
        return Response(status=204)

    @extend_schema(summary="Create a new secret", request=None, responses=SecretAnswer)
    def webhook_secret(self, request: Request, webhook_id: int) -> Response:
        """Create a new secret. Calls are also signed with the previous one until it is revoked.

        A secret older than the previous one no longer signs, so do not repeat this request before
        the server of the webhook knows the new secret.
        """
        return Response({"secret": rotate_webhook_secret(self.get_object())})

    @extend_schema(summary="Revoke the previous secret", responses={204: None})
    def webhook_secret_end(self, request: Request, webhook_id: int) -> Response:
        """Revoke the previous secret: calls are then signed with the new one only. Idempotent."""
        end_former_secret(self.get_object())
        return Response(status=204)


@extend_schema_view(
    get=extend_schema(summary="List a webhook's calls", operation_id="me_webhook_deliveries")
)
class WebhookDeliveries(ApiListView):
    """The deliveries of the last 30 days, the newest first."""

    permission_classes = (NoAccessToken,)
    queryset = WebhookDelivery.objects.all()
    serializer_class = DeliveryAnswer

    def webhook(self) -> Webhook:
        return get_object_or_404(self.request.user.webhooks, pk=self.kwargs["webhook_id"])

    def get_queryset(self) -> QuerySet[WebhookDelivery]:
        return self.webhook().deliveries.all()

    @extend_schema(
        summary="Test a webhook",
        request=None,
        responses={201: DeliveryAnswer} | problems({429: ["throttled", "webhook_busy"]}),
        operation_id="me_webhook_test",
    )
    def post(self, request: Request, webhook_id: int) -> Response:
        """Call the webhook with an event `test`. The list shows the result."""
        return Response(DeliveryAnswer(send_test_delivery(self.webhook())).data, status=201)
