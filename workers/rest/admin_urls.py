"""Addresses of devices and pools below `/api/v1/admin/`."""

from django.urls import path

from workers.rest import admin_views as views
from workers.rest.admin_acts import HardwareActs

ACTS: dict[str, type[views.HardwareView]] = {
    "enrol": views.HardwareEnrol,
    "drain": views.HardwareDrain,
    "resume": views.HardwareResume,
    "publish": views.HardwarePublish,
    "hide": views.HardwareHide,
    "allow-scripts": views.HardwareAllowScripts,
    "forbid-scripts": views.HardwareForbidScripts,
    "revoke": views.HardwareRevoke,
    "retire": views.HardwareRetire,
    "check": views.HardwareCheck,
}
urlpatterns = [
    path("workers/", views.HardwareList.as_view(), name="admin-workers"),
    path("workers/acts/", HardwareActs.as_view(), name="admin-workers-acts"),
    path("workers/<int:worker_id>/", views.HardwareDetail.as_view(), name="admin-worker"),
    path(
        "workers/<int:worker_id>/health-checks/",
        views.HardwareHealth.as_view(),
        name="admin-worker-health-checks",
    ),
    *(
        path(f"workers/<int:worker_id>/{act}/", view.as_view(), name=f"admin-worker-{act}")
        for act, view in ACTS.items()
    ),
    path("pools/", views.AdminPools.as_view(), name="admin-pools"),
    path("pools/<int:pool_id>/", views.AdminPoolDetail.as_view(), name="admin-pool"),
]
