"""The pages about oneself that allauth does not have."""

from django.urls import path

from accounts import views

app_name = "accounts"
urlpatterns = [
    path("profile/", views.profile, name="profile"),
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", views.token_end, name="token-revoke"),
    path("sessions/<int:session_id>/end/", views.session_end, name="session-end"),
    path("sessions/end-all/", views.session_end_all, name="session-end-all"),
    path("password/check/", views.password_check, name="password-check"),
]
