"""API client that checks each response against the OpenAPI schema."""

import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from django.test import Client
from django.urls import resolve
from rest_framework.test import APIClient

ROOT = "/api/v1/"
PROBLEM = "application/problem+json"
#: statuses for paths and methods that the schema does not have
_UNDOCUMENTED = (404, 405)


class DocumentedClient(APIClient):
    """Client that asserts that the schema has the status, media type and code of each response."""

    def request(self, **kwargs: Any) -> Any:
        answer = super().request(**kwargs)
        path = kwargs["PATH_INFO"]
        if path.startswith(ROOT):
            check_answer(kwargs["REQUEST_METHOD"].lower(), path, answer)
        return answer


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
    is_empty = not answer.streaming and not answer.content
    assert is_empty or kind in kinds, f"{place} {kind} is not among {[*kinds]}"
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
def schema() -> Any:
    return Client().get(f"{ROOT}schema/").json()
