"""Limits of failed logins: guessing is bounded, and nobody locks out others."""

from http.cookies import Morsel

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from accounts.login_limits import COOKIE
from accounts.tests.make import NEW_PASSWORD, PASSWORD, is_logged_in, log_in
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db

OWNER, ATTACKER, OFFICE = "192.0.2.1", "203.0.113.66", "198.51.100.7"


def browser(address, **cookies):
    client = Client(REMOTE_ADDR=address)
    client.cookies.load(cookies)
    return client


def known_browser(address=OWNER, email="alice@example.com"):
    """Return a browser in which a user logged in before and then logged out."""
    client = browser(address)
    assert log_in(client, email).status_code == 302
    client.post(reverse("account_logout"))
    return client


def guess(client, count=1, email="alice@example.com"):
    for number in range(count):
        response = log_in(client, email, password=f"guess {number}")
    return response


def is_refused(response):
    """Return whether the attempt exceeded a limit."""
    assert response.status_code == 200
    return "Too many" in str(response.context["form"].non_field_errors())


def test_wrong_passwords_from_elsewhere_do_not_lock_the_owner_out():
    make_user()
    attacker = browser(ATTACKER)
    assert is_refused(guess(attacker, 6))
    # the right password too: a guesser must not learn that it was right
    assert is_refused(log_in(attacker))
    assert log_in(browser(OWNER)).status_code == 302


def test_attempts_for_unknown_names_do_not_lock_others_behind_the_address_out():
    make_user()
    attacker = browser(OFFICE)
    for number in range(20):
        guess(attacker, 1, f"nobody{number}@example.com")
    assert log_in(browser(OFFICE)).status_code == 302
    for number in range(20):
        body = {"email": f"nobody{number}@example.com", "password": "guess"}
        APIClient().post("/api/v1/auth/token/", body, REMOTE_ADDR=OFFICE)
    body = {"email": "alice@example.com", "password": PASSWORD}
    answer = APIClient().post("/api/v1/auth/token/", body, REMOTE_ADDR=OFFICE)
    assert answer.status_code == 200


def test_guesses_from_one_address_are_bounded_whatever_the_names_are():
    make_user()
    known, attacker = known_browser(OFFICE), browser(OFFICE)
    outcomes = [
        is_refused(guess(attacker, 1, f"nobody{number}@example.com")) for number in range(60)
    ]
    assert outcomes.count(False) == 50
    assert is_refused(log_in(browser(OFFICE)))
    assert log_in(known).status_code == 302


def test_guesses_for_one_account_are_bounded_whatever_the_addresses_are(settings):
    settings.ACCOUNT_RATE_LIMITS = settings.ACCOUNT_RATE_LIMITS | {
        "login_failed_account": "9/d/key"
    }
    make_user()
    known = known_browser()
    outcomes = [is_refused(guess(browser(f"203.0.113.{number}"))) for number in range(12)]
    assert outcomes == [False] * 9 + [True] * 3
    assert is_refused(log_in(browser(OWNER)))
    assert log_in(known).status_code == 302


def test_a_known_browser_has_its_own_limit_which_others_do_not_use_up():
    make_user()
    known, attacker = known_browser(), browser(OWNER)
    assert is_refused(guess(attacker, 6))
    assert not is_refused(guess(known, 4))
    assert log_in(known).status_code == 302
    assert is_refused(guess(known_browser("192.0.2.2"), 6))


def test_the_cookie_of_a_browser_serves_one_account():
    make_user()
    make_user("mallory")
    mallory = known_browser(ATTACKER, "mallory@example.com")
    assert is_refused(guess(mallory, 6))
    assert log_in(mallory, "mallory@example.com").status_code == 302


def test_an_account_with_the_same_secondary_address_gets_no_further_attempts():
    make_user()
    mallory = make_user("mallory")
    EmailAddress.objects.create(user=mallory, email="alice@example.com", verified=False)
    outcomes = []
    for _ in range(3):
        client = known_browser(ATTACKER, "mallory@example.com")
        outcomes += [is_refused(guess(client)) for _ in range(4)]
    assert outcomes.count(False) == 5


def test_one_browser_is_known_for_several_accounts():
    users = [make_user(name) for name in ("alice", "bob")]
    client = known_browser()
    log_in(client, "bob@example.com")
    client.post(reverse("account_logout"))
    guess(browser(OWNER), 6)
    guess(browser(OWNER), 6, "bob@example.com")
    for user in users:
        assert log_in(client, user.email).status_code == 302
        client.post(reverse("account_logout"))


@pytest.mark.parametrize("text", ["", "x", "W10:1abc:xyz", "é", "0" * 4000])
def test_a_forged_cookie_is_ignored(text):
    make_user()
    assert is_refused(guess(browser(ATTACKER, **{COOKIE: text}), 6))


def test_the_cookie_is_hidden_from_scripts_and_contains_no_address(settings):
    settings.SESSION_COOKIE_SECURE = True
    make_user()
    client = browser(OWNER)
    cookie: Morsel[str] = log_in(client).cookies[COOKIE]
    assert cookie["httponly"]
    assert cookie["secure"]
    assert (cookie["samesite"], cookie["path"]) == ("Lax", "/accounts/")
    assert "alice" not in cookie.value
    assert not is_logged_in(browser(OWNER, **{COOKIE: cookie.value}))


def test_the_cookie_survives_a_new_key_of_the_site(settings):
    make_user()
    known = known_browser()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key, of the new year, long enough"
    guess(browser(OWNER), 6)
    assert log_in(known).status_code == 302


def test_a_password_reset_by_mail_lets_the_owner_in(settings):
    settings.HAS_MAIL_SERVER = True
    user = make_user()
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    owner = browser(OWNER)
    assert is_refused(guess(owner, 6))
    owner.post(reverse("account_reset_password"), {"email": user.email})
    path = mail.outbox[-1].body.partition("http://127.0.0.1:8000")[2].split()[0]
    form = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert owner.post(owner.get(path).url, form).status_code == 302
    assert log_in(owner, password=NEW_PASSWORD).status_code == 302
