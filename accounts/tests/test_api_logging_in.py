"""API login with token pairs: login, renewal, logout; access tokens of scripts."""

from functools import partial

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient
from rest_framework_simplejwt.token_blacklist.models import OutstandingToken

from accounts.models import AccessToken as ScriptToken
from accounts.sessions import end_sessions
from accounts.tests.threads import at_once
from accounts.tokens.access import issue_token
from accounts.tokens.refresh import (
    AccessJWT,
    issue_token_pair,
    renew_token_pair,
    revoke_refresh_tokens,
)
from tasks.tests.make import make_user
from webprofile.tests.documented_api import refused

pytestmark = [pytest.mark.django_db, pytest.mark.database]

TOKEN = "/api/v1/auth/token/"
REFRESH = f"{TOKEN}refresh/"
PASSWORD = "correct horse battery"


def post(path, **body):
    return APIClient().post(path, body)


def log_in(user, **changes):
    email = user.email if user else ""
    return post(TOKEN, **{"email": email, "password": PASSWORD} | changes)


def me(access):
    return APIClient().get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {access}")


def codes_of(secret):
    """Return the code that an authenticator app shows now."""
    return format_hotp_value(hotp_value(secret, next(yield_hotp_counters_from_time())))


def test_a_password_makes_a_pair_that_is_renewed_and_ended():
    user = make_user()
    pair = log_in(user).json()
    assert me(pair["access"]).json()["email"] == user.email
    renewed = post(f"{TOKEN}refresh/", refresh=pair["refresh"])
    assert renewed.status_code == 200
    refused(post(f"{TOKEN}refresh/", refresh=pair["refresh"]), 401, "token_invalid")
    refused(post(f"{TOKEN}revoke/", refresh=pair["refresh"]), 401, "token_invalid")
    last = renewed.json()
    assert post(f"{TOKEN}revoke/", refresh=last["refresh"]).status_code == 204
    refused(post(f"{TOKEN}refresh/", refresh=last["refresh"]), 401, "token_invalid")


def test_the_access_part_ends_with_its_pair_and_with_no_other():
    user = make_user()
    revoked, renewed, other = (log_in(user).json() for _ in range(3))
    assert post(f"{TOKEN}revoke/", refresh=revoked["refresh"]).status_code == 204
    next_one = post(f"{TOKEN}refresh/", refresh=renewed["refresh"]).json()
    for ended in (revoked, renewed):
        refused(me(ended["access"]), 401, "token_invalid")
    for live in (next_one, other):
        assert me(live["access"]).status_code == 200


def test_an_access_part_without_its_pair_lets_nobody_in():
    refused(me(AccessJWT.for_user(make_user())), 401, "token_invalid")


def test_pairs_that_expired_leave_no_rows():
    user = make_user()
    issue_token_pair(user)
    OutstandingToken.objects.update(expires_at=timezone.now())
    issue_token_pair(user)
    assert OutstandingToken.objects.count() == 1


def test_the_two_parts_of_a_pair_are_not_taken_for_each_other():
    pair = log_in(make_user()).json()
    refused(me(pair["refresh"]), 401, "token_invalid")
    refused(post(f"{TOKEN}refresh/", refresh=pair["access"]), 401, "token_invalid")


@pytest.mark.parametrize("text", ["x", "a.b.c", "ä", "mwp_x", "." * 4000])
def test_what_is_no_refresh_token_renews_nothing(text):
    refused(post(f"{TOKEN}refresh/", refresh=text), 401, "token_invalid")


def test_a_failure_does_not_say_what_was_wrong():
    user, gone = make_user("alice"), make_user("gone", is_active=False)
    answers = [
        log_in(user, password="another one"),
        log_in(user, email="nobody@example.com"),
        log_in(gone),
        log_in(gone, password="another one"),
    ]
    bodies = [refused(answer, 401, "login_failed") for answer in answers]
    assert all(body == bodies[0] for body in bodies)


def test_the_e_mail_counts_without_its_case_spaces_and_width():
    make_user("alice")
    for email in ("ALICE@example.com", " alice@example.com ", "ａlice@example.com"):
        assert log_in(None, email=email).status_code == 200


def test_a_password_keeps_its_spaces():
    user = make_user()
    user.set_password("  spaces around  ")
    user.save()
    assert log_in(user, password="  spaces around  ").status_code == 200
    refused(log_in(user, password="spaces around"), 401, "login_failed")


def test_attempts_are_limited_as_on_the_page(settings):
    settings.ACCOUNT_RATE_LIMITS = {"login_failed": "3/5m/key"}
    user = make_user()
    for _ in range(3):
        refused(log_in(user, password="guess"), 401, "login_failed")
    # the right password too: a guesser must not learn that it was right
    answer = log_in(user)
    refused(answer, 429, "login_throttled")
    assert 280 < int(answer["Retry-After"]) <= 300
    assert log_in(make_user("bob")).status_code == 200


def test_a_second_factor_is_asked_for_and_a_code_counts_once():
    user = make_user()
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    refused(log_in(user), 401, "code_needed")
    refused(log_in(user, password="guess"), 401, "login_failed")
    refused(log_in(user, code="000000"), 401, "login_failed")
    code = codes_of(secret)
    assert log_in(user, code=code).status_code == 200
    refused(log_in(user, code=code), 401, "login_failed")


def test_a_recovery_code_counts_once():
    user = make_user()
    TOTP.activate(user, generate_totp_secret())
    code = RecoveryCodes.activate(user).get_unused_codes()[0]
    assert log_in(user, code=code).status_code == 200
    refused(log_in(user, code=code), 401, "login_failed")


def test_an_account_whose_only_second_factor_is_a_key_takes_no_code():
    user = make_user()
    Authenticator.objects.create(user=user, type="webauthn", data={})
    refused(log_in(user), 401, "code_needed")
    refused(log_in(user, code="000000"), 401, "login_failed")


def test_codes_are_limited_too(settings):
    settings.ACCOUNT_RATE_LIMITS = {"login_failed": "3/5m/key"}
    user = make_user()
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    for _ in range(3):
        refused(log_in(user, code="000000"), 401, "login_failed")
    answer = log_in(user, code=codes_of(secret))
    refused(answer, 429, "login_throttled")
    assert 280 < int(answer["Retry-After"]) <= 300


def test_those_who_renew_their_tokens_keep_nobody_from_logging_in(settings):
    settings.API_RATES = {"credentials": "2/min", "refresh": "3/min"}
    user = make_user()
    refresh = log_in(user).json()["refresh"]
    for _ in range(3):
        answer = post(REFRESH, refresh=refresh)
        assert answer.status_code == 200
        refresh = answer.json()["refresh"]
    limited = post(REFRESH, refresh=refresh)
    refused(limited, 429, "throttled")
    assert 50 < int(limited["Retry-After"]) <= 60
    assert log_in(user).status_code == 200
    refused(log_in(user), 429, "throttled")


def test_an_address_that_is_not_verified_does_not_log_in_where_it_must_be(settings):
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    refused(log_in(make_user()), 401, "login_failed")


def test_a_page_that_waits_for_the_second_factor_gets_no_tokens():
    user = make_user()
    TOTP.activate(user, generate_totp_secret())
    browser = Client()
    form = {"login": user.email, "password": PASSWORD}
    answer = browser.post(reverse("account_login"), form)
    assert answer.url == reverse("mfa_authenticate")
    body = {"name": "ci", "scopes": ["read"], "days": 30}
    made = browser.post("/api/v1/access-tokens/", body, "application/json")
    refused(made, 401, "not_authenticated")


def test_a_deactivated_user_renews_nothing():
    user = make_user()
    pair = issue_token_pair(user)
    type(user).objects.filter(pk=user.pk).update(is_active=False)
    refused(post(f"{TOKEN}refresh/", refresh=pair.refresh), 401, "token_invalid")
    refused(me(pair.access), 401, "token_invalid")


def test_a_changed_password_ends_what_was_issued_before():
    user = make_user()
    pair = issue_token_pair(user)
    user.set_password("another long password")
    user.save()
    refused(post(f"{TOKEN}refresh/", refresh=pair.refresh), 401, "token_invalid")


def test_all_pairs_of_a_user_end_together():
    alice, bob = make_user("alice"), make_user("bob")
    pairs = [issue_token_pair(alice), issue_token_pair(alice)]
    other = issue_token_pair(bob)
    assert revoke_refresh_tokens(alice) == 2
    for pair in pairs:
        refused(post(f"{TOKEN}refresh/", refresh=pair.refresh), 401, "token_invalid")
        refused(me(pair.access), 401, "token_invalid")
    assert post(f"{TOKEN}refresh/", refresh=other.refresh).status_code == 200


@pytest.mark.usefixtures("transactional_db")
def test_of_two_who_renew_at_once_one_gets_a_pair():
    (pair,) = at_once(lambda: issue_token_pair(make_user()))
    results = at_once(*[lambda: renew_token_pair(pair.refresh)] * 3)
    assert sorted(results, key=str)[1:] == ["token_invalid"] * 2


@pytest.mark.usefixtures("transactional_db")
def test_no_pair_that_is_renewed_while_its_user_logs_out_everywhere_outlives_it():
    (user,) = at_once(make_user)
    for _ in range(5):
        (pair,) = at_once(partial(issue_token_pair, user))
        renewed, _ = at_once(partial(renew_token_pair, pair.refresh), partial(end_sessions, user))
        if renewed != "token_invalid":  # it was first, and what it made was ended
            (again,) = at_once(partial(renew_token_pair, renewed.refresh))
            assert again == "token_invalid"


def test_a_token_for_scripts_is_made():
    user = make_user()
    person = APIClient()
    person.credentials(HTTP_AUTHORIZATION=f"Bearer {issue_token_pair(user).access}")
    address = "/api/v1/access-tokens/"
    response = person.post(address, {"name": "ci", "scopes": ["read"], "days": 30})
    assert response.status_code == 201
    token_data = response.json()
    token = ScriptToken.objects.get()
    assert (token_data["id"], token_data["prefix"]) == (token.pk, token.prefix)
    assert (me(token_data["secret"]).json()["scopes"], token.user) == (["read"], user)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"name": " "}, "invalid"),
        ({"name": "x" * 101}, "invalid"),
        ({"scopes": []}, "invalid"),
        ({"scopes": ["all"]}, "invalid"),
        ({"scopes": ["admin"]}, "token_scopes"),
        ({"days": 0}, "invalid"),
        ({"days": 366}, "invalid"),
        ({"days": "30"}, "invalid"),
    ],
)
def test_a_token_that_cannot_be_is_refused(changes, code):
    client = APIClient()
    client.force_login(make_user())
    body = {"name": "ci", "scopes": ["read"], "days": 30} | changes
    refused(client.post("/api/v1/access-tokens/", body), 422, code)
    assert not ScriptToken.objects.exists()


def test_a_token_makes_no_tokens_but_may_end_itself():
    user = make_user("root", is_staff=True)
    _, secret = issue_token(user, name="ci", scopes=["read", "write", "admin"], days=1)
    script = APIClient()
    script.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    body = {"name": "more", "scopes": ["read"], "days": 365}
    refused(script.post("/api/v1/access-tokens/", body), 403, "token_not_here")
    assert script.delete("/api/v1/access-tokens/current/").status_code == 204
    refused(script.get("/api/v1/me/"), 401, "token_invalid")


def test_only_an_administrators_request_may_do_what_administrators_may(client):
    for user, scopes in (
        (make_user("carl"), ["read", "write"]),
        (make_user("root", is_staff=True, is_superuser=True), ["admin", "read", "write"]),
    ):
        client.force_login(user)
        assert client.get("/api/v1/me/").json()["scopes"] == scopes


def test_logging_out_everywhere_on_the_page_ends_both_parts_of_pairs_and_no_scripts_token(client):
    user = make_user()
    pair = issue_token_pair(user)
    secret = issue_token(user, name="ci", scopes=["read"], days=1)[1]
    client.force_login(user)
    assert client.post(reverse("accounts:session-end-all")).status_code == 302
    refused(client.get("/api/v1/me/"), 401, "not_authenticated")
    refused(me(pair.access), 401, "token_invalid")
    refused(post(REFRESH, refresh=pair.refresh), 401, "token_invalid")
    assert me(secret).status_code == 200
