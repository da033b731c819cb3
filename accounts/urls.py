"""URL routes of the account pages that django-allauth does not provide, below `/accounts/`."""

from django.urls import path

from accounts.views import account, webhooks

app_name = "accounts"
urlpatterns = [
    path("profile/", account.profile, name="profile"),
    path("tokens/", account.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", account.token_end, name="token-revoke"),
    path("webhooks/", webhooks.webhooks, name="webhooks"),
    path("webhooks/<int:webhook_id>/", webhooks.webhook, name="webhook"),
    path(
        "webhooks/<int:webhook_id>/<slug:action>/", webhooks.webhook_action, name="webhook-action"
    ),
    path("sessions/<int:session_id>/end/", account.session_end, name="session-end"),
    path("sessions/end-all/", account.session_end_all, name="session-end-all"),
    path("password/check/", account.password_check, name="password-check"),
]
