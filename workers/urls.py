"""URL routes of the pages of devices, below `/workers/`."""

from django.urls import path

from workers.views import devices, page

app_name = "workers"
urlpatterns = [
    path("", devices.worker_list, name="list"),
    path("rows/", devices.rows, name="rows"),
    path("<str:name>/", page.worker_page, name="detail"),
    path("<str:name>/check/", page.worker_check, name="check"),
]
