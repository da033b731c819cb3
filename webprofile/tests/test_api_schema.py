"""Tests of the OpenAPI schema: completeness, and the scopes of tokens."""

import contextlib
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

import pytest
from django.core.management import call_command
from openapi_spec_validator import OpenAPIV31SpecValidator
from rest_framework.test import APIClient

from accounts.models import AccessToken
from accounts.tokens.access import issue_token
from tasks.tests.make import make_user
from webprofile.api.views import SchemaView
from webprofile.messages.errors import WORDINGS
from webprofile.tests.documented_api import bearer, responses_of

ALL_SCOPES = AccessToken.Scope.values
SAFE = {"get"}
#: POST requests that change nothing
READING = {("post", "/api/v1/tasks/judge/")}
#: settings of the account, which access tokens may not use
WITHOUT_TOKENS = (
    "/api/v1/access-tokens/",
    "/api/v1/me/webhooks/",
    "/api/v1/me/webhooks/{webhook_id}/",
    "/api/v1/me/webhooks/{webhook_id}/deliveries/",
    "/api/v1/me/webhooks/{webhook_id}/secret/",
)
#: about the token itself, for any scope
ANY_SCOPE = {("delete", "/api/v1/access-tokens/current/")}
PUBLIC = ("/api/v1/auth/", "/api/v1/options/", "/api/v1/problems/")
SCOPE = re.compile(r"access token needs the scope `(\w+)`")


@pytest.fixture(scope="module")
def generated():
    """The schema, and what its generator prints to stderr."""
    schema, messages = io.StringIO(), io.StringIO()
    options = {"validate": True, "fail_on_warn": True, "format": "openapi-json"}
    with contextlib.redirect_stderr(messages):
        call_command("spectacular", stdout=schema, **options)
    return json.loads(schema.getvalue()), messages.getvalue()


@pytest.fixture(scope="module")
def schema(generated):
    return generated[0]


def operations_of(schema):
    return [
        (method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


def properties_of(schema, path):
    """Yield (path, property) of all objects at any depth."""
    for name, prop in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", prop
        yield from properties_of(prop, f"{path}.{name}")
    inner = [schema[key] for key in ("items", "additionalProperties") if schema.get(key)]
    inner += [subschema for key in ("oneOf", "anyOf", "allOf") for subschema in schema.get(key, [])]
    for subschema in inner:
        if isinstance(subschema, dict):
            yield from properties_of(subschema, path)


def codes_in(text):
    return re.findall("`([^`]+)`", text)


def test_schema_is_generated_without_a_warning(generated):
    _, stderr = generated
    assert "Warning" not in stderr
    assert "Error" not in stderr


def test_schema_is_valid_openapi(schema):
    """Including its defaults and examples, which generated clients send."""
    assert [str(error) for error in OpenAPIV31SpecValidator(schema).iter_errors()] == []


def test_the_page_of_the_api_can_replace_all_references(schema):
    """static/js/api_docs.js expects local references, none recursive, and one part in `allOf`."""

    def check(part, within=()):
        if isinstance(part, list):
            for item in part:
                check(item, within)
        elif isinstance(part, dict):
            assert len(part.get("allOf", [])) <= 1
            if isinstance(reference := part.get("$ref"), str):
                kind, _, name = reference.removeprefix("#/components/").partition("/")
                assert reference not in within
                check(schema["components"][kind][name], (*within, reference))
            for value in part.values():
                check(value, within)

    check(schema["paths"])


def test_each_field_parameter_and_response_has_a_description(schema):
    components = schema["components"]["schemas"]
    bare = [
        where
        for name, component in components.items()
        for where, prop in properties_of(component, name)
        if not prop.get("description")
    ]
    bare += [
        name
        for name, component in components.items()
        if "enum" not in component and not component["description"]
    ]
    for method, path, operation in operations_of(schema):
        place = f"{method} {path}"
        parts = [operation, *operation.get("parameters", [])]
        parts += responses_of(schema, operation).values()
        bare += [place for part in parts if not part.get("description")]
        bare += [] if operation.get("summary") else [place]
    assert bare == []


def test_quantities_have_a_unit(schema):
    # a number named after a quantity has its unit in its name or in its description
    units = re.compile(r"_(s|ms|us|bytes)$")
    quantity = re.compile(r"(^|_)(time|duration|size|age|latency|memory|timeout|wait|bandwidth)$")
    described_unit = re.compile(r"\b(bytes|s|ms|µs|of 1|0 to 1)\b|%")
    silent = [
        where
        for name, component in schema["components"]["schemas"].items()
        for where, prop in properties_of(component, name)
        if prop.get("type") in ("number", "integer", ["number", "null"], ["integer", "null"])
        and quantity.search(where.rpartition(".")[2])
        and not units.search(where)
        and not described_unit.search(prop["description"])
    ]
    assert silent == []


def test_each_operation_documents_its_error_codes(schema):
    for method, path, operation in operations_of(schema):
        place = f"{method} {path}"
        responses = responses_of(schema, operation)
        is_public = operation.get("security", [{}]) in ([], [{}])
        expected = {"400", "404", "406", "429"} | (set() if is_public else {"401", "403"})
        if "requestBody" in operation:
            expected |= {"413", "415", "422"}
        assert expected <= responses.keys(), place
        for status, response in responses.items():
            if status < "400":
                continue
            shape = response["content"]["application/problem+json"]["schema"]
            assert shape == {"$ref": "#/components/schemas/Problem"}, place
            codes = codes_in(response["description"])
            assert codes, place
            for code in codes:
                assert any(fnmatchcase(known, code) for known in WORDINGS), f"{place}: {code}"


@pytest.mark.django_db
def test_token_permits_what_the_documented_scope_says(schema):
    root = make_user("root", is_staff=True, is_superuser=True)
    for method, path, operation in operations_of(schema):
        place = f"{method} {path}"
        match = SCOPE.search(operation["description"])
        if path.startswith(PUBLIC):
            assert match is None, place
            continue
        if path in WITHOUT_TOKENS:
            assert match is None, place
            assert code_of(root, ALL_SCOPES, method, path) == "token_not_here", place
            continue
        is_reading = method in SAFE or (method, path) in READING | ANY_SCOPE
        expected_scope = "read" if is_reading else "write"
        assert match is not None, place
        assert match[1] == expected_scope, place
        others = [scope for scope in ALL_SCOPES if scope != expected_scope]
        assert code_of(root, others, method, path) == "scope_missing", place
        allowed = code_of(root, [expected_scope], method, path)
        assert allowed not in ("scope_missing", "token_not_here"), place


@pytest.mark.django_db
def test_undocumented_methods_return_405(schema):
    client = APIClient()
    client.force_login(make_user("root", is_staff=True, is_superuser=True))
    for path, operations in schema["paths"].items():
        for method in {"get", "post", "put", "patch", "delete"} - operations.keys():
            response = call_operation(client, method, path)
            place = f"{method} {path}: {response.status_code}"
            assert (response.status_code, response.json()["code"]) == (405, "method_not_allowed"), (
                place
            )
            assert {name.upper() for name in operations} <= set(response["Allow"].split(", ")), (
                place
            )


def call_operation(client, method, path):
    address = re.sub(r"{(\w+_id|row|number)}", "987654321", path)
    return getattr(client, method)(re.sub(r"{\w+}", "nothing", address), {}, format="json")


def code_of(user, scopes, method, path):
    """Return the error code of a request with a new token, or None."""
    AccessToken.objects.all().delete()  # the number of tokens is limited
    secret = issue_token(user, name="script", scopes=scopes, days=1)[1]
    response = call_operation(bearer(secret), method, path)
    is_problem = response.headers.get("Content-Type") == "application/problem+json"
    return response.json()["code"] if is_problem else None


@pytest.mark.django_db(transaction=True)
def test_simultaneous_first_requests_generate_the_schema_once(monkeypatch):
    monkeypatch.setattr(SchemaView, "_schema", None)
    original, generated = SchemaView.generator_class.get_schema, []

    def get_schema(self, **options):
        generated.append(1)
        return original(self, **options)

    monkeypatch.setattr(SchemaView.generator_class, "get_schema", get_schema)
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: APIClient().get("/api/v1/schema/"), range(3)))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len(generated) == 1
