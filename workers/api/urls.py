"""URL routes of devices, below `/api/v1/workers/`."""

from django.urls import path

from workers.api.views import WorkerList, WorkerViewSet

one = WorkerViewSet.as_view

urlpatterns = [
    path("", WorkerList.as_view(), name="workers"),
    path("<str:name>/", one({"get": "retrieve"}), name="worker"),
    path(
        "<str:name>/runtimes/<str:version>/options/",
        one({"get": "runtime_options"}),
        name="worker-options",
    ),
    path("<str:name>/queue/", one({"get": "queue"}), name="worker-queue"),
]
