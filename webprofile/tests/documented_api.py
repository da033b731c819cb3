"""API client that checks each response against the OpenAPI schema."""

import gzip
import json
import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import jsonschema_rs
from django.test import Client
from django.urls import resolve
from rest_framework.test import APIClient

ROOT = "/api/v1/"
PROBLEM = "application/problem+json"
#: statuses for paths and methods that the schema does not have
_UNDOCUMENTED = (404, 405)


class Documented(Client):
    """Client that asserts that each response of the API is as the schema says.

    Compared are status, media type, content (JSON) and code (errors).
    """

    def request(self, **kwargs: Any) -> Any:
        answer = super().request(**kwargs)
        path = kwargs["PATH_INFO"]
        is_provoked = answer.status_code == 500 and not self.raise_request_exception
        if path.startswith(ROOT) and not is_provoked:
            check_answer(kwargs["REQUEST_METHOD"].lower(), path, answer)
        return answer


class DocumentedClient(Documented, APIClient):
    """The client of REST framework with these assertions."""


def caller(user: Any) -> DocumentedClient:
    """Return a client that is logged in as this user."""
    client = DocumentedClient()
    client.force_login(user)
    return client


def bearer(secret: str) -> APIClient:
    """Return a client that authenticates with this token."""
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def expect_problem(answer: Any, status: int, code: str) -> dict[str, Any]:
    """Assert that a response is this error; return its body."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    return dict(answer.json())


def check_answer(method: str, path: str, answer: Any) -> None:
    operation = operation_of(method, path)
    if operation is None:
        assert answer.status_code in _UNDOCUMENTED, (method, path, answer.status_code)
        return
    documented = responses_of(schema(), operation).get(str(answer.status_code))
    place = f"{method} {path}: {answer.status_code}"
    assert documented is not None, f"{place} is not documented: {answer.content!r}"
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    kinds = documented.get("content", {})
    content = None if answer.streaming else answer.content
    assert content == b"" or kind in kinds, f"{place} {kind} is not among {[*kinds]}"
    if kind == "application/json" and content:
        if answer.headers.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        try:
            validator(json.dumps(kinds[kind].get("schema", {}))).validate(json.loads(content))
        except jsonschema_rs.ValidationError as error:
            raise AssertionError(f"{place} is not as documented: {error}") from None
    if kind == PROBLEM:
        code = answer.json()["code"]
        named = re.findall("`([^`]+)`", documented["description"])
        assert any(fnmatchcase(code, pattern) for pattern in named), (
            f"{place} {code} not in {named}"
        )


def responses_of(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    """Return {status: response}; a reference to a component is replaced by the component."""
    shared = document["components"]["responses"]
    return {
        status: shared[answer["$ref"].rpartition("/")[2]] if "$ref" in answer else answer
        for status, answer in operation["responses"].items()
    }


def operation_of(method: str, path: str) -> Any:
    """Return the operation of the schema, or None."""
    route = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", f"/{resolve(path).route}")
    return schema()["paths"].get(route, {}).get(method)


@cache
def validator(content: str) -> jsonschema_rs.Validator:
    """Return a validator for a schema, as JSON, that may refer to components."""
    components = schema()["components"]
    return jsonschema_rs.validator_for({"components": components, **json.loads(content)})


@cache
def schema() -> Any:
    return Client().get(f"{ROOT}schema/").json()
