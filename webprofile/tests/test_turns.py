"""Turns of users: the requests of one user do not take the processor from all others."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client

from accounts.models import AccessToken
from accounts.tokens.access import issue_token
from tasks.tests.make import make_user
from webprofile import turns

pytestmark = pytest.mark.django_db


@pytest.fixture
def full(alice):
    """Occupy all turns of alice; the returned function gives one back."""
    for _ in range(turns.AT_ONCE):
        turns.turns.take(alice.pk)
    given_back = []

    def give_back():
        given_back.append(1)
        turns.turns.give_back(alice.pk)

    yield give_back
    for _ in range(turns.AT_ONCE - len(given_back)):
        turns.turns.give_back(alice.pk)


def browser_of(user):
    client = Client()
    client.force_login(user)
    return client


def test_a_user_with_too_many_requests_waits_and_others_do_not(alice, full, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    browser = browser_of(alice)
    page = browser.get("/tasks/")
    assert (page.status_code, page["Retry-After"]) == (429, "5")
    assert b"Too many requests" in page.content
    problem = browser.get("/api/v1/tasks/")
    assert (problem.status_code, problem.json()["code"]) == (429, "throttled")
    assert browser_of(make_user("bob")).get("/tasks/").status_code == 200
    full()
    assert browser.get("/tasks/").status_code == 200
    assert browser.get("/tasks/").status_code == 200


def test_requests_with_tokens_count_for_their_user(alice, full, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_S", 0.05)
    _, secret = issue_token(alice, name="ci", scopes=[AccessToken.Scope.READ], days=1)
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    problem = client.get("/api/v1/tasks/")
    assert (problem.status_code, problem.json()["code"]) == (429, "throttled")
    full()
    assert client.get("/api/v1/tasks/").status_code == 200
    assert client.get("/api/v1/tasks/").status_code == 200


def test_a_waiting_request_begins_when_a_turn_ends_and_few_wait(alice, full, monkeypatch):
    monkeypatch.setattr(turns, "MOST_WAITING", 1)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(turns.turns.take, alice.pk)
        while not turns.turns._waiting:
            threading.Event().wait(0.01)
        assert browser_of(alice).get("/tasks/").status_code == 429
        full()
        waiting.result(10)
    turns.turns.give_back(alice.pk)


@pytest.mark.django_db(transaction=True)
def test_a_waiting_request_holds_no_connection_to_the_database(alice, full):
    def wait():
        connection.ensure_connection()
        turns.turns.take(alice.pk)
        try:
            return connection.connection is None
        finally:
            turns.turns.give_back(alice.pk)
            connection.close()

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(wait)
        while not turns.turns._waiting:
            threading.Event().wait(0.01)
        full()
        assert waiting.result(10)


def test_a_request_that_waits_for_another_process_has_no_turn(alice):
    with turns.request_turn():
        turns.begin_turn(alice.pk)
        turns.begin_turn(alice.pk)  # has begun
        assert turns.turns._running == {alice.pk: 1}
        turns.end_turn()
        assert turns.turns._running == {}
    assert turns.turns._running == {}
