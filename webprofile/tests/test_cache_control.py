"""What browsers and proxies may store: nothing private, but static files."""

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse

from tasks.tests.make import make_user
from webprofile.middleware import CacheControlMiddleware

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "address",
    [
        "/tasks/", "/tasks/999/", "/workers/", "/profiles/opened/",
        "/accounts/profile/", "/accounts/sessions/", "/accounts/tokens/",
        "/accounts/password/change/", "/api/v1/me/", "/api/v1/tasks/", "/api/v1/tasks/999/",
        "/api/v1/schema/", "/nothing/", "/",
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_member", [True, False])
def test_no_private_response_is_stored(address, is_member):
    client = Client()
    if is_member:
        client.force_login(make_user())
    directives = client.get(address)["Cache-Control"].split(", ")
    assert {"private", "no-store"} <= set(directives)


def test_the_form_of_a_new_task_is_kept_only_for_the_browsers_back_button():
    client = Client()
    client.force_login(make_user())
    directives = client.get("/tasks/new/")["Cache-Control"].split(", ")
    assert sorted(directives) == ["no-cache", "private"]


def test_static_files_are_stored():
    response = Client().get("/static/js/socket.js")
    assert b"".join(response.streaming_content)
    response.close()
    assert "no-store" not in response["Cache-Control"]


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ({}, "private, no-store"),
        ({"ETag": '"1"'}, "private, no-cache"),
        ({"Last-Modified": "Sat, 28 Nov 2026 00:00:00 GMT"}, "private, no-cache"),
        ({"ETag": '"1"', "Cache-Control": "private, max-age=60"}, "private, max-age=60"),
        ({"Cache-Control": "public, immutable"}, "public, immutable"),
    ],
)
def test_a_view_can_set_another_policy(headers, value):
    respond = CacheControlMiddleware(lambda request: HttpResponse(headers=headers))
    assert respond(RequestFactory().get(reverse("tasks:list")))["Cache-Control"] == value
