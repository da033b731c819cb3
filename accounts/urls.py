"""URL routes of the account pages that django-allauth does not provide, below `/accounts/`."""

from django.urls import path

from accounts.views import own as views
from accounts.views import webhooks as webhook_views

app_name = "accounts"
urlpatterns = [
    path("profile/", views.profile, name="profile"),
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", views.token_end, name="token-revoke"),
    path("webhooks/", webhook_views.webhooks, name="webhooks"),
    path("webhooks/<int:webhook_id>/", webhook_views.webhook, name="webhook"),
    path("webhooks/<int:webhook_id>/<slug:act>/", webhook_views.webhook_act, name="webhook-act"),
    path("sessions/<int:session_id>/end/", views.session_end, name="session-end"),
    path("sessions/end-all/", views.session_end_all, name="session-end-all"),
    path("password/check/", views.password_check, name="password-check"),
]
