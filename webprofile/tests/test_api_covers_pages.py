"""Whatever a page can do, the API can: each route of the pages beside the route of the API."""

from fnmatch import fnmatchcase

from webprofile.tests.permission_table import web_routes

#: names of pages' routes, and the routes of the API that do the same
SAME = {
    "tasks:list": ["tasks"],
    "tasks:rows": ["tasks"],
    "tasks:act": ["tasks-cancel", "task", "task-retry"],
    "tasks:save-view": ["saved-views"],
    "tasks:delete-view": ["saved-view"],
    "tasks:new": ["tasks", "tasks-judge"],
    "tasks:outlook": ["tasks-judge", "worker-queue"],
    "tasks:cancel-all": ["tasks-cancel"],
    "tasks:detail": ["task", "task-events", "task-log", "task-queue", "task-artifacts"],
    "tasks:status": ["task"],
    "tasks:cancel": ["task-cancel"],
    "tasks:move": ["task-move"],
    "tasks:priority": ["task-priority"],
    "tasks:keep-files": ["task-keep-files"],
    "tasks:file": ["task-file"],
    "tasks:model": ["task", "task-file"],
    "tasks:result": ["task-profile", "task-measurement", "profile-statistics", "profile-advice"],
    "tasks:result-text": ["profile-text"],
    "tasks:artifact": ["task-artifact"],
    "tasks:attempt-artifact": ["task-artifact"],
    "tasks:attempt-open": ["task-attempt-open"],
    "tasks:rerun": ["task-retry"],
    "tasks:compare-choose": ["values-beside"],
    "tasks:compare-io": ["values"],
    "workers:list": ["workers"],
    "workers:rows": ["workers"],
    "workers:detail": ["worker"],
    "profiles:list": ["opened-list", "profiles"],
    "profiles:opened-list": ["opened-list"],
    "profiles:opened": ["opened"],
    "profiles:opened-status": ["opened"],
    "profiles:opened-retry": ["opened-retry"],
    "profiles:opened-rename": ["opened"],
    "profiles:opened-delete": ["opened"],
    "profiles:opened-file": ["opened-file"],
    "profiles:exports": ["schema"],
    "profiles:guide": ["schema"],
    "profiles:compare": ["compare", "compare-candidates"],
    "profiles:compare-csv": ["compare-csv"],
    "profiles:compare-json": ["compare"],
    "profiles:detail": [
        "profile", "profile-statistics", "profile-trace", "profile-memory-flow",
        "profile-static-memory", "profile-advice",
    ],
    "profiles:original": ["profile-raw"],
    "profiles:export": ["profile-export"],
    "profiles:operators": ["profile-operators"],
    "profiles:operator-order": ["profile-operators"],
    "profiles:operator": ["profile-operator"],
    "profiles:graph": ["profile-graph"],
    "profiles:memory-flow": ["profile-memory-flow"],
    "profiles:memory-flow-tensors": ["profile-memory-flow"],
    "profiles:memory-flow-image": ["profile-raw"],
    "profiles:trace": ["profile-trace", "profile-raw"],
    "profiles:trace-file": ["profile-raw"],
    "profiles:trace-cut": ["profile-trace-cut"],
    "options": ["options", "worker-options"],
    "accounts:tokens": ["access-tokens"],
    "accounts:webhooks": ["webhooks"],
    "accounts:webhook": ["webhook", "webhook-deliveries"],
    "accounts:webhook-act": ["webhook", "webhook-secret", "webhook-deliveries"],
    "account_login": ["token-obtain", "token-refresh"],
    "account_logout": ["token-revoke"],
}  # fmt: skip
#: what only a browser has: its pages, forms in front of a log-in, second factors, a viewer's files
OF_BROWSERS = [
    "home", "healthz", "readyz", "metrics", "/favicon.ico", "netron", "/netron/*", "perfetto",
    "/perfetto/*", "agent*",
    "profiles:graph-document", "profiles:graph-model", "profiles:compare-graph",
    "api:*", "account_*", "mfa_*", "socialaccount_*", "openid_*", "/accounts/*",
    # people change their own account on its pages
    "accounts:profile", "accounts:token-revoke", "accounts:session-end*", "usersessions_list",
    "set_language", "accounts:password-check",
    # administration has no API: it is these pages and `manage.py`
    "admin:*", "/admin/*", "workers:check",
]  # fmt: skip


def names():
    return {route.name for route in web_routes()}


def test_each_route_of_a_page_has_its_like_in_the_api():
    missing = [
        name
        for name in sorted(names())
        if name not in SAME and not any(fnmatchcase(name, each) for each in OF_BROWSERS)
    ]
    assert missing == []


def test_what_is_told_to_be_alike_exists():
    known = names()
    assert set(SAME) <= known
    told = {f"api:{name}" for same in SAME.values() for name in same}
    assert told <= known
