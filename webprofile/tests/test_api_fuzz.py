"""Fuzz the API with requests from its schema, valid and invalid ones.

The requests are sent alternately by a user with a JWT and by an administrator with an access token.
Most ids and names in them exist. Changes are rolled back. By default a fixed sample of the
thousands of boundary cases is sent. `API_FUZZ=all` in the environment sends all of them, and
`API_FUZZ=N` also sends N times as many requests with other values, which takes minutes.
"""

import logging
import os
import re
from collections import Counter
from fnmatch import fnmatchcase

import pytest
import schemathesis
from django.core.cache import cache
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from accounts.models import User
from accounts.tokens.access import issue_token
from accounts.tokens.refresh import issue_token_pair
from tasks.tests.make import make_task, make_worker
from webprofile.tests.permission_site import rolled_back

pytestmark = [pytest.mark.django_db, pytest.mark.database, pytest.mark.exhaustive]

ASKED = os.environ.get("API_FUZZ", "")
SENDS_ALL = bool(ASKED)
TIMES = int(ASKED) if ASKED.isdigit() else 1
#: of requests that are no borders, for each operation
EXAMPLES = 3
#: borders that are tried at each operation before the sampling begins
FIRST = 6
EVERY = 20
#: of several rows by their numbers, in bodies
LISTS = {"tasks": "task_id"}
KEYS = {"worker": "worker_id", "copied_from": "task_id", "from_file": "file_id"}

django_app = get_wsgi_application()


def app(environ, start_response):
    """As a server calls it, which knows where a request comes from."""
    return django_app(environ | {"REMOTE_ADDR": "127.0.0.1"}, start_response)


schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", app)
rejection = schema.config.checks.negative_data_rejection
#: what is wrong may be too long besides
rejection.expected_statuses = [*(rejection.expected_statuses or ()), "413"]
_turns: Counter[str] = Counter()
_borders: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _quiet():
    """Thousands of refusals are meant; writing them down takes a third of the time."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def things(permission_site):
    """Numbers and names of what exists, by the part of an address that they stand for."""
    worker = make_worker("openbox")
    initiated = make_task(owner=User.objects.get(email="alice@example.com"), worker=worker)
    names = {
        "workers": worker.name,
        "artifacts": "bin_io_dump.zip",
        "export": "csv",
    }
    return permission_site.values | {
        "worker_id": worker.pk,
        "initiated": initiated.pk,
        "names": names,
    }


def person_of(place):
    """A user or an administrator, by turns."""
    _turns[place] += 1
    return "alice" if _turns[place] % 2 == 0 else "root"


def credentials(name):
    cache.clear()  # limits of log-ins are no faults
    user = User.objects.get(email=f"{name}@example.com")
    if name == "alice":
        return issue_token_pair(user).access
    return issue_token(user, name="fuzz", scopes=["read", "write", "admin"], days=1)[1]


def is_sent(case):
    if case.meta.phase.name.value != "coverage" or SENDS_ALL:
        return True
    place = f"{case.method} {case.path}"
    _borders[place] += 1
    return _borders[place] <= FIRST or _borders[place] % EVERY == 0


def aim(case, things):
    """Put what exists where the schema asks for a number or a name; three requests of four."""
    place = f"{case.method} {case.path}"
    if _turns[place] % 4 == 3:
        return
    modes = {where.name: info.mode for where, info in case.meta.components.items()}

    def fits(where):
        return modes.get(where, GenerationMode.POSITIVE) is GenerationMode.POSITIVE

    if case.path_parameters and fits("PATH"):
        parts = case.path.strip("/").split("/")
        before = dict(zip(parts[1:], parts, strict=False))
        for name in case.path_parameters:
            known = things["names"].get(before[f"{{{name}}}"]) if name == "name" else things[name]
            case.path_parameters[name] = known
        if "task_id" in case.path_parameters and _turns[place] % 4 == 1:
            case.path_parameters["task_id"] = things["initiated"]
    if isinstance(case.body, dict) and fits("BODY"):
        _aim_body(case.body, things)
    if case.query and "p" in case.query and fits("QUERY"):
        case.query["p"] = [str(things["profile_id"])] * 2


def _aim_body(body, things):
    for key, value in body.items():
        if key in LISTS and isinstance(value, list):
            body[key] = [things[LISTS[key]] for number in value if isinstance(number, int)]
        elif key in KEYS and isinstance(value, int):
            body[key] = things[KEYS[key]]
        elif key == "runtime_version":
            body[key] = "1.13.0"
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _aim_body(item, things)


def has_a_documented_code(context, response, case):
    """An error has a code, and it is one of those that the operation names."""
    if response.headers.get("content-type", [""])[0] != "application/problem+json":
        return
    answers = case.operation.definition.raw["responses"]
    if str(response.status_code) not in answers:
        return  # another check's finding
    code = response.json()["code"]
    named = re.findall("`([^`]+)`", answers[str(response.status_code)]["description"])
    assert any(fnmatchcase(code, pattern) for pattern in named), f"{code} is none of {named}"


@schema.parametrize()
@settings(
    max_examples=EXAMPLES * TIMES,
    deadline=None,
    derandomize=TIMES == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_ends_in_a_fault_or_in_an_answer_that_is_not_documented(case, things):
    if not is_sent(case):
        return
    person = person_of(f"{case.method} {case.path}")
    aim(case, things)
    # what is a cursor, and whether a device is online, no schema can say
    excluded = [positive_data_acceptance]
    if case.path == "/api/v1/tasks/judge/":  # what is wrong with a request is its answer
        excluded.append(negative_data_rejection)
    with rolled_back():
        case.call_and_validate(
            # schemathesis does not unpack what an application answers in gzip
            headers={
                "Authorization": f"Bearer {credentials(person)}",
                "Accept-Encoding": "identity",
            },
            excluded_checks=excluded,
            additional_checks=[has_a_documented_code],
        )
