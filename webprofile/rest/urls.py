"""Addresses below `/api/v1/`."""

from django.urls import include, path, re_path

from webprofile.rest.views import NothingHere, ProblemDetail, ProblemList, SchemaView, docs
from workers.rest.views import OptionList, PoolList

app_name = "api"
urlpatterns = [
    path("", include("accounts.rest.urls")),
    path("tasks/", include("tasks.rest.urls")),
    path("profiles/", include("profiles.rest.urls")),
    path("workers/", include("workers.rest.urls")),
    path("pools/", PoolList.as_view(), name="pools"),
    path("options/", OptionList.as_view(), name="options"),
    path("problems/", ProblemList.as_view(), name="problems"),
    path("problems/<slug:code>/", ProblemDetail.as_view(), name="problem"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    re_path(r"^.*$", NothingHere.as_view(), name="nothing"),
]
