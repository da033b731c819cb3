"""URL routes of the pages of devices, below `/workers/`."""

from django.urls import path

from workers.views import pages

app_name = "workers"
urlpatterns = [
    path("", pages.worker_list, name="list"),
    # two parts, since a device may be named "rows"
    path("all/rows/", pages.rows, name="rows"),
    path("<str:name>/", pages.worker_page, name="detail"),
    path("<str:name>/check/", pages.worker_check, name="check"),
]
