"""Addresses of results below `/api/v1/profiles/`."""

from django.urls import path

from profiles.rest import compare_views as compare
from profiles.rest import figure_views as figures
from profiles.rest import graph_views as graph
from profiles.rest import opened_views as opened
from profiles.rest import operator_views as operators
from profiles.rest import parts, views
from profiles.rest import picture_views as pictures

urlpatterns = [
    path("", views.ProfileList.as_view(), name="profiles"),
    path("opened/", opened.OpenedList.as_view(), name="opened-list"),
    path("opened/<int:upload_id>/", opened.OpenedDetail.as_view(), name="opened"),
    path("opened/<int:upload_id>/uploads/", opened.OpenedUploads.as_view(), name="opened-uploads"),
    path("opened/<int:upload_id>/submit/", opened.OpenedSubmit.as_view(), name="opened-submit"),
    path("opened/<int:upload_id>/retry/", opened.OpenedRetry.as_view(), name="opened-retry"),
    path(
        "opened/<int:upload_id>/files/<int:number>/",
        opened.OpenedContent.as_view(),
        name="opened-file",
    ),
    path(
        "opened/<int:upload_id>/files/<int:number>/parts/",
        parts.OpenedFileParts.as_view(),
        name="opened-file-parts",
    ),
    path(
        "opened/<int:upload_id>/files/<int:number>/join/",
        parts.OpenedFileJoin.as_view(),
        name="opened-file-join",
    ),
    path("of-tasks/", views.TasksTable.as_view(), name="tasks-table"),
    path("of-task/<int:task_id>/", views.ProfileOfTask.as_view(), name="task-profile"),
    path(
        "of-task/<int:task_id>/measurement/",
        figures.Measurement.as_view(),
        name="task-measurement",
    ),
    path("compare/", compare.Compare.as_view(), name="compare"),
    path("compare/csv/", compare.CompareCsv.as_view(), name="compare-csv"),
    path("compare/candidates/", compare.CompareCandidates.as_view(), name="compare-candidates"),
    path("values/<int:task_id>/", compare.ValuesBeside.as_view(), name="values-beside"),
    path("values/<int:task_id>/<int:other_id>/", compare.Values.as_view(), name="values"),
    path("<int:profile_id>/", views.ProfileDetail.as_view(), name="profile"),
    path("<int:profile_id>/operators/", operators.Operators.as_view(), name="profile-operators"),
    path(
        "<int:profile_id>/operators/<int:row>/",
        operators.Operator.as_view(),
        name="profile-operator",
    ),
    path("<int:profile_id>/text/", operators.Text.as_view(), name="profile-text"),
    path("<int:profile_id>/export/<str:name>/", operators.Export.as_view(), name="profile-export"),
    path("<int:profile_id>/raw/<int:number>/", operators.Raw.as_view(), name="profile-raw"),
    path("<int:profile_id>/statistics/", figures.Statistics.as_view(), name="profile-statistics"),
    path("<int:profile_id>/trace/", figures.Trace.as_view(), name="profile-trace"),
    path(
        "<int:profile_id>/memory-flow/",
        figures.MemoryFlow.as_view(),
        name="profile-memory-flow",
    ),
    path(
        "<int:profile_id>/static-memory/",
        figures.StaticMemory.as_view(),
        name="profile-static-memory",
    ),
    path("<int:profile_id>/trace/cut/", figures.TraceCut.as_view(), name="profile-trace-cut"),
    path("<int:profile_id>/advice/", figures.Advice.as_view(), name="profile-advice"),
    path("<int:profile_id>/graph/", graph.Graph.as_view(), name="profile-graph"),
    path(
        "<int:profile_id>/pictures/operators/",
        pictures.PictureOperators.as_view(),
        name="profile-picture-operators",
    ),
    path(
        "<int:profile_id>/pictures/timeline/",
        pictures.PictureTimeline.as_view(),
        name="profile-picture-timeline",
    ),
    path(
        "<int:profile_id>/pictures/types/",
        pictures.PictureTypes.as_view(),
        name="profile-picture-types",
    ),
    path(
        "<int:profile_id>/pictures/scopes/",
        pictures.PictureScopes.as_view(),
        name="profile-picture-scopes",
    ),
    path(
        "<int:profile_id>/pictures/roofline/",
        pictures.PictureRoofline.as_view(),
        name="profile-picture-roofline",
    ),
    path(
        "<int:profile_id>/pictures/memory/",
        pictures.PictureMemory.as_view(),
        name="profile-picture-memory",
    ),
    path(
        "<int:profile_id>/pictures/cumulative/",
        pictures.PictureCumulative.as_view(),
        name="profile-picture-cumulative",
    ),
    path(
        "<int:profile_id>/pictures/static-memory/",
        pictures.PictureStaticMemory.as_view(),
        name="profile-picture-static-memory",
    ),
]
