"""Addresses of devices below `/api/v1/workers/`."""

from django.urls import path

from workers.rest import views

urlpatterns = [
    path("", views.WorkerList.as_view(), name="workers"),
    path("<str:name>/", views.WorkerDetail.as_view(), name="worker"),
    path(
        "<str:name>/runtimes/<str:version>/options/",
        views.RuntimeOptions.as_view(),
        name="worker-options",
    ),
    path("<str:name>/queue/", views.WorkerQueue.as_view(), name="worker-queue"),
]
