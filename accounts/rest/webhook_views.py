"""A user's webhooks over the API; only who is logged in may change what the account tells."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Webhook, WebhookDelivery
from accounts.webhooks.addresses import LONGEST_URL
from accounts.webhooks.registering import (
    webhook_add,
    webhook_enable,
    webhook_end_former,
    webhook_remove,
    webhook_rotate,
    webhook_test,
)
from webprofile.rest import fields
from webprofile.rest.permissions import NoAccessToken
from webprofile.rest.schema import documented
from webprofile.rest.views import ApiListView, ApiView


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


class WebhookList(ApiListView):
    """A user's webhooks."""

    permission_classes = (NoAccessToken,)
    serializer_class = WebhookAnswer

    def rows(self) -> QuerySet[Webhook]:
        return self.reader.webhooks.all()

    @documented(
        "List webhooks", answers={200: WebhookAnswer(many=True)}, operation_id="me_webhooks"
    )
    def get(self, request: Request) -> Response:
        """One's own, the newest first; no secrets."""
        return self.list(request)

    @documented(
        "Add a webhook",
        body=WebhookBody,
        answers={201: MadeWebhookAnswer},
        errors={422: ["invalid", "webhook_url", "webhook_events", "webhook_limit"]},
        operation_id="me_webhook_add",
    )
    def post(self, request: Request) -> Response:
        """The answer holds the secret, which is shown this once."""
        webhook, secret = webhook_add(self.reader, **self.read(WebhookBody))
        return Response(WebhookAnswer(webhook).data | {"secret": secret}, status=201)


class WebhookView(ApiView):
    """What the views of one webhook share."""

    permission_classes = (NoAccessToken,)

    def webhook(self, webhook_id: int) -> Webhook:
        return get_object_or_404(self.reader.webhooks, pk=webhook_id)


class WebhookDetail(WebhookView):
    """One webhook."""

    @documented("Show a webhook", answers={200: WebhookAnswer}, operation_id="me_webhook")
    def get(self, request: Request, webhook_id: int) -> Response:
        """Without its secrets."""
        return Response(WebhookAnswer(self.webhook(webhook_id)).data)

    @documented("Enable a webhook", answers={200: WebhookAnswer}, operation_id="me_webhook_enable")
    def post(self, request: Request, webhook_id: int) -> Response:
        """After it was disabled; it is told of what happens from now on."""
        webhook = self.webhook(webhook_id)
        webhook_enable(webhook)
        webhook.refresh_from_db()
        return Response(WebhookAnswer(webhook).data)

    @documented("Remove a webhook", answers={204: None}, operation_id="me_webhook_remove")
    def delete(self, request: Request, webhook_id: int) -> Response:
        """With all that was still to be told to it."""
        webhook_remove(self.webhook(webhook_id))
        return Response(status=204)


class WebhookSecret(WebhookView):
    """The secret that signs a webhook's calls."""

    @documented("Make a new secret", answers={200: SecretAnswer}, operation_id="me_webhook_secret")
    def post(self, request: Request, webhook_id: int) -> Response:
        """The secret before signs too, until it is ended."""
        secret = webhook_rotate(self.webhook(webhook_id))
        return Response({"secret": secret})

    @documented("End the former secret", answers={204: None}, operation_id="me_webhook_secret_end")
    def delete(self, request: Request, webhook_id: int) -> Response:
        """The new one alone signs then; repeating it changes nothing."""
        webhook_end_former(self.webhook(webhook_id))
        return Response(status=204)


class WebhookDeliveries(WebhookView, ApiListView):
    """Calls of a webhook."""

    serializer_class = DeliveryAnswer

    def rows(self) -> QuerySet[WebhookDelivery]:
        return self.webhook(self.kwargs["webhook_id"]).deliveries.all()

    @documented(
        "List a webhook's calls",
        answers={200: DeliveryAnswer(many=True)},
        operation_id="me_webhook_deliveries",
    )
    def get(self, request: Request, webhook_id: int) -> Response:
        """Of the last 30 days, the newest first."""
        return self.list(request)

    @documented(
        "Test a webhook",
        answers={201: DeliveryAnswer},
        errors={429: ["throttled", "webhook_busy"]},
        operation_id="me_webhook_test",
    )
    def post(self, request: Request, webhook_id: int) -> Response:
        """Call it with an event `test`; what becomes of it stands in the list."""
        row = webhook_test(self.webhook(webhook_id))
        return Response(DeliveryAnswer(row).data, status=201)
