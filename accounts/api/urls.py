"""URL routes of accounts, below `/api/v1/`."""

from django.urls import path

from accounts.api.views import AccessTokenInUse, AccessTokenList, Me, PairViewSet
from accounts.api.webhook_views import WebhookDeliveries, WebhookList, WebhookViewSet
from webprofile.api.throttling import CredentialsThrottle

pair = PairViewSet.as_view
webhook = WebhookViewSet.as_view

urlpatterns = [
    path(
        "auth/token/",
        pair({"post": "token_obtain"}, throttle_classes=(CredentialsThrottle,)),
        name="token-obtain",
    ),
    path("auth/token/refresh/", pair({"post": "token_refresh"}), name="token-refresh"),
    path("auth/token/revoke/", pair({"post": "token_revoke"}), name="token-revoke"),
    path("access-tokens/", AccessTokenList.as_view(), name="access-tokens"),
    path("access-tokens/current/", AccessTokenInUse.as_view(), name="access-token-in-use"),
    path("me/", Me.as_view(), name="me"),
    path("me/webhooks/", WebhookList.as_view(), name="webhooks"),
    path(
        "me/webhooks/<int:webhook_id>/",
        webhook({"get": "retrieve", "post": "webhook_enable", "delete": "webhook_remove"}),
        name="webhook",
    ),
    path(
        "me/webhooks/<int:webhook_id>/secret/",
        webhook({"post": "webhook_secret", "delete": "webhook_secret_end"}),
        name="webhook-secret",
    ),
    path(
        "me/webhooks/<int:webhook_id>/deliveries/",
        WebhookDeliveries.as_view(),
        name="webhook-deliveries",
    ),
]
