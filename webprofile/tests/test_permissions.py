"""Tests of permissions: request each route as each of eight people; compare with permissions.toml.

The full product of routes, methods and people is marked `exhaustive`.
"""

import re
import uuid
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.urls import reverse

from tasks.models import Attempt, LogChunk
from webprofile.tests import permission_sockets as sockets
from webprofile.tests.permission_requests import OBJECT_REQUESTS, absent, hidden_objects
from webprofile.tests.permission_site import PEOPLE, rolled_back, secrets_for
from webprofile.tests.permission_table import TABLE, row_of, socket_routes, unused, web_routes

pytestmark = pytest.mark.django_db

ROUTES = web_routes()
SOCKETS = socket_routes()
BROWSER_SOCKETS = [route for route in SOCKETS if route.name != sockets.AGENTS]
RESULT_ROUTES = [route for route in ROUTES if route.parts[:1] in (["task_id"], ["profile_id"])]
#: errors of an allowed request
OK = {400, 409, 410, 413, 415, 422, 429}
METHOD_NOT_ALLOWED = 405
#: answers that must not reveal whether an object exists
REFUSALS = {"login", "401", "403", "404"}
#: pages without a form
READ_ONLY = (
    "tasks:detail", "tasks:status", "tasks:rows", "workers:list", "workers:rows",
    "workers:detail", "api:docs", "healthz", "readyz", "/favicon.ico",
)  # fmt: skip
#: routes that ignore the session, so cross-site requests gain nothing
NO_SESSION = {
    "agent-enrol", "agent-heartbeat", "api:token-obtain", "api:token-refresh", "api:token-revoke",
    "api:nothing",
}  # fmt: skip
#: POST and DELETE routes that the scope `read` allows: validate a task, revoke the token itself
FOR_ANY_SCRIPT = {"api:tasks-judge", "api:access-token-in-use"}
#: parts that differ between equal responses
_CHANGING = re.compile(
    r'(?:csrfmiddlewaretoken" value|csrf-token" content)="\w+"|Content-Length: \d+|Expires: [^\n]+'
)


class Answer(NamedTuple):
    """A response: its status, the word of the permission table, and its text with the headers."""

    status: int
    word: str
    text: str


@lru_cache(maxsize=128)
def ask(site, person, method, address, body=None):
    """Send a request as a person, once for all tests of a route; its changes are rolled back."""
    answer = site.request(person, method, address, body)
    return Answer(answer.status_code, word_of(answer, address), text_of(answer, address))


def word_of(answer, address):
    """Return the word of the permission table for a response."""
    status = answer.status_code
    if 300 <= status < 400:
        target = urlsplit(answer["Location"])
        login = (reverse("account_login"), reverse("admin:login"))
        return "login" if target.path in login and "next" in parse_qs(target.query) else "ok"
    if status == 401 and address.startswith("/api/v1/"):
        return "login"
    return "ok" if 200 <= status < 300 or status in OK else str(status)


def text_of(answer, address):
    """Return the text of a response with its headers, without its own address."""
    body = b"" if getattr(answer, "is_async", False) else answer.getvalue()
    text = body.decode(errors="replace")
    text += "".join(f"\n{name}: {value}" for name, value in sorted(answer.items()))
    if "messages" in answer.cookies:
        text += answer.cookies["messages"].value
    text = unquote(_CHANGING.sub("", text))
    return text.replace(unquote(address), "").replace(unquote(address.partition("?")[0]), "")


def leaks(text, person, route):
    """Return the secrets in a response that this person may not see."""
    return [secret for secret in secrets_for(person, route.name) if secret in text]


def address_of(site, route, absent=frozenset()):
    query = site.queries.get(route.name, "")
    return f"{route.address(site.values, absent)}?{query}".rstrip("?")


def existing_and_absent(site, route):
    """Yield pairs of addresses that only differ in whether the first object exists."""
    first, *others = route.parts or [""]
    for also in {frozenset(), frozenset(others)} if first else ():
        yield address_of(site, route, also), address_of(site, route, also | {first})


def mismatches(site, route, method, person):
    """Compare a response with the table; None if the route does not have the method."""
    answer = ask(site, person, method, address_of(site, route), site.forms.get(route.name))
    if answer.status == METHOD_NOT_ALLOWED:
        return None
    row = row_of(route, method)
    assert row, f"{method} {route} is in no row of the table"
    is_as_listed = answer.word == row.cells[person]
    problems = [] if is_as_listed else [f"answers {answer.word} ({answer.status})"]
    problems += [f"contains {secret}" for secret in leaks(answer.text, person, route)]
    return [f"{method} {person}: {problem}" for problem in problems]


def disclosures(site, route, method, person):
    """Return where refusals for a hidden object and for an absent one differ."""
    if row_of(route, method).cells[person] not in REFUSALS:
        return []
    form = site.forms.get(route.name)
    differences = []
    for pair in existing_and_absent(site, route):
        of_existing, of_absent = (ask(site, person, method, address, form) for address in pair)
        if of_existing != of_absent:
            differences.append(f"{method} {person}: tells that there is no {pair[1]}")
    return differences


def assert_page_accepts_only_get_head_and_post(site, route):
    address, form = address_of(site, route), site.forms.get(route.name)
    for person in PEOPLE:
        statuses = {
            method: site.request(person, method, address, form).status_code
            for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "EXPLODE")
        }
        assert set(statuses.values()) <= {METHOD_NOT_ALLOWED, 403, 404}, (person, statuses)
        read = ask(site, person, "GET", address, form).word
        head = word_of(site.request(person, "HEAD", address, form), address)
        assert head in (read, str(METHOD_NOT_ALLOWED)), (person, read, head)


@pytest.mark.sample
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_first_method_of_a_route_answers_each_person_as_in_the_table(permission_site, route):
    for method in route.methods:
        by_person = [mismatches(permission_site, route, method, person) for person in PEOPLE]
        wrong = [mismatch for problems in by_person for mismatch in problems or []]
        assert not wrong, "\n".join(wrong)
        if any(problems is not None for problems in by_person):
            return
    pytest.fail("the route has no method")


@pytest.mark.exhaustive
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_each_method_of_a_route_answers_each_person_as_in_the_table(permission_site, route):
    wrong, answer_count = [], 0
    for method in route.methods:
        for person in PEOPLE:
            problems = mismatches(permission_site, route, method, person)
            if problems is not None:
                answer_count += 1
                wrong += problems + disclosures(permission_site, route, method, person)
    assert answer_count, "the route has no method"
    assert not wrong, "\n".join(wrong)
    if route.is_page:
        assert_page_accepts_only_get_head_and_post(permission_site, route)


@pytest.mark.parametrize("name", READ_ONLY)
def test_page_without_a_form_refuses_post(permission_site, name):
    (route,) = (route for route in ROUTES if route.name == name)
    address = address_of(permission_site, route)
    assert permission_site.request("administrator", "GET", address).status_code in (200, 302)
    post = permission_site.request("administrator", "POST", address)
    assert post.status_code == METHOD_NOT_ALLOWED


def test_each_name_in_the_table_matches_a_route():
    assert unused(ROUTES + SOCKETS) == []


def test_table_has_all_people_and_explains_each_answer():
    assert tuple(TABLE.people) == PEOPLE
    assert {word for row in TABLE.rows for word in row.cells.values()} == set(TABLE.words)


def exchange(site, *args, **more):
    with rolled_back():
        return sockets.exchange(site, *args, **more)


@pytest.mark.parametrize("route", SOCKETS, ids=str)
def test_socket_answers_each_person_as_in_the_table(permission_site, route):
    row = row_of(route, "")
    assert row, f"{route} is in no row of the table"
    address = address_of(permission_site, route)
    for person in PEOPLE:
        answers = exchange(permission_site, person, address)
        word = sockets.word_of(answers, address)
        assert (person, word) == (person, row.cells[person])
        assert (person, leaks(str(answers), person, route)) == (person, [])
        pairs = existing_and_absent(permission_site, route) if word in REFUSALS else ()
        for _, absent_address in pairs:
            assert answers == exchange(permission_site, person, absent_address)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://testserver.evil.example", ""])
@pytest.mark.parametrize("route", BROWSER_SOCKETS, ids=str)
def test_page_of_another_site_cannot_open_a_socket(permission_site, route, origin):
    address = address_of(permission_site, route)
    closed = [exchange(permission_site, person, address, origin=origin) for person in PEOPLE]
    assert closed == [[1000]] * len(PEOPLE)


def test_agent_cannot_report_for_an_attempt_of_another_device(permission_site):
    live = permission_site.live
    attempt_rows = Attempt.objects.filter(pk=live.pk)

    def report(person, attempt):
        """Return the answers to the reports, and the rows after them."""
        with rolled_back():
            answers = sockets.exchange(
                permission_site, person, sockets.AGENTS, texts=sockets.reports(attempt)
            )
            heartbeat = {"sent_at": 0, "running": [str(attempt)]}
            address = "/api/agent/heartbeat/"
            status = permission_site.request(person, "POST", address, heartbeat).status_code
            reply = status, [answer.replace(str(attempt), "#") for answer in answers[1:]]
            logs = LogChunk.objects.filter(attempt=live).count()
            return reply, [*attempt_rows.values_list(), *attempt_rows.values("task__state"), logs]

    before = [*attempt_rows.values_list(), *attempt_rows.values("task__state"), 0]
    reply, rows = report("other agent", live.pk)
    assert rows == before
    assert report("other agent", uuid.uuid4()) == (reply, rows)
    _, changed = report("agent", live.pk)
    assert [was != now for was, now in zip(before, changed, strict=True)] == [True] * 3


@pytest.mark.parametrize("route", RESULT_ROUTES, ids=str)
def test_results_of_a_user_contain_nothing_of_others(permission_site, route):
    values = permission_site.others
    query = f"other={values['other_id']}" if route.name == "tasks:compare-choose" else ""
    address = f"{route.address(values)}?{query}".rstrip("?")
    answer = permission_site.request("other user", "GET", address)
    text = answer.getvalue().decode(errors="replace")  # some responses are streams
    assert leaks(text, "other user", route) == []
    assert word_of(answer, address) in ("ok", str(METHOD_NOT_ALLOWED))


@pytest.mark.parametrize("object_request", OBJECT_REQUESTS, ids=str)
def test_hidden_object_gets_the_same_answer_as_an_absent_one(permission_site, object_request):
    hidden = hidden_objects(permission_site)[object_request.name]
    names = "|".join(re.escape(str(value)) for value in (hidden, absent(hidden)))

    def answers_for(person):
        for value in (hidden, absent(hidden)):
            method, address, body = object_request.build(permission_site, person, value)
            answer = permission_site.request(person, method, address, body)
            text = re.sub(rf"(?<!\w)({names})(?!\w)", "#", text_of(answer, address))
            yield answer.status_code, text

    of_hidden, of_absent = answers_for("other user")
    assert of_hidden == of_absent
    of_visible, of_absent = answers_for(object_request.viewer)
    assert of_visible != of_absent


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.name.startswith("api:")], ids=str
)
def test_token_with_the_scope_read_reads_as_its_user_and_changes_nothing(permission_site, route):
    address = address_of(permission_site, route)
    for method in route.methods:
        cells = row_of(route, method).cells
        answer = permission_site.request("script", method, address)
        word = word_of(answer, address)
        if cells["anonymous"] != "login" or answer.status_code == METHOD_NOT_ALLOWED:
            continue
        allowed = {cells["other user"], "403"} if method == "GET" else {"403", "login"}
        assert word in allowed or route.name in FOR_ANY_SCRIPT, (method, word)


@pytest.mark.parametrize("route", [route for route in ROUTES if "POST" in route.methods], ids=str)
def test_page_of_another_site_cannot_change_data_with_the_session(permission_site, route):
    address = address_of(permission_site, route)
    for method in set(route.methods) - {"GET"}:
        answer = permission_site.request("administrator", method, address, strict=True)
        is_refused = answer.status_code in (403, METHOD_NOT_ALLOWED)
        assert is_refused or route.name in NO_SESSION, (method, answer.status_code)
