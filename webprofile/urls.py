"""URL routes of the site."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from accounts.views import account as account_views
from profiles.urls import shared_urlpatterns
from profiles.views.viewers import netron, perfetto
from tasks.views import pages as task_views
from webprofile.admin.site import set_up_admin_site
from webprofile.operations.views import metrics, readyz
from webprofile.views import favicon, healthz
from workers.views import agents, installation, pages

# webprofile.apps.AdminConfig does not import the admin modules
set_up_admin_site()

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="tasks:list"), name="home"),
    path("tasks/", include("tasks.urls")),
    path("workers/", include("workers.urls")),
    path("trust/", pages.trust, name="trust"),
    path("profiles/", include("profiles.urls")),
    path("s/<str:token>/", include((shared_urlpatterns, "shared"))),
    path("netron/<str:tag>/", netron, name="netron"),
    path("netron/<str:tag>/<str:name>", netron),
    path("perfetto/<str:tag>/", perfetto, name="perfetto"),
    path("perfetto/<str:tag>/<path:name>", perfetto),
    path("docs/options/", task_views.options, name="options"),
    path("agent/", installation.agent_page, name="agent"),
    path("agent/install.py", installation.install_script, name="agent-install"),
    path("agent/<str:name>", installation.agent_file, name="agent-file"),
    path("api/agent/enrol/", agents.agent_enrol, name="agent-enrol"),
    path("api/agent/check/", agents.agent_check, name="agent-check"),
    path("api/agent/heartbeat/", agents.agent_heartbeat, name="agent-heartbeat"),
    path("accounts/", include("accounts.urls")),
    # these two override pages of allauth, which is included below
    path(
        "accounts/oidc/<slug:provider_id>/login/",
        account_views.oidc_login,
        name="openid_connect_login",
    ),
    path("accounts/password/reset/", account_views.password_reset, name="account_reset_password"),
    path("api/v1/", include("webprofile.api.urls")),
    path("accounts/", include("allauth.urls")),
    path("i18n/setlang/", account_views.language, name="set_language"),
    path("admin/", admin.site.urls),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    # browsers request it for pages without an icon, such as those of the admin site
    path("favicon.ico", favicon),
]
handler400 = "webprofile.views.bad_request"
handler403 = "webprofile.views.forbidden"
handler404 = "webprofile.views.not_found"
handler500 = "webprofile.views.server_error"
