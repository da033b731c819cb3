"""Sessions: listed, ended, and invalid after a user loses access."""

from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from accounts.templatetags.browsers import browser
from accounts.tests.make import PAGE, is_logged_in, log_in
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db

LIST = reverse("usersessions_list")
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def make_client(email="alice@example.com", agent=FIREFOX):
    """Return a client that is logged in."""
    client = Client(headers={"user-agent": agent})
    assert log_in(client, email).status_code == 302
    return client


def session_of(client):
    return UserSession.objects.get(session_key=client.session.session_key)


def test_the_list_shows_browser_address_and_the_current_session():
    make_user()
    here, _ = make_client(), make_client(agent="curl/8")
    page = here.get(LIST).content.decode()
    assert "Firefox 140 · Linux" in page
    assert "curl/8" in page
    assert page.count("this session") == 1
    assert "127.0.0.1" in page


def test_one_session_is_ended_without_the_others():
    make_user()
    here, there, third = make_client(), make_client(), make_client()
    here.post(reverse("accounts:session-end", args=[session_of(there).pk]))
    assert [is_logged_in(c) for c in (here, there, third)] == [True, False, True]
    assert UserSession.objects.count() == 2


def test_ending_the_current_session_logs_out():
    make_user()
    here = make_client()
    response = here.post(reverse("accounts:session-end", args=[session_of(here).pk]))
    assert response.url == reverse("account_login")
    assert not is_logged_in(here)


def test_a_session_of_another_user_is_not_found():
    make_user()
    make_user("bob")
    alice, bob = make_client(), make_client("bob@example.com")
    url = reverse("accounts:session-end", args=[session_of(alice).pk])
    assert bob.post(url).status_code == 404
    assert bob.get(url).status_code == 405
    assert is_logged_in(alice)
    assert "Firefox" in bob.get(LIST).content.decode()
    assert bob.get(LIST).context["session_count"] == 1


def test_all_other_sessions_or_all_sessions_are_ended():
    make_user()
    here, there, third = make_client(), make_client(), make_client()
    here.post(LIST)
    assert [is_logged_in(c) for c in (here, there, third)] == [True, False, False]
    other = make_client()
    here.post(reverse("accounts:session-end-all"))
    assert [is_logged_in(c) for c in (here, other)] == [False, False]
    assert not UserSession.objects.exists()
    assert not Session.objects.exists()


def test_a_deactivated_users_sessions_end_at_once():
    make_user()
    here = make_client()
    User.objects.update(is_active=False)
    assert not is_logged_in(here)


def test_pages_extend_a_session_but_background_requests_do_not():
    make_user()
    here = make_client()
    end = timezone.now() + timedelta(hours=1)
    last_seen_at = timezone.now() - timedelta(hours=11)
    Session.objects.update(expire_date=end)
    UserSession.objects.update(last_seen_at=last_seen_at)
    here.get(reverse("tasks:rows"), headers={"accept": "text/html"})
    assert (Session.objects.get().expire_date, session_of(here).last_seen_at) == (end, last_seen_at)
    here.get(reverse("tasks:list"), headers=PAGE)
    assert Session.objects.get().expire_date > end
    assert session_of(here).last_seen_at > last_seen_at


def test_the_last_use_of_a_session_is_written_every_few_minutes():
    make_user()
    here = make_client()
    here.get(LIST, headers=PAGE)
    last_seen_at = session_of(here).last_seen_at
    here.get(LIST, headers=PAGE)
    assert session_of(here).last_seen_at == last_seen_at


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox 140 · Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
            "Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0",
            "Edge 141 · Windows",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 "
            "(KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1",
            "Safari 26 · iPhone",
        ),
        ("curl/8.5.0", "curl/8.5.0"),
        ("<script>" + "x" * 500, "<script>" + "x" * 52),
        ("", "–"),
    ],
)
def test_the_browser_is_named_from_its_user_agent(agent, name):
    assert browser(agent) == name
