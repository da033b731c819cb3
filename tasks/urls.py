"""URL routes of the pages of tasks, below `/tasks/`."""

from django.urls import path

from profiles.views import compare, exports, imports, result, viewers
from tasks.views import pages as task_views
from tasks.views import task_list as list_views

app_name = "tasks"
#: what a task shows that has no result
STATE = {"state_page": task_views.detail}
urlpatterns = [
    path("", list_views.task_list, name="list"),
    path("rows/", list_views.rows, name="rows"),
    path("act/", list_views.bulk_action, name="bulk-action"),
    path("views/", list_views.save_view, name="save-view"),
    path("views/<int:view_id>/delete/", list_views.delete_view, name="delete-view"),
    path("new/", task_views.new, name="new"),
    path("option-presets/", task_views.option_presets, name="option-presets"),
    path("outlook/", task_views.outlook, name="outlook"),
    path("cancel-all/", task_views.cancel_all, name="cancel-all"),
    path("<int:task_id>/", result.task, STATE, name="detail"),
    path("<int:task_id>/status/", task_views.status, name="status"),
    path("<int:task_id>/cancel/", task_views.cancel, name="cancel"),
    path("<int:task_id>/enough/", task_views.enough, name="enough"),
    path("<int:task_id>/move/", task_views.move, name="move"),
    path("<int:task_id>/priority/", task_views.prioritize, name="priority"),
    path("<int:task_id>/keep-files/", task_views.keep_files, name="keep-files"),
    path("<int:task_id>/baseline/", list_views.pin, name="baseline"),
    path("<int:task_id>/files/<int:file_id>/", task_views.file, name="file"),
    path("<int:task_id>/result/", result.result, name="result"),
    path("<int:task_id>/model/", viewers.task_model, name="model"),
    path("<int:task_id>/artifacts/<str:name>", exports.artifact, name="artifact"),
    path(
        "<int:task_id>/attempts/<int:number>/artifacts/<str:name>",
        exports.artifact,
        name="attempt-artifact",
    ),
    path(
        "<int:task_id>/attempts/<int:number>/open/",
        imports.attempt_open_profile,
        name="attempt-open",
    ),
    path("<int:task_id>/compare-paired/", task_views.compare_paired, name="compare-paired"),
    path("<int:task_id>/check/", task_views.check, name="check"),
    path("<int:task_id>/rerun/", task_views.rerun, name="rerun"),
    path("<int:task_id>/compare-io/", compare.compare_choose, name="compare-choose"),
    path("<int:task_id>/compare-io/<int:other_id>/", compare.compare_io, name="compare-io"),
    # after all others, whose names it would accept
    path("<int:task_id>/<slug:view>/", result.task, STATE, name="view"),
]
