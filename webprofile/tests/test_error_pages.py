"""Error pages that Django renders in plain English without views of the site."""

import pytest
from django.test import Client

from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db


def test_form_with_the_token_of_an_ended_session_gets_a_page_of_the_site():
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("alice"))
    response = client.post("/tasks/cancel-all/")
    assert response.status_code == 403
    assert "This page is out of date" in response.text
    assert "alice" in response.text


def test_form_that_is_too_large_is_answered_with_413_and_not_logged_as_an_error(client, caplog):
    client.force_login(make_user("alice"))
    response = client.post("/tasks/views/", {"name": "x" * (300 << 10)})
    assert response.status_code == 413
    assert "larger than 256 KiB" in response.text
    assert not [record for record in caplog.records if record.name.startswith("django.security")]


def test_cancelling_all_waiting_tasks_without_one_says_that_none_waits(client):
    client.force_login(make_user("alice"))
    response = client.post("/tasks/act/", {"act": "cancel-waiting", "sure": "yes"}, follow=True)
    assert "None of your tasks waits." in response.text
