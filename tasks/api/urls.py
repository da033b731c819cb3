"""URL routes of the API below `/api/v1/tasks/`."""

from django.urls import path

from accounts.models import AccessToken
from profiles.api.import_views import OpenedView
from profiles.api.parts import TaskFileParts
from tasks.api.left_views import PlainText, TaskOutputViewSet
from tasks.api.saved import (
    OptionPresetDetail,
    OptionPresetList,
    SavedViewDetail,
    SavedViewList,
)
from tasks.api.views import TaskList, TasksJudge, TasksViewSet, TaskViewSet
from webprofile.api.renderers import FiniteJSONRenderer

one = TaskViewSet.as_view
several = TasksViewSet.as_view
output = TaskOutputViewSet.as_view

urlpatterns = [
    path("", TaskList.as_view(), name="tasks"),
    path("submit/", several({"post": "submit_several"}), name="tasks-submit"),
    path("cancel/", several({"post": "cancel_several"}), name="tasks-cancel"),
    # it changes nothing
    path("judge/", TasksJudge.as_view(scope=AccessToken.Scope.READ), name="tasks-judge"),
    path("views/", SavedViewList.as_view(), name="saved-views"),
    path("views/<int:view_id>/", SavedViewDetail.as_view(), name="saved-view"),
    path("option-presets/", OptionPresetList.as_view(), name="option-presets"),
    path("option-presets/<int:preset_id>/", OptionPresetDetail.as_view(), name="option-preset"),
    path("<int:task_id>/", one({"get": "retrieve", "delete": "destroy"}), name="task"),
    path("<int:task_id>/uploads/", one({"post": "uploads"}), name="task-uploads"),
    path("<int:task_id>/submit/", one({"post": "submit"}), name="task-submit"),
    path("<int:task_id>/cancel/", one({"post": "cancel"}), name="task-cancel"),
    path("<int:task_id>/enough/", one({"post": "enough"}), name="task-enough"),
    path("<int:task_id>/retry/", one({"post": "retry"}), name="task-retry"),
    path("<int:task_id>/check/", one({"post": "check"}), name="task-check"),
    path(
        "<int:task_id>/compare-paired/",
        one({"post": "compare_paired"}),
        name="task-compare-paired",
    ),
    path("<int:task_id>/queue/", one({"get": "queue"}), name="task-queue"),
    path("<int:task_id>/move/", one({"post": "move"}), name="task-move"),
    path("<int:task_id>/priority/", one({"post": "prioritize"}), name="task-priority"),
    path("<int:task_id>/keep-files/", one({"post": "keep_files"}), name="task-keep-files"),
    path("<int:task_id>/baseline/", one({"get": "baseline", "post": "pin"}), name="task-baseline"),
    path("<int:task_id>/events/", output({"get": "events"}), name="task-events"),
    path(
        "<int:task_id>/log/",
        output({"get": "log"}, renderer_classes=(PlainText, FiniteJSONRenderer)),
        name="task-log",
    ),
    path("<int:task_id>/artifacts/", output({"get": "artifacts"}), name="task-artifacts"),
    path("<int:task_id>/artifacts/<str:name>/", output({"get": "artifact"}), name="task-artifact"),
    path(
        "<int:task_id>/attempts/<int:number>/open/",
        OpenedView.as_view({"post": "of_attempt"}),
        name="task-attempt-open",
    ),
    path("<int:task_id>/files/<int:file_id>/", output({"get": "file"}), name="task-file"),
    path(
        "<int:task_id>/files/<int:file_id>/parts/",
        TaskFileParts.as_view({"post": "parts"}),
        name="task-file-parts",
    ),
    path(
        "<int:task_id>/files/<int:file_id>/join/",
        TaskFileParts.as_view({"post": "join"}),
        name="task-file-join",
    ),
]
