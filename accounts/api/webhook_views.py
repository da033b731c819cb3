"""A user's webhooks over the API; only who is logged in may change what the account tells."""

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
    """A webhook to be made."""

    url = fields.Text(max_length=LONGEST_URL, help_text="https://, with the port 443 or 8443.")
    events = fields.List(
        child=fields.Choice(Webhook.Event.choices),
        min_length=1,
        max_length=len(Webhook.Event.values),
        help_text="What it is told of; `device.*` is for administrators.",
    )


class WebhookAnswer(serializers.ModelSerializer[Webhook]):
    """A webhook, without its secrets."""

    events = serializers.ListField(
        child=serializers.ChoiceField(Webhook.Event.choices), help_text="What it is told of."
    )
    has_former_secret = serializers.BooleanField(
        source="former_secret", help_text="Whether the secret before signs too."
    )

    class Meta:
        model = Webhook
        fields: tuple[str, ...] = (
            "id", "url", "events", "created_at", "disabled_at", "has_former_secret",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Its number."},
            "url": {"help_text": "What is called."},
            "created_at": {"help_text": "When it was made."},
            "disabled_at": {
                "help_text": "When too many calls in a row were given up; null if it is enabled."
            },
        }


class SecretAnswer(serializers.Serializer):
    """A secret of a webhook."""

    secret = serializers.CharField(
        help_text="Shown this once: `whsec_` and base64, as standardwebhooks.com describes."
    )


class MadeWebhookAnswer(WebhookAnswer):
    """A webhook that was just made, with its secret."""

    secret = serializers.CharField(read_only=True, help_text="Shown this once.")

    class Meta(WebhookAnswer.Meta):
        fields = (*WebhookAnswer.Meta.fields, "secret")
        read_only_fields = fields


class DeliveryAnswer(serializers.ModelSerializer[WebhookDelivery]):
    """One event for one webhook, and what became of it."""

    class Meta:
        model = WebhookDelivery
        fields = (
            "id", "event", "data", "created_at", "attempts", "next_at", "ended_at", "status",
            "problem",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "id": {"help_text": "Its number; `webhook-id` is `msg_` and this."},
            "event": {"help_text": "`test` for one that was asked for."},
            "data": {"help_text": "What is told: numbers and addresses of this site."},
            "created_at": {"help_text": "When it happened."},
            "attempts": {"help_text": "How often it was called."},
            "next_at": {"help_text": "When it is called next; null if never again."},
            "ended_at": {"help_text": "When it was told or given up; null until then."},
            "status": {"help_text": "Of the last answer; null without one."},
            "problem": {
                "help_text": "Why the last call failed: `status`, `refused`, `unknown_name`, "
                "`tls`, `timeout`, `unreachable`, `url`, `disabled`; empty if it did not."
            },
        }


@extend_schema_view(get=extend_schema(summary="List webhooks", operation_id="me_webhooks"))
class WebhookList(ApiListView):
    """One's own, the newest first; no secrets."""

    permission_classes = (NoAccessToken,)
    queryset = Webhook.objects.all()
    serializer_class = WebhookAnswer

    def get_queryset(self) -> QuerySet[Webhook]:
        return self.request.user.webhooks.all()

    @extend_schema(
        summary="Add a webhook",
        request=WebhookBody,
        responses={201: MadeWebhookAnswer}
        | problems({422: ["invalid", "webhook_url", "webhook_events", "webhook_limit"]}),
        operation_id="me_webhook_add",
    )
    def post(self, request: Request) -> Response:
        """The answer holds the secret, which is shown this once."""
        body = WebhookBody(data=request.data)
        body.is_valid(raise_exception=True)
        webhook, secret = add_webhook(self.request.user, **body.validated_data)
        return Response(WebhookAnswer(webhook).data | {"secret": secret}, status=201)


class WebhookViewSet(ApiViewSet):
    """One webhook."""

    permission_classes = (NoAccessToken,)

    def get_object(self) -> Webhook:
        return get_object_or_404(self.request.user.webhooks, pk=self.kwargs["webhook_id"])

    @extend_schema(summary="Show a webhook", responses=WebhookAnswer, operation_id="me_webhook")
    def retrieve(self, request: Request, webhook_id: int) -> Response:
        """Without its secrets."""
        return Response(WebhookAnswer(self.get_object()).data)

    @extend_schema(summary="Enable a webhook", request=None, responses=WebhookAnswer)
    def webhook_enable(self, request: Request, webhook_id: int) -> Response:
        """After it was disabled; it is told of what happens from now on."""
        enable_webhook(self.get_object())
        return self.retrieve(request, webhook_id)

    @extend_schema(summary="Remove a webhook", responses={204: None})
    def webhook_remove(self, request: Request, webhook_id: int) -> Response:
        """With all that was still to be told to it."""
        remove_webhook(self.get_object())
        return Response(status=204)

    @extend_schema(summary="Make a new secret", request=None, responses=SecretAnswer)
    def webhook_secret(self, request: Request, webhook_id: int) -> Response:
        """The secret before signs too, until it is ended."""
        return Response({"secret": rotate_webhook_secret(self.get_object())})

    @extend_schema(summary="End the former secret", responses={204: None})
    def webhook_secret_end(self, request: Request, webhook_id: int) -> Response:
        """The new one alone signs then; repeating it changes nothing."""
        end_former_secret(self.get_object())
        return Response(status=204)


@extend_schema_view(
    get=extend_schema(summary="List a webhook's calls", operation_id="me_webhook_deliveries")
)
class WebhookDeliveries(ApiListView):
    """Of the last 30 days, the newest first."""

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
        """Call it with an event `test`; what becomes of it stands in the list."""
        return Response(DeliveryAnswer(send_test_delivery(self.webhook())).data, status=201)
