"""One's own account over the API: sessions and password."""

import pytest
from allauth.usersessions.models import UserSession
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.access_tokens import token_issue
from accounts.refresh_tokens import pair_issue
from tasks.tests.make import make_user
from webprofile.tests.documented_api import refused

pytestmark = pytest.mark.django_db

ME = "/api/v1/me/"
SESSIONS = f"{ME}sessions/"
PASSWORD = f"{ME}password/"
OLD = "correct horse battery"
NEW = "a wholly new staple"


@pytest.fixture(autouse=True)
def _no_attempts_of_another_test():
    cache.clear()


def browser(email="alice@example.com", password=OLD, agent="Firefox"):
    client = Client(headers={"user-agent": agent})
    form = {"login": email, "password": password}
    assert client.post(reverse("account_login"), form).status_code == 302
    return client


def bearer(text):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def is_in(client):
    return client.get(ME).status_code == 200


def test_sessions_are_told_and_ended_one_by_one():
    make_user()
    here, there = browser(), browser(agent="curl/8")
    rows = here.get(SESSIONS).json()
    assert sorted((row["user_agent"], row["is_current"]) for row in rows) == [
        ("Firefox", True),
        ("curl/8", False),
    ]
    (other,) = (row["id"] for row in rows if not row["is_current"])
    assert here.delete(f"{SESSIONS}{other}/").status_code == 204
    assert (is_in(here), is_in(there)) == (True, False)
    refused(here.delete(f"{SESSIONS}{other}/"), 404, "not_found")


def test_a_strangers_session_does_not_exist():
    make_user()
    make_user("bob")
    here, stranger = browser(), browser("bob@example.com")
    own = UserSession.objects.get(user__email="alice@example.com").pk
    refused(stranger.delete(f"{SESSIONS}{own}/"), 404, "not_found")
    assert len(stranger.get(SESSIONS).json()) == 1
    assert is_in(here)


@pytest.mark.parametrize("way", ["page", "api"])
def test_logging_out_everywhere_ends_sessions_and_both_parts_of_pairs(way):
    user = make_user()
    make_user("bob")
    here, there, stranger = browser(), browser(), browser("bob@example.com")
    pair = pair_issue(user)
    program = bearer(pair.access)
    script = bearer(token_issue(user, name="ci", scopes=["read"], days=1)[1])
    assert all(is_in(each) for each in (here, there, program, script))
    if way == "page":
        assert here.post(reverse("accounts:session-end-all")).status_code == 302
    else:
        assert program.delete(SESSIONS).status_code == 204
    refused(here.get(ME), 401, "not_authenticated")
    refused(there.get(ME), 401, "not_authenticated")
    refused(program.get(ME), 401, "token_invalid")
    refreshed = APIClient().post("/api/v1/auth/token/refresh/", {"refresh": pair.refresh})
    refused(refreshed, 401, "token_invalid")
    # a script's token has an end and a place of its own
    assert all(is_in(each) for each in (script, stranger))


def test_a_password_is_changed_and_only_the_browser_that_did_it_stays(settings):
    settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    user = make_user()
    here, there = browser(), browser()
    program = bearer(pair_issue(user).access)
    body = {"current": OLD, "password": NEW}
    assert here.post(PASSWORD, body, "application/json").status_code == 204
    assert [is_in(each) for each in (here, there, program)] == [True, False, False]
    assert sum(row["is_current"] for row in here.get(SESSIONS).json()) == 1
    assert mail.outbox[0].to == [user.email]
    browser(password=NEW)


def test_a_program_changes_the_password_and_logs_in_again():
    user = make_user()
    program = bearer(pair_issue(user).access)
    assert program.post(PASSWORD, {"current": OLD, "password": NEW}).status_code == 204
    refused(program.get(ME), 401, "token_invalid")
    assert not UserSession.objects.exists()
    again = {"email": user.email, "password": NEW}
    assert APIClient().post("/api/v1/auth/token/", again).status_code == 200


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"current": "guess", "password": NEW}, "password_wrong", "current"),
        ({"password": NEW}, "password_wrong", "current"),
        ({"current": OLD, "password": "short"}, "password_weak", "password"),
        ({"current": OLD, "password": "alice@example.com"}, "password_weak", "password"),
        ({"current": OLD}, "invalid", ""),
        ({"current": OLD, "password": NEW, "user": 1}, "invalid", ""),
    ],
)
def test_a_password_that_cannot_be_is_refused_and_the_old_one_stays(body, code, field):
    make_user()
    here = browser()
    answer = here.post(PASSWORD, body, "application/json")
    refused(answer, 422, code)
    assert answer.json()["field"] == field
    browser(password=OLD)


def test_whoever_found_an_open_browser_cannot_guess_the_password_for_long(settings):
    settings.ACCOUNT_RATE_LIMITS = {"change_password": "3/m/user"}
    make_user()
    here = browser()
    for _ in range(3):
        guess = here.post(PASSWORD, {"current": "x", "password": NEW}, "application/json")
        refused(guess, 422, "password_wrong")
    right = here.post(PASSWORD, {"current": OLD, "password": NEW}, "application/json")
    refused(right, 429, "login_throttled")
    assert 50 < int(right["Retry-After"]) <= 60


def test_who_came_from_an_identity_provider_sets_a_first_password():
    user = make_user()
    user.set_unusable_password()
    user.save()
    program = bearer(pair_issue(user).access)
    assert program.post(PASSWORD, {"password": NEW}).status_code == 204
    browser(password=NEW)


@pytest.mark.parametrize(
    ("method", "address"), [("get", SESSIONS), ("delete", SESSIONS), ("post", PASSWORD)]
)
def test_an_access_token_has_no_say_about_the_account(method, address):
    user = make_user("root", is_staff=True)
    scopes = ["read", "write", "admin"]
    script = bearer(token_issue(user, name="ci", scopes=scopes, days=1)[1])
    answer = getattr(script, method)(address, {"current": OLD, "password": NEW})
    refused(answer, 403, "token_not_here")


@pytest.mark.django_db
def test_only_an_administrators_request_may_do_what_administrators_may(client):
    for user, scopes in (
        (make_user("carl"), ["read", "write"]),
        (make_user("root", is_staff=True, is_superuser=True), ["admin", "read", "write"]),
    ):
        client.force_login(user)
        assert client.get("/api/v1/me/").json()["scopes"] == scopes
