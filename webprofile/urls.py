"""Which address leads where."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path
from django.utils.translation import gettext_lazy as _
from django.views.generic import RedirectView

from accounts.views import own as account_views
from profiles.views import artifacts, compare_io, graph, result
from profiles.views.netron import netron
from profiles.views.perfetto import perfetto
from tasks import views as task_views
from tasks.listing import views as list_views
from webprofile.views import favicon, healthz
from webprofile.watching.views import metrics, readyz
from workers.views import agents, devices, installing, page

# imports each app's admin module (webprofile.apps.AdminConfig leaves that to this place)
admin.autodiscover()
# the same login page, with the same rate limits, in front of the administration
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]
admin.site.site_header = admin.site.site_title = _("MegEngine Web Profile")

task_patterns = (
    [
        path("", list_views.task_list, name="list"),
        path("rows/", list_views.rows, name="rows"),
        path("act/", list_views.act, name="act"),
        path("views/", list_views.save_view, name="save-view"),
        path("views/<int:view_id>/delete/", list_views.delete_view, name="delete-view"),
        path("new/", task_views.new, name="new"),
        path("outlook/", task_views.outlook, name="outlook"),
        path("cancel-all/", task_views.cancel_all, name="cancel-all"),
        path("<int:task_id>/", task_views.detail, name="detail"),
        path("<int:task_id>/status/", task_views.status, name="status"),
        path("<int:task_id>/cancel/", task_views.cancel, name="cancel"),
        path("<int:task_id>/move/", task_views.move, name="move"),
        path("<int:task_id>/priority/", task_views.prioritize, name="priority"),
        path("<int:task_id>/keep-files/", task_views.keep_files, name="keep-files"),
        path("<int:task_id>/files/<int:file_id>/", task_views.file, name="file"),
        path("<int:task_id>/result/", result.result, name="result"),
        path("<int:task_id>/model/", graph.task_model, name="model"),
        path("<int:task_id>/result.txt", result.result_text, name="result-text"),
        path("<int:task_id>/artifacts/<str:name>", artifacts.artifact, name="artifact"),
        path(
            "<int:task_id>/attempts/<int:number>/artifacts/<str:name>",
            artifacts.artifact,
            name="attempt-artifact",
        ),
        path(
            "<int:task_id>/attempts/<int:number>/open/",
            artifacts.attempt_open_profile,
            name="attempt-open",
        ),
        path("<int:task_id>/rerun/", task_views.rerun, name="rerun"),
        path("<int:task_id>/compare-io/", compare_io.compare_choose, name="compare-choose"),
        path("<int:task_id>/compare-io/<int:other_id>/", compare_io.compare_io, name="compare-io"),
    ],
    "tasks",
)
worker_patterns = (
    [
        path("", devices.worker_list, name="list"),
        path("rows/", devices.rows, name="rows"),
        path("list.json", devices.worker_list_json, name="list-json"),
        path("<str:name>/", page.worker_page, name="detail"),
        path("<str:name>/check/", page.worker_check, name="check"),
    ],
    "workers",
)

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="tasks:list"), name="home"),
    path("tasks/", include(task_patterns)),
    path("workers/", include(worker_patterns)),
    path("profiles/", include("profiles.urls")),
    path("netron/<str:tag>/", netron, name="netron"),
    path("netron/<str:tag>/<str:name>", netron),
    path("perfetto/<str:tag>/", perfetto, name="perfetto"),
    path("perfetto/<str:tag>/<path:name>", perfetto),
    path("docs/options/", task_views.options, name="options"),
    path("agent/", installing.agent_page, name="agent"),
    path("agent/install.py", installing.install_script, name="agent-install"),
    path("agent/<str:name>", installing.agent_file, name="agent-file"),
    path("api/agent/enrol/", agents.agent_enrol, name="agent-enrol"),
    path("api/agent/check/", agents.agent_check, name="agent-check"),
    path("api/agent/heartbeat/", agents.agent_heartbeat, name="agent-heartbeat"),
    path("accounts/", include("accounts.urls")),
    # before allauth's pages of these names
    path(
        "accounts/oidc/<slug:provider_id>/login/",
        account_views.oidc_login,
        name="openid_connect_login",
    ),
    path("accounts/password/reset/", account_views.password_reset, name="account_reset_password"),
    path("api/v1/", include("webprofile.rest.urls")),
    path("accounts/", include("allauth.urls")),
    path("i18n/setlang/", account_views.language, name="set_language"),
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    # browsers ask here for pages that name no icon, such as the administration's
    path("favicon.ico", favicon),
]
handler400 = "webprofile.views.bad_request"
handler403 = "webprofile.views.forbidden"
handler404 = "webprofile.views.not_found"
handler500 = "webprofile.views.server_error"
