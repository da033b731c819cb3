"""Addresses below `/profiles/`: of a profile that a task left or that a user opened."""

from django.urls import path

from profiles.views import result

app_name = "profiles"
urlpatterns = [
    path("<int:profile_id>/", result.detail, name="detail"),
]
