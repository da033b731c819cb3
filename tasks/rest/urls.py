"""Addresses of tasks below `/api/v1/tasks/`."""

from django.urls import path

from profiles.rest import parts
from profiles.rest.opened_views import OpenedOfAttempt
from tasks.rest import left_views, queue_views, several, views

urlpatterns = [
    path("", views.TaskList.as_view(), name="tasks"),
    path("submit/", several.TasksSubmit.as_view(), name="tasks-submit"),
    path("cancel/", several.TasksCancel.as_view(), name="tasks-cancel"),
    path("judge/", queue_views.TasksJudge.as_view(), name="tasks-judge"),
    path("views/", queue_views.SavedViewList.as_view(), name="saved-views"),
    path("views/<int:view_id>/", queue_views.SavedViewDetail.as_view(), name="saved-view"),
    path("<int:task_id>/", views.TaskDetail.as_view(), name="task"),
    path("<int:task_id>/uploads/", views.TaskUploads.as_view(), name="task-uploads"),
    path("<int:task_id>/submit/", views.TaskSubmit.as_view(), name="task-submit"),
    path("<int:task_id>/cancel/", views.TaskCancel.as_view(), name="task-cancel"),
    path("<int:task_id>/retry/", views.TaskRetry.as_view(), name="task-retry"),
    path("<int:task_id>/queue/", queue_views.TaskQueue.as_view(), name="task-queue"),
    path("<int:task_id>/move/", queue_views.TaskMove.as_view(), name="task-move"),
    path("<int:task_id>/priority/", queue_views.TaskPriority.as_view(), name="task-priority"),
    path(
        "<int:task_id>/keep-files/",
        queue_views.TaskKeepFiles.as_view(),
        name="task-keep-files",
    ),
    path("<int:task_id>/events/", left_views.TaskEvents.as_view(), name="task-events"),
    path("<int:task_id>/log/", left_views.TaskLog.as_view(), name="task-log"),
    path("<int:task_id>/artifacts/", left_views.TaskArtifacts.as_view(), name="task-artifacts"),
    path(
        "<int:task_id>/artifacts/<str:name>/",
        left_views.TaskArtifact.as_view(),
        name="task-artifact",
    ),
    path(
        "<int:task_id>/attempts/<int:number>/open/",
        OpenedOfAttempt.as_view(),
        name="task-attempt-open",
    ),
    path(
        "<int:task_id>/files/<int:file_id>/",
        left_views.TaskFileContent.as_view(),
        name="task-file",
    ),
    path(
        "<int:task_id>/files/<int:file_id>/parts/",
        parts.TaskFileParts.as_view(),
        name="task-file-parts",
    ),
    path(
        "<int:task_id>/files/<int:file_id>/join/",
        parts.TaskFileJoin.as_view(),
        name="task-file-join",
    ),
]
