"""List all pages of the site with the session that sees most of each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allauth.account.forms import default_token_generator
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.test import Client

from accounts.models import User
from agent.protocol.measurement import PassRecord
from profiles.models import ProfileUpload, Share
from profiles.services import build_attempt_profile
from profiles.sharing import create_share, revoke_share
from profiles.tests.flows import MLP
from profiles.tests.imports import make_import, make_upload
from profiles.tests.make import STANDARD, measurement_json, profiled_pass
from profiles.tests.pages import ended_attempt
from profiles.tests.passes import another_pass
from profiles.tests.static_plans import graph_of, plan_of
from tasks.lifecycle.cancel import cancel_task
from tasks.lifecycle.outcomes import fail_task
from tasks.models import SavedView, Task
from tasks.tests.make import (
    SLOWEST,
    make_task,
    make_user,
    make_waiting_task,
    make_worker,
    start_run,
)
from tasks.tests.scripts import make_script_task, make_script_worker
from testdata import good_profile
from webprofile.tests.browser.error_urls import ERRORS
from webprofile.tests.permission_site import PermissionSite
from webprofile.tests.permission_table import web_routes

#: title of the task whose result has all parts
MEASURED = "measured"
#: password of the users that `make_user` creates
PASSWORD = "correct horse battery"
#: sorted by how much they may see; the later ones only get pages that redirect the earlier ones
VIEWERS = ("administrator", "owner", "other user", "anonymous")
#: pages of third-party viewers and of the login at an identity provider
_THIRD_PARTY = re.compile(r"^/(netron|perfetto|accounts/oidc)/")
_EXTENDS = re.compile(r"\{% extends ")


@dataclass(frozen=True)
class Page:
    """A page. `session` is the value of the session cookie, empty without login."""

    address: str
    session: str = ""


@dataclass(frozen=True)
class FormResponse:
    """A page that is the response to a form of another page."""

    form_page: Page
    address: str
    fields: dict[str, str]


def pages_of(site: PermissionSite) -> list[Page]:
    """Return the page of each route, with the session of the first of VIEWERS who gets it."""
    pages = dict[str, Page]()
    for person in VIEWERS:
        for route in web_routes():
            query = site.queries.get(route.name, "")
            address = f"{route.address(site.values)}?{query}".rstrip("?")
            if address in pages or _THIRD_PARTY.match(address):
                continue
            if _is_page(site.request(person, "GET", address)):
                pages[address] = Page(address, site.credentials[person].session)
    return list(pages.values())


def states_of(site: PermissionSite) -> list[Page]:
    """Return pages with objects in other states, and error pages."""
    root = User.objects.get(email="root@example.com")
    session = site.credentials["administrator"].session
    measured = Task.objects.get(title=MEASURED)
    views = ("", "timeline/", "memory/", "scopes/", "compare/", "details/", "files/")
    addresses = [f"/tasks/{measured.pk}/{view}" for view in views]
    states = list(_tasks_in_each_state(root))
    addresses += [f"/tasks/{task.pk}/{view}" for task in states for view in ("", "details/")]
    addresses += [f"/profiles/opened/{upload.pk}/" for upload in _uploads_in_each_state(root)]
    addresses += [
        "/tasks/?status=failed", "/tasks/?since=never", "/tasks/?q=nothing+like+this",
        "/workers/?q=nothing+like+this", f"/tasks/new/?from={site.values['task_id']}",
        "/tasks/new/?kind=script", f"/tasks/{make_script_task(root, make_script_worker()).pk}/",
        "/no/such/page/", *ERRORS,
    ]  # fmt: skip
    plan = make_import(root, plan_of("lstm"), graph_of("lstm"), good_profile("lstm")).profile
    addresses.append(f"/profiles/{plan.pk}/?chunk=rnn")
    SavedView.objects.create(owner=root, name="failures", query="status=failed")
    addresses += _links_to(measured)
    newcomer = session_of(make_user("newcomer"))
    # a user without a password, who logs in at an identity provider
    visitor = make_user("visitor")
    visitor.set_unusable_password()
    visitor.save()
    lists = ("/tasks/", "/tasks/new/", "/workers/", "/profiles/", "/profiles/compare/")
    pages = [Page(address, session) for address in addresses]
    pages += [Page(address, newcomer) for address in lists]
    pages.append(Page("/accounts/password/set/", session_of(visitor)))
    strangers = (_new_password_address(root), "/accounts/3rdparty/login/error/")
    return [*pages, *(Page(address) for address in strangers)]


def form_responses_of(site: PermissionSite) -> list[FormResponse]:
    """Return pages that are responses to forms."""
    root = site.credentials["administrator"].session
    device = f"/admin/workers/worker/{site.box.pk}/"
    user = f"/admin/accounts/user/{site.values['*accounts_user*.pk']}/"
    login = Page("/accounts/login/")
    wrong = {"login": "alice@example.com", "password": "no"}
    owner = site.credentials["owner"].session
    sharing = f"/profiles/shares/?task={site.values['task_id']}"
    forms = [
        ("/tasks/", "/tasks/act/", {"act": "delete", "task": str(site.values["task_id"])}),
        ("/tasks/", "/tasks/views/", {"name": "", "query": "status=failed"}),
        ("/accounts/tokens/", "/accounts/tokens/",
         {"name": "script", "scopes": "read", "days": "30"}),
        ("/accounts/tokens/", "/accounts/tokens/", {"name": ""}),
        ("/accounts/webhooks/", "/accounts/webhooks/", {"url": "http://x/"}),
        ("/accounts/webhooks/", "/accounts/webhooks/",
         {"url": "https://hooks.example.org/", "events": "task.finished"}),
        (f"{device}change/", f"{device}act/revoke/", {}),
        (f"{device}change/", f"{device}act/allow_scripts/", {}),
        (f"{device}change/", f"{device}act/enrol/", {"confirm": "yes"}),
        (f"{user}change/", f"{user}act/grant_workers/", {}),
    ]  # fmt: skip
    return [
        *(FormResponse(Page(page, root), address, fields) for page, address, fields in forms),
        FormResponse(Page(sharing, owner), sharing, {"days": "30"}),
        FormResponse(Page(sharing, owner), sharing, {"days": "0"}),
        FormResponse(login, login.address, wrong),
        FormResponse(login, login.address, wrong | {"password": PASSWORD}),
        FormResponse(Page("/accounts/signup/"), "/accounts/signup/",
                     {"email": "x", "password1": "x"}),
    ]  # fmt: skip


def make_measured(owner: User) -> None:
    """Create a succeeded task with a clean pass and three profiled ones."""
    first = good_profile("lstm")
    clean = PassRecord(number=1, kind="clean", e2e_ms=(3.0, 3.1, 3.2) * 20, exit_code=0)
    names = ("profile.json", "profile-2.json", "profile-3.json")
    passes = (
        clean,
        *(profiled_pass(n, 3.9, profile=name) for n, name in enumerate(names, start=2)),
    )
    files = {
        "profile.json": first,
        "profile-2.json": another_pass(first, 1),
        "profile-3.json": another_pass(first, 2),
        "measurement.json": measurement_json(*passes, plan=STANDARD),
    }
    attempt = ended_attempt(files, owner, plan=STANDARD)
    build_attempt_profile(attempt)
    Task.objects.filter(pk=attempt.task_id).update(title=MEASURED)


def page_templates() -> set[str]:
    """Return the names of the templates that extend another one."""
    folder = Path(settings.BASE_DIR) / "templates"
    pages = (path for path in folder.rglob("*.html") if _EXTENDS.match(path.read_text("utf-8")))
    return {str(path.relative_to(folder)) for path in pages}


def _is_page(response: Any) -> bool:
    is_html = response.headers.get("Content-Type", "").startswith("text/html")
    is_whole = response.status_code == 200 and not response.streaming
    return is_html and is_whole and b"</html>" in response.content


def _tasks_in_each_state(owner: User) -> Iterator[Task]:
    yield make_task(owner)
    yield make_waiting_task(owner, title="waiting")
    busy = make_worker("busy")
    yield start_run(owner, worker=busy, passes_done=4, slowest=SLOWEST).task
    failed, cancelled = make_waiting_task(owner), make_waiting_task(owner)
    fail_task(failed, reason="worker_went_offline")
    cancel_task(cancelled)
    yield from (failed, cancelled)


def _uploads_in_each_state(owner: User) -> Iterator[ProfileUpload]:
    yield make_upload(owner, good_profile("tiny"))
    yield make_import(owner, b"{}", name="no profile")
    yield make_import(owner, MLP.read_bytes(), name="memory over time")


def _links_to(task: Task) -> Iterator[str]:
    """Share a task, and yield the pages of a link and of one that has ended."""
    for is_ended in (False, True):
        share, token = create_share(
            task.owner, kind=Share.Kind.TASK, ids=[task.pk], parts=Share.Part.values, days=1
        )
        if is_ended:
            revoke_share(share, by=task.owner)
        yield f"/s/{token}/"


def _new_password_address(user: User) -> str:
    """Return the path to set a new password, as the mail contains it."""
    key = default_token_generator.make_token(user)
    return f"/accounts/password/reset/key/{user_pk_to_url_str(user)}-{key}/"


def session_of(user: User) -> str:
    """Log in; return the value of the session cookie."""
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


#: lists the requests of a frame in another process, whose log Selenium cannot read
LIST_REQUESTS = """
    const done = arguments[0];
    const blocked = [];
    const record = (reports) => blocked.push(...reports);
    const observer = new ReportingObserver(record, { buffered: true });
    observer.observe();
    setTimeout(() => done([
        ...performance.getEntriesByType("resource").map((entry) => entry.name),
        ...blocked.map(({ body }) => `blocked: ${body.effectiveDirective} ${body.blockedURL}`),
    ]), 200);
"""


def allow(settings, directive: str, *sources: str) -> None:
    """Change a directive of the Content Security Policy."""
    directives = settings.CONTENT_SECURITY_POLICY["DIRECTIVES"] | {directive: list(sources)}
    settings.CONTENT_SECURITY_POLICY = {"DIRECTIVES": directives}


#: range of time that a chart shows, and the left and right edges of its grids, px
CHART_VIEW = """
const chart = echarts.getInstanceByDom(arguments[0]);
const model = chart.getModel();
const grids = model.queryComponents({mainType: "grid"});
const edges = ({x, width}) => [x, x + width];
return {
    range: model.getComponent("dataZoom").getValueRange(),
    edges: grids.map((grid) => edges(grid.coordinateSystem.getRect())),
};
"""


def turn_wheel(browser, element, *, ctrl: bool = False) -> float:
    """Turn the mouse wheel over the middle of an element.

    Return how far the page, or a box around the element, scrolled, px.
    """
    scrolled = (
        "let top = scrollY;"
        "for (let box = arguments[0]; box; box = box.parentElement) {"
        "  if (box !== document.documentElement) top += box.scrollTop;"
        "}"
        "return [top, devicePixelRatio];"
    )
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    box = browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", element)
    place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    before, ratio = browser.execute_script(scrolled, element)
    turned = {"type": "mouseWheel", **place, "deltaX": 0, "deltaY": -60, "modifiers": 2 * ctrl}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", turned)
    # a scroll ends a frame or two later
    browser.execute_async_script(
        "const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => done()), 300)"
    )
    after, ratio_after = browser.execute_script(scrolled, element)
    assert ratio_after == ratio
    return after - before
