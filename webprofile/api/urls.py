"""URL routes below `/api/v1/`."""

from django.urls import include, path, re_path

from profiles.api.urls import share_urlpatterns
from webprofile.api.views import NothingHere, ProblemViewSet, Root, SchemaView, docs
from workers.api.views import OptionList, PoolList

app_name = "api"
urlpatterns = [
    path("", Root.as_view(), name="root"),
    path("", include("accounts.api.urls")),
    path("tasks/", include("tasks.api.urls")),
    path("profiles/", include("profiles.api.urls")),
    path("shares/", include(share_urlpatterns)),
    path("workers/", include("workers.api.urls")),
    path("pools/", PoolList.as_view(), name="pools"),
    path("options/", OptionList.as_view(), name="options"),
    path("problems/", ProblemViewSet.as_view({"get": "list"}), name="problems"),
    path("problems/<slug:code>/", ProblemViewSet.as_view({"get": "retrieve"}), name="problem"),
    path("schema/", SchemaView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
    re_path(r"^.*$", NothingHere.as_view(), name="nothing"),
]
