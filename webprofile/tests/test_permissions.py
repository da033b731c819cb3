"""Tests of permissions: request each route as each of seven people; compare with permissions.toml.

The full product of routes, methods and people is marked `exhaustive`.
"""

import re
import uuid
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.urls import reverse

from tasks.models import Attempt, LogChunk
from webprofile.tests import permission_sockets as sockets
from webprofile.tests.permission_page import read_table
from webprofile.tests.permission_questions import QUESTIONS, absent, things
from webprofile.tests.permission_table import row_of, socket_routes, unused, web_routes
from webprofile.tests.permission_world import PEOPLE, rolled_back, secrets_for

pytestmark = pytest.mark.django_db

ROUTES = web_routes()
SOCKETS = socket_routes()
SOCKETS_OF_BROWSERS = [route for route in SOCKETS if route.name != sockets.AGENTS]
READ = read_table()
TABLE = READ.rows
OF_RESULTS = [route for route in ROUTES if route.parts[:1] in (["task_id"], ["profile_id"])]
#: through the gate: what comes then is about the request itself
OK = {400, 409, 410, 413, 415, 422, 429}
SAYS_NOTHING = 405
#: for these whether a thing is there must make no difference
SHUT = {"login", "401", "403", "404"}
#: they have no form of their own
READ_ONLY = (
    "tasks:detail", "tasks:status", "tasks:rows", "workers:list", "workers:rows",
    "workers:detail", "api:docs", "healthz", "readyz", "/favicon.ico",
)  # fmt: skip
#: look at no session, so that another site's page gains nothing by them
NO_SESSION = {
    "agent-enrol", "agent-heartbeat", "api:token-obtain", "api:token-refresh", "api:token-revoke",
    "api:nothing",
}  # fmt: skip
#: a script that may only read may ask whether a task could be had, and end its own token
FOR_ANY_SCRIPT = {"api:tasks-judge", "api:access-token-in-use"}
#: differs from one answer to the next
_CHANGING = re.compile(
    r'(?:csrfmiddlewaretoken" value|csrf-token" content)="\w+"|Content-Length: \d+|Expires: [^\n]+'
)


def word_of(answer, address):
    """The word of the table for an answer."""
    status = answer.status_code
    if 300 <= status < 400:
        target = urlsplit(answer["Location"])
        login = (reverse("account_login"), reverse("admin:login"))
        return "login" if target.path in login and "next" in parse_qs(target.query) else "ok"
    if status == 401 and address.startswith("/api/v1/"):
        return "login"
    return "ok" if 200 <= status < 300 or status in OK else str(status)


def text_of(answer, address):
    """What the answer tells beyond what was asked."""
    body = b"" if getattr(answer, "is_async", False) else answer.getvalue()
    text = body.decode(errors="replace")
    text += "".join(f"\n{name}: {value}" for name, value in sorted(answer.items()))
    if "messages" in answer.cookies:
        text += answer.cookies["messages"].value
    text = unquote(_CHANGING.sub("", text))
    return text.replace(unquote(address), "").replace(unquote(address.partition("?")[0]), "")


def address_of(world, route, absent=frozenset()):
    query = world.queries.get(route.name, "")
    return f"{route.address(world.values, absent)}?{query}".rstrip("?")


def of_nothing(world, route):
    """Pairs of addresses: of a thing and of one that does not exist, otherwise the same."""
    thing, *others = route.parts or [""]
    for also in {frozenset(), frozenset(others)} if thing else ():
        yield address_of(world, route, also), address_of(world, route, also | {thing})


def faults(world, route, method, person):
    """What is wrong with the answer to this person, in words; None if there is no such method."""
    address = address_of(world, route)
    answer = world.ask(person, method, address, world.forms.get(route.name))
    if answer.status_code == SAYS_NOTHING:
        return None
    row = row_of(route, method, TABLE)
    assert row, f"{method} {route} is in no row of the table"
    word = word_of(answer, address)
    problems = [f"answers {word} ({answer.status_code})"] if word != row.cells[person] else []
    text = text_of(answer, address)
    problems += [
        f"tells of {secret}" for secret in secrets_for(person, route.name) if secret in text
    ]
    return [f"{method} {person}: {fault}" for fault in problems]


def betrayals(world, route, method, person):
    """Where the answer about a thing that this person may not see differs from that about none."""
    form = world.forms.get(route.name)
    if row_of(route, method, TABLE).cells[person] not in SHUT:
        return []
    differences = []
    for pair in of_nothing(world, route):
        answers = [world.ask(person, method, address, form) for address in pair]
        texts = [text_of(*arguments) for arguments in zip(answers, pair, strict=True)]
        if answers[0].status_code != answers[1].status_code or texts[0] != texts[1]:
            differences.append(f"{method} {person}: tells that there is no {pair[1]}")
    return differences


@pytest.mark.sample
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_route_answers_each_person_as_the_table_says(world, route):
    """One request for each person, with the first method that the route has."""
    for method in route.methods:
        faults_by_person = [faults(world, route, method, person) for person in PEOPLE]
        wrong = [fault for person_faults in faults_by_person for fault in person_faults or []]
        assert not wrong, "\n".join(wrong)
        if any(person_faults is not None for person_faults in faults_by_person):
            return
    pytest.fail("no method says anything")


@pytest.mark.exhaustive
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_every_method_of_a_route_answers_each_person_as_the_table_says(world, route):
    wrong, answer_count = [], 0
    for method in route.methods:
        for person in PEOPLE:
            person_faults = faults(world, route, method, person)
            if person_faults is not None:
                answer_count += 1
                wrong += person_faults + betrayals(world, route, method, person)
    assert answer_count, "no method says anything"
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.parametrize("route", [route for route in ROUTES if route.is_page], ids=str)
def test_a_page_answers_no_method_but_those_of_pages(world, route):
    address, form = address_of(world, route), world.forms.get(route.name)
    for person in PEOPLE:
        statuses = {
            method: world.ask(person, method, address, form).status_code
            for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "EXPLODE")
        }
        assert set(statuses.values()) <= {SAYS_NOTHING, 403, 404}, (person, statuses)
        read, head = (
            word_of(world.ask(person, m, address, form), address) for m in ("GET", "HEAD")
        )
        assert head in (read, str(SAYS_NOTHING)), (person, read, head)


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_page_without_a_form_takes_none(world, name):
    (route,) = (route for route in ROUTES if route.name == name)
    address = address_of(world, route)
    assert world.ask("administrator", "GET", address).status_code in (200, 302)
    assert world.ask("administrator", "POST", address).status_code == SAYS_NOTHING


def test_every_name_in_the_table_is_that_of_a_route():
    assert unused(TABLE, ROUTES + SOCKETS) == []


def test_the_table_knows_the_people_who_ask_and_explains_every_answer():
    assert tuple(READ.people) == PEOPLE
    assert {word for row in TABLE for word in row.cells.values()} == set(READ.words)


def exchange(world, *args, **more):
    with rolled_back():
        return sockets.exchange(world, *args, **more)


@pytest.mark.parametrize("route", SOCKETS, ids=str)
def test_a_socket_answers_each_person_as_the_table_says(world, route):
    row = row_of(route, "", TABLE)
    assert row, f"{route} is in no row of the table"
    address = address_of(world, route)
    for person in PEOPLE:
        answers = exchange(world, person, address)
        word = sockets.word_of(answers, address)
        assert (person, word) == (person, row.cells[person])
        leaks = [secret for secret in secrets_for(person, route.name) if secret in str(answers)]
        assert (person, leaks) == (person, [])
        for _, nothing in of_nothing(world, route) if word in SHUT else ():
            assert answers == exchange(world, person, nothing)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://testserver.evil.example", ""])
@pytest.mark.parametrize("route", SOCKETS_OF_BROWSERS, ids=str)
def test_another_sites_page_gets_no_socket_of_anybody(world, route, origin):
    address = address_of(world, route)
    closed = [exchange(world, person, address, origin=origin) for person in PEOPLE]
    assert closed == [[1000]] * len(PEOPLE)


def test_reports_of_anothers_attempt_are_answered_as_of_none_and_change_nothing(
    world,
):
    attempt_rows = Attempt.objects.filter(pk=world.live.pk)

    def after(person, attempt):
        """What is answered, and the rows then."""
        with rolled_back():
            answers = sockets.exchange(world, person, sockets.AGENTS, says=sockets.reports(attempt))
            beat = {"sent_at": 0, "running": [str(attempt)]}
            status = world.ask(person, "POST", "/api/agent/heartbeat/", beat).status_code
            reply = status, [answer.replace(str(attempt), "#") for answer in answers[1:]]
            logs = LogChunk.objects.filter(attempt=world.live).count()
            return reply, [*attempt_rows.values_list(), *attempt_rows.values("task__state"), logs]

    before = [*attempt_rows.values_list(), *attempt_rows.values("task__state"), 0]
    reply, rows = after("other agent", world.live.pk)
    assert rows == before
    assert after("other agent", uuid.uuid4()) == (reply, rows)
    _, changed = after("agent", world.live.pk)
    assert [was != now for was, now in zip(before, changed, strict=True)] == [True] * 3


@pytest.mark.parametrize("route", OF_RESULTS, ids=str)
def test_a_users_own_results_tell_nothing_of_others(world, route):
    query = f"other={world.others['other_id']}" if route.name == "tasks:compare-choose" else ""
    address = f"{route.address(world.others)}?{query}".rstrip("?")
    answer = world.ask("other user", "GET", address)
    text = answer.getvalue().decode(errors="replace")  # some answers are streams
    leaks = [secret for secret in secrets_for("other user", route.name) if secret in text]
    assert leaks == []
    assert word_of(answer, address) in ("ok", str(SAYS_NOTHING))


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_hidden_thing_is_answered_as_one_that_does_not_exist(world, question):
    hidden = things(world)[question.thing]

    named = "|".join(re.escape(str(value)) for value in (hidden, absent(hidden)))

    def answers_for(person):
        for value in (hidden, absent(hidden)):
            method, address, body = question.request(world, person, value)
            answer = world.ask(person, method, address, body)
            text = re.sub(rf"(?<!\w)({named})(?!\w)", "#", text_of(answer, address))
            yield answer.status_code, text

    of_hidden, of_absent = answers_for("other user")
    assert of_hidden == of_absent
    of_seen, of_absent = answers_for(question.sees)
    assert of_seen != of_absent


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.name.startswith("api:")], ids=str
)
def test_a_script_with_the_right_to_read_reads_as_a_user_and_changes_nothing(world, route):
    address = address_of(world, route)
    for method in route.methods:
        cells = row_of(route, method, TABLE).cells
        answer = world.ask("script", method, address)
        word = word_of(answer, address)
        if cells["anonymous"] != "login" or answer.status_code == SAYS_NOTHING:
            continue
        allowed = {cells["other user"], "403"} if method == "GET" else {"403", "login"}
        assert word in allowed or route.name in FOR_ANY_SCRIPT, (method, word)


@pytest.mark.parametrize("route", [route for route in ROUTES if "POST" in route.methods], ids=str)
def test_another_sites_page_changes_nothing_with_the_session_of_its_reader(world, route):
    address = address_of(world, route)
    for method in set(route.methods) - {"GET"}:
        answer = world.ask("administrator", method, address, strict=True)
        assert answer.status_code == 403 or route.name in NO_SESSION, (method, answer.status_code)
