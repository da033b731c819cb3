"""Error pages that Django renders in plain English without views of the site."""

import html

import pytest
from django.test import Client

from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db


def test_form_with_the_token_of_an_ended_session_gets_a_page_of_the_site():
    client, user = Client(enforce_csrf_checks=True), make_user("alice")
    client.force_login(user)
    former = client.get("/tasks/new/").context["csrf_token"]
    client.cookies.clear()
    client.force_login(user)
    client.get("/tasks/new/")
    response = client.post("/tasks/cancel-all/", {"csrfmiddlewaretoken": former})
    assert response.status_code == 403
    assert "You have logged in again since the page was opened" in response.text
    assert user.email in response.text


def test_form_from_another_origin_gets_a_page_that_names_the_cause():
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("alice"))
    response = client.post("/tasks/cancel-all/", headers={"Origin": "https://evil.example"})
    assert response.status_code == 403
    assert "The form was not sent from a URL of this site" in html.unescape(response.text)


def test_form_that_is_too_large_is_answered_with_413_and_not_logged_as_an_error(client, caplog):
    client.force_login(make_user("alice"))
    response = client.post("/tasks/views/", {"name": "x" * (300 << 10)})
    assert response.status_code == 413
    assert "larger than the limit of 256 KiB" in response.text
    assert not [record for record in caplog.records if record.name.startswith("django.security")]
