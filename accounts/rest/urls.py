"""Addresses of accounts below `/api/v1/`."""

from django.urls import path

from accounts.rest import views, webhook_views

urlpatterns = [
    path("auth/token/", views.PairObtain.as_view(), name="token-obtain"),
    path("auth/token/refresh/", views.PairRefresh.as_view(), name="token-refresh"),
    path("auth/token/revoke/", views.PairRevoke.as_view(), name="token-revoke"),
    path("access-tokens/", views.AccessTokenList.as_view(), name="access-tokens"),
    path("access-tokens/current/", views.AccessTokenInUse.as_view(), name="access-token-in-use"),
    path("me/", views.Me.as_view(), name="me"),
    path("me/webhooks/", webhook_views.WebhookList.as_view(), name="webhooks"),
    path("me/webhooks/<int:webhook_id>/", webhook_views.WebhookDetail.as_view(), name="webhook"),
    path(
        "me/webhooks/<int:webhook_id>/secret/",
        webhook_views.WebhookSecret.as_view(),
        name="webhook-secret",
    ),
    path(
        "me/webhooks/<int:webhook_id>/deliveries/",
        webhook_views.WebhookDeliveries.as_view(),
        name="webhook-deliveries",
    ),
]
