"""Fuzz the API with requests from its schema, valid and invalid ones.

The requests are sent alternately by a user with a JWT and by an administrator with an access token.
Most ids and names in them exist. Changes are rolled back. They are sent on the parts of production
only: `make test-production ARGS=webprofile/tests/test_api_fuzz.py`.

By default a fixed sample of the thousands of boundary cases is sent. `API_FUZZ=all` in the
environment sends all of them, and `API_FUZZ=N` also sends N times as many requests with other
values, which takes minutes.
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
from django.db import transaction
from drf_spectacular.generators import EndpointEnumerator
from hypothesis import HealthCheck, settings
from schemathesis.core.failures import FailureGroup, as_reported_failure
from schemathesis.generation import GenerationMode
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis import builder
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from accounts.models import User
from accounts.tokens.access import issue_token
from accounts.tokens.refresh import issue_token_pair
from tasks.tests.make import make_task, make_worker
from webprofile.tests.documented_api import responses_of
from webprofile.tests.permission_site import rolled_back

pytestmark = [pytest.mark.django_db, pytest.mark.production]

API_FUZZ = os.environ.get("API_FUZZ", "")
SEND_ALL = bool(API_FUZZ)
TIMES = int(API_FUZZ) if API_FUZZ.isdigit() else 1
#: number of random requests for each operation
EXAMPLES = 3
#: the first boundary cases of each operation are sent, then one of EVERY
FIRST = 6
EVERY = 20
#: fields of bodies with lists of ids, and with one id
LISTS = {"tasks": "task_id"}
KEYS = {"worker": "worker_id", "copied_from": "task_id", "from_file": "file_id"}
#: marks of a test whose operation schemathesis cannot test as a whole
PROBLEMS = (
    builder.InvalidHeadersExampleMark,
    builder.MissingPathParameters,
    builder.UnserializablePayloadMark,
)
#: method and path of each operation. Generating the schema takes a second in each process
PLACES = [
    f"{method} {path}"
    for path, _, method, _ in EndpointEnumerator().get_api_endpoints()
    if path != "/api/v1/schema/"
]

django_app = get_wsgi_application()


def app(environ, start_response):
    """The WSGI application, with an address of the client as set by a server."""
    return django_app(environ | {"REMOTE_ADDR": "127.0.0.1"}, start_response)


_request_counts: Counter[str] = Counter()
_boundary_counts: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _quiet():
    """Do not log the thousands of refusals, which takes a third of the time."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def operations(permission_site):
    """The operations of the schema, by method and path."""
    # the requests keep the connection
    with rolled_back():
        schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", app)
        rejection = schema.config.checks.negative_data_rejection
        # invalid data may also be too long
        rejection.expected_statuses = [*(rejection.expected_statuses or ()), "413"]
        operations = {result.ok().label: result.ok() for result in schema.get_all_operations()}
        assert set(operations) == set(PLACES)
        yield operations


@pytest.fixture(scope="module")
def existing(permission_site):
    """Ids and names of existing objects, by parameter."""
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


@pytest.fixture
def tokens(db, existing):
    """A token of each person, for all requests of a test."""
    alice, root = (User.objects.get(email=f"{name}@example.com") for name in ("alice", "root"))
    return {
        "alice": issue_token_pair(alice).access,
        "root": issue_token(root, name="fuzz", scopes=["read", "write", "admin"], days=1)[1],
    }


def person_of(place):
    """Return a user or an administrator, alternately."""
    _request_counts[place] += 1
    return "alice" if _request_counts[place] % 2 == 0 else "root"


def is_sent(case, place):
    if case.meta.phase.name.value != "coverage" or SEND_ALL:
        return True
    _boundary_counts[place] += 1
    return _boundary_counts[place] <= FIRST or _boundary_counts[place] % EVERY == 0


def use_existing(case, place, existing):
    """Put existing ids and names into three of four requests."""
    if _request_counts[place] % 4 == 3:
        return
    modes = {where.name: info.mode for where, info in case.meta.components.items()}

    def fits(where):
        return modes.get(where, GenerationMode.POSITIVE) is GenerationMode.POSITIVE

    if case.path_parameters and fits("PATH"):
        parts = case.path.strip("/").split("/")
        before = dict(zip(parts[1:], parts, strict=False))
        for name in case.path_parameters:
            is_name = name == "name"
            value = existing["names"].get(before["{name}"]) if is_name else existing[name]
            case.path_parameters[name] = value
        if "task_id" in case.path_parameters and _request_counts[place] % 4 == 1:
            case.path_parameters["task_id"] = existing["initiated"]
    if isinstance(case.body, dict) and fits("BODY"):
        _use_existing_in_body(case.body, existing)
    if case.query and "p" in case.query and fits("QUERY"):
        case.query["p"] = [str(existing["profile_id"])] * 2


def _use_existing_in_body(body, existing):
    for key, value in body.items():
        if key in LISTS and isinstance(value, list):
            body[key] = [existing[LISTS[key]] for number in value if isinstance(number, int)]
        elif key in KEYS and isinstance(value, int):
            body[key] = existing[KEYS[key]]
        elif key == "runtime_version":
            body[key] = "1.13.0"
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _use_existing_in_body(item, existing)


def has_a_documented_code(context, response, case):
    """Check that the code of an error is documented for the operation."""
    if response.headers.get("content-type", [""])[0] != "application/problem+json":
        return
    responses = responses_of(case.operation.schema.raw_schema, case.operation.definition.raw)
    if str(response.status_code) not in responses:
        return  # another check reports it
    code = response.json()["code"]
    named = re.findall("`([^`]+)`", responses[str(response.status_code)]["description"])
    assert any(fnmatchcase(code, pattern) for pattern in named), f"{code} is none of {named}"


@pytest.mark.parametrize("place", PLACES)
def test_generated_requests_get_documented_responses(operations, place, existing, tokens):
    """`schema.parametrize()` would generate all requests when the tests are collected."""
    operation = operations[place]
    test = build_operation_test(
        config=operation.schema.config,
        operation=operation,
        test_func=send,
        given_kwargs={},
        feedback=FeedbackSources(
            constants_value_source=make_constants_value_source(operation.schema)
        ),
    )
    for problem in PROBLEMS:
        assert problem.get(test) is None
    try:
        test(place=place, existing=existing, tokens=tokens)
    except FailureGroup as error:
        raise as_reported_failure(error) from None


@settings(
    max_examples=EXAMPLES * TIMES,
    deadline=None,
    derandomize=TIMES == 1,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def send(case, place, existing, tokens):
    if not is_sent(case, place):
        return
    person = person_of(place)
    use_existing(case, place, existing)
    # the schema describes neither cursors nor which devices are online
    excluded = [positive_data_acceptance]
    if case.path == "/api/v1/tasks/judge/":  # returns the errors of a request with status 200
        excluded.append(negative_data_rejection)
    cache.clear()  # resets the rate limits
    with transaction.atomic():
        case.call_and_validate(
            # schemathesis does not decompress gzip of a WSGI application
            headers={
                "Authorization": f"Bearer {tokens[person]}",
                "Accept-Encoding": "identity",
            },
            excluded_checks=excluded,
            additional_checks=[has_a_documented_code],
        )
        transaction.set_rollback(True)
