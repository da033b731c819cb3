"""URL routes of results below `/api/v1/profiles/`, and of share links below `/api/v1/shares/`."""

from django.urls import path

from profiles.api import chart_views as charts
from profiles.api import compare_views as compare
from profiles.api import figure_views as figures
from profiles.api import graph_views as graph
from profiles.api import import_views as imports
from profiles.api import operator_views as operators
from profiles.api import paired_views as paired
from profiles.api import share_views as shares
from profiles.api import views

CHARTS = (
    "operators", "timeline", "types", "scopes", "roofline", "memory", "cumulative", "baseline",
    "static-memory", "memory-flow",
)  # fmt: skip

urlpatterns = [
    path("", views.ProfileList.as_view(), name="profiles"),
    path("opened/", imports.OpenedList.as_view(), name="opened-list"),
    path(
        "opened/<int:upload_id>/",
        imports.OpenedView.as_view(
            {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}
        ),
        name="opened",
    ),
    *(
        path(
            f"opened/<int:upload_id>/{name}/",
            imports.OpenedView.as_view({"post": name}),
            name=f"opened-{name}",
        )
        for name in ("uploads", "submit", "retry")
    ),
    path(
        "opened/<int:upload_id>/files/<int:number>/",
        imports.OpenedView.as_view({"get": "file"}),
        name="opened-file",
    ),
    *(
        path(
            f"opened/<int:upload_id>/files/<int:number>/{name}/",
            imports.OpenedView.as_view({"post": name}),
            name=f"opened-file-{name}",
        )
        for name in ("parts", "join")
    ),
    path("of-tasks/", views.TasksTable.as_view(), name="tasks-table"),
    path(
        "of-task/<int:task_id>/",
        views.ProfilesView.as_view({"get": "of_task"}),
        name="task-profile",
    ),
    path(
        "of-task/<int:task_id>/measurement/",
        figures.FiguresView.as_view({"get": "measurement"}),
        name="task-measurement",
    ),
    path("of-task/<int:task_id>/pairs/", paired.PairsView.as_view(), name="task-pairs"),
    path("compare/", compare.Compare.as_view(), name="compare"),
    path("compare/graph/", compare.CompareGraph.as_view(), name="compare-graph"),
    path("compare/timelines/", compare.CompareTimelines.as_view(), name="compare-timelines"),
    path("compare/export/<str:name>/", compare.CompareExport.as_view(), name="compare-export"),
    path("<int:profile_id>/", views.ProfilesView.as_view({"get": "retrieve"}), name="profile"),
    path(
        "<int:profile_id>/operators/", operators.OperatorsView.as_view(), name="profile-operators"
    ),
    path(
        "<int:profile_id>/text/", operators.FilesView.as_view({"get": "text"}), name="profile-text"
    ),
    path(
        "<int:profile_id>/export/<str:name>/",
        operators.FilesView.as_view({"get": "export"}),
        name="profile-export",
    ),
    path(
        "<int:profile_id>/raw/<int:number>/",
        operators.FilesView.as_view({"get": "raw"}),
        name="profile-raw",
    ),
    # an action called `trace` would answer the HTTP method TRACE
    path(
        "<int:profile_id>/trace/",
        figures.FiguresView.as_view({"get": "trace_summary"}),
        name="profile-trace",
    ),
    path(
        "<int:profile_id>/trace/cut/",
        operators.FilesView.as_view({"get": "trace_cut"}),
        name="profile-trace-cut",
    ),
    path("<int:profile_id>/graph/", graph.GraphView.as_view(), name="profile-graph"),
    path(
        "<int:profile_id>/graph/netron/",
        charts.ChartsView.as_view({"get": "netron"}),
        name="profile-graph-netron",
    ),
    *(
        path(
            f"<int:profile_id>/{name}/",
            figures.FiguresView.as_view({"get": name.replace("-", "_")}),
            name=f"profile-{name}",
        )
        for name in ("statistics", "memory-flow", "static-memory", "advice")
    ),
    *(
        path(
            f"<int:profile_id>/charts/{name}/",
            charts.ChartsView.as_view({"get": name.replace("-", "_")}),
            name=f"profile-chart-{name}",
        )
        for name in CHARTS
    ),
]

share_urlpatterns = [
    path("", shares.ShareList.as_view(), name="shares"),
    path("<int:share_id>/", shares.ShareView.as_view(), name="share"),
]
