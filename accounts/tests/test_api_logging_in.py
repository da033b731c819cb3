"""API login with token pairs: login, renewal, logout; access tokens of scripts."""

from functools import partial

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.hashers import make_password
from django.contrib.sessions.models import Session
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient
from rest_framework_simplejwt.token_blacklist.models import OutstandingToken

from accounts.models import AccessToken as ScriptToken
from accounts.models import AuditEntry, User
from accounts.services import set_user_password
from accounts.sessions import end_sessions
from accounts.tests.make import NEW_PASSWORD, PASSWORD, totp_code
from accounts.tests.make import log_in as post_login_form
from accounts.tests.threads import at_once
from accounts.tokens.access import issue_token
from accounts.tokens.refresh import (
    AccessJWT,
    issue_token_pair,
    renew_token_pair,
    revoke_refresh_tokens,
)
from tasks.tests.make import make_user
from webprofile.tests.documented_api import expect_problem

pytestmark = [pytest.mark.django_db, pytest.mark.database]

TOKEN = "/api/v1/auth/token/"
REFRESH = f"{TOKEN}refresh/"


def post(path, **body):
    return APIClient().post(path, body)


def log_in(user, **changes):
    email = user.email if user else ""
    return post(TOKEN, **{"email": email, "password": PASSWORD} | changes)


def me(access):
    return APIClient().get("/api/v1/me/", HTTP_AUTHORIZATION=f"Bearer {access}")


def test_a_pair_is_issued_for_a_password_renewed_and_revoked():
    user = make_user()
    pair = log_in(user).json()
    assert me(pair["access"]).json()["email"] == user.email
    renewed = post(REFRESH, refresh=pair["refresh"])
    assert renewed.status_code == 200
    last = renewed.json()
    assert post(f"{TOKEN}revoke/", refresh=last["refresh"]).status_code == 204
    expect_problem(post(REFRESH, refresh=last["refresh"]), 401, "token_invalid")


def test_an_access_token_is_valid_until_its_own_pair_ends():
    user = make_user()
    revoked, renewed, other = (log_in(user).json() for _ in range(3))
    assert post(f"{TOKEN}revoke/", refresh=revoked["refresh"]).status_code == 204
    next_pair = post(REFRESH, refresh=renewed["refresh"]).json()
    for ended in (revoked, renewed):
        expect_problem(me(ended["access"]), 401, "token_invalid")
    for live in (next_pair, other):
        assert me(live["access"]).status_code == 200


@pytest.mark.parametrize("path", [REFRESH, f"{TOKEN}revoke/"])
def test_a_refresh_token_that_is_used_twice_ends_all_pairs_of_its_login(path):
    user = make_user()
    first, other = log_in(user).json(), log_in(user).json()
    second = post(REFRESH, refresh=first["refresh"]).json()
    third = post(REFRESH, refresh=second["refresh"]).json()
    expect_problem(post(path, refresh=first["refresh"]), 401, "token_invalid")
    for pair in (first, second, third):
        expect_problem(me(pair["access"]), 401, "token_invalid")
        expect_problem(post(REFRESH, refresh=pair["refresh"]), 401, "token_invalid")
    assert me(other["access"]).status_code == 200


def test_no_token_is_stored():
    pair = log_in(make_user()).json()
    rows = str(list(OutstandingToken.objects.values()))
    assert pair["refresh"] not in rows


def test_a_logout_on_a_page_ends_pairs_but_no_access_tokens():
    user = make_user()
    pair = log_in(user).json()
    other = issue_token_pair(make_user("bob"))
    secret = issue_token(user, name="ci", scopes=["read"], days=1)[1]
    browser = Client()
    post_login_form(browser)
    assert browser.post(reverse("account_logout")).status_code == 302
    expect_problem(me(pair["access"]), 401, "token_invalid")
    expect_problem(post(REFRESH, refresh=pair["refresh"]), 401, "token_invalid")
    assert me(secret).status_code == 200
    assert me(other.access).status_code == 200


def test_an_access_token_without_a_pair_is_rejected():
    expect_problem(me(AccessJWT.for_user(make_user())), 401, "token_invalid")


def test_rows_of_expired_pairs_are_deleted():
    user = make_user()
    issue_token_pair(user)
    OutstandingToken.objects.update(expires_at=timezone.now())
    issue_token_pair(user)
    assert OutstandingToken.objects.count() == 1


def test_access_and_refresh_tokens_are_not_interchangeable():
    pair = log_in(make_user()).json()
    expect_problem(me(pair["refresh"]), 401, "token_invalid")
    expect_problem(post(REFRESH, refresh=pair["access"]), 401, "token_invalid")


@pytest.mark.parametrize("text", ["x", "a.b.c", "ä", "mwp_x", "." * 4000])
def test_an_invalid_refresh_token_is_rejected(text):
    expect_problem(post(REFRESH, refresh=text), 401, "token_invalid")


def test_a_failed_login_does_not_reveal_the_wrong_credential():
    user, inactive = make_user("alice"), make_user("gone", is_active=False)
    responses = [
        log_in(user, password="another one"),
        log_in(user, email="nobody@example.com"),
        log_in(inactive),
        log_in(inactive, password="another one"),
    ]
    bodies = [expect_problem(response, 401, "login_failed") for response in responses]
    assert all(body == bodies[0] for body in bodies)


def test_case_spaces_and_width_of_the_e_mail_are_ignored():
    make_user("alice")
    for email in ("ALICE@example.com", " alice@example.com ", "ａlice@example.com"):
        assert log_in(None, email=email).status_code == 200


def test_a_password_keeps_its_spaces():
    user = make_user()
    user.set_password("  spaces around  ")
    user.save()
    assert log_in(user, password="  spaces around  ").status_code == 200
    expect_problem(log_in(user, password="spaces around"), 401, "login_failed")


def test_attempts_are_limited_as_on_the_login_page(settings):
    settings.ACCOUNT_RATE_LIMITS = {"login_failed_client": "3/5m/key"}
    user = make_user()
    for _ in range(3):
        expect_problem(log_in(user, password="guess"), 401, "login_failed")
    # the right password too: a guesser must not learn that it was right
    response = log_in(user)
    expect_problem(response, 429, "login_throttled")
    assert 280 < int(response["Retry-After"]) <= 300
    assert log_in(make_user("bob")).status_code == 200


def test_a_second_factor_is_required_and_a_code_works_once():
    user = make_user()
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    expect_problem(log_in(user), 401, "code_needed")
    expect_problem(log_in(user, password="guess"), 401, "login_failed")
    expect_problem(log_in(user, code="000000"), 401, "login_failed")
    code = totp_code(secret)
    assert log_in(user, code=code).status_code == 200
    expect_problem(log_in(user, code=code), 401, "login_failed")


def test_a_login_with_a_second_factor_leaves_no_session_and_no_cookie():
    user = make_user()
    app = TOTP.activate(user, secret := generate_totp_secret()).instance
    assert not log_in(user, code=totp_code(secret)).cookies
    assert not Session.objects.exists()
    app.refresh_from_db()
    assert app.last_used_at is not None


def test_a_code_works_once_while_it_is_valid(settings):
    user = make_user()
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    code = totp_code(secret, 1)  # of the next half minute, valid for more than the next one
    assert log_in(user, code=code).status_code == 200
    # django-allauth remembers used codes only for one period
    cache.delete(f"allauth.mfa.totp.used?user={user.pk}&code={code}")
    expect_problem(log_in(user, code=code), 401, "login_failed")


def test_a_recovery_code_works_once():
    user = make_user()
    TOTP.activate(user, generate_totp_secret())
    code = RecoveryCodes.activate(user).get_unused_codes()[0]
    assert log_in(user, code=code).status_code == 200
    expect_problem(log_in(user, code=code), 401, "login_failed")


def test_an_account_with_only_a_security_key_accepts_no_code():
    user = make_user()
    Authenticator.objects.create(user=user, type="webauthn", data={})
    expect_problem(log_in(user), 401, "code_needed")
    expect_problem(log_in(user, code="000000"), 401, "login_failed")


def test_attempts_of_codes_are_limited(settings):
    settings.ACCOUNT_RATE_LIMITS = {"login_failed": "3/5m/key"}
    user = make_user()
    secret = generate_totp_secret()
    TOTP.activate(user, secret)
    for _ in range(3):
        expect_problem(log_in(user, code="000000"), 401, "login_failed")
    response = log_in(user, code=totp_code(secret))
    expect_problem(response, 429, "login_throttled")
    assert 280 < int(response["Retry-After"]) <= 300


def test_renewals_do_not_count_towards_the_login_limit(settings):
    settings.API_RATES = {"credentials": "2/min", "refresh": "3/min"}
    user = make_user()
    refresh = log_in(user).json()["refresh"]
    for _ in range(3):
        response = post(REFRESH, refresh=refresh)
        assert response.status_code == 200
        refresh = response.json()["refresh"]
    limited = post(REFRESH, refresh=refresh)
    expect_problem(limited, 429, "throttled")
    assert 50 < int(limited["Retry-After"]) <= 60
    assert log_in(user).status_code == 200
    expect_problem(log_in(user), 429, "throttled")


def test_an_unverified_address_cannot_log_in_where_verification_is_mandatory(settings):
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    expect_problem(log_in(make_user()), 401, "login_failed")


def test_a_session_that_waits_for_the_second_factor_gets_no_tokens():
    user = make_user()
    TOTP.activate(user, generate_totp_secret())
    browser = Client()
    response = post_login_form(browser)
    assert response.url == reverse("mfa_authenticate")
    body = {"name": "ci", "scopes": ["read"], "days": 30}
    response = browser.post("/api/v1/access-tokens/", body, "application/json")
    expect_problem(response, 401, "not_authenticated")


def test_a_deactivated_user_cannot_renew_a_pair():
    user = make_user()
    pair = issue_token_pair(user)
    type(user).objects.filter(pk=user.pk).update(is_active=False)
    expect_problem(post(REFRESH, refresh=pair.refresh), 401, "token_invalid")
    expect_problem(me(pair.access), 401, "token_invalid")


def test_all_pairs_of_a_user_are_revoked_together():
    alice, bob = make_user("alice"), make_user("bob")
    pairs = [issue_token_pair(alice), issue_token_pair(alice)]
    other = issue_token_pair(bob)
    assert revoke_refresh_tokens(alice) == 2
    for pair in pairs:
        expect_problem(post(REFRESH, refresh=pair.refresh), 401, "token_invalid")
        expect_problem(me(pair.access), 401, "token_invalid")
    assert post(REFRESH, refresh=other.refresh).status_code == 200


@pytest.mark.usefixtures("transactional_db")
def test_one_of_several_concurrent_renewals_succeeds():
    (pair,) = at_once(lambda: issue_token_pair(make_user()))
    results = at_once(*[lambda: renew_token_pair(pair.refresh)] * 3)
    assert sorted(results, key=str)[1:] == ["token_invalid"] * 2


@pytest.mark.usefixtures("transactional_db")
def test_a_pair_renewed_during_a_logout_everywhere_does_not_survive_it():
    (user,) = at_once(make_user)
    for _ in range(5):
        (pair,) = at_once(partial(issue_token_pair, user))
        renewed, _ = at_once(partial(renew_token_pair, pair.refresh), partial(end_sessions, user))
        if renewed != "token_invalid":  # it was first, and what it made was ended
            (result,) = at_once(partial(renew_token_pair, renewed.refresh))
            assert result == "token_invalid"


def test_an_access_token_is_created():
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
def test_an_invalid_access_token_is_rejected(changes, code):
    client = APIClient()
    client.force_login(make_user())
    body = {"name": "ci", "scopes": ["read"], "days": 30} | changes
    expect_problem(client.post("/api/v1/access-tokens/", body), 422, code)
    assert not ScriptToken.objects.exists()


def test_an_access_token_creates_no_tokens_but_can_revoke_itself():
    user = make_user("root", is_staff=True)
    _, secret = issue_token(user, name="ci", scopes=["read", "write", "admin"], days=1)
    script = APIClient()
    script.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    body = {"name": "more", "scopes": ["read"], "days": 365}
    expect_problem(script.post("/api/v1/access-tokens/", body), 403, "token_not_here")
    assert script.delete("/api/v1/access-tokens/current/").status_code == 204
    expect_problem(script.get("/api/v1/me/"), 401, "token_invalid")


def test_only_administrators_have_the_admin_scope(client):
    for user, scopes in (
        (make_user("carl"), ["read", "write"]),
        (make_user("root", is_staff=True, is_superuser=True), ["admin", "read", "write"]),
    ):
        client.force_login(user)
        assert client.get("/api/v1/me/").json()["scopes"] == scopes


@pytest.mark.parametrize("address", ["accounts:session-end-all", "usersessions_list"])
def test_the_end_of_all_sessions_ends_pairs_and_access_tokens(address):
    user = make_user()
    pair = issue_token_pair(user)
    secret = issue_token(user, name="ci", scopes=["read"], days=1)[1]
    bobs_secret = issue_token(make_user("bob"), name="ci", scopes=["read"], days=1)[1]
    browser, other = Client(), Client()
    for client in (browser, other):
        post_login_form(client)
    assert browser.post(reverse(address)).status_code == 302
    expect_problem(other.get("/api/v1/me/"), 401, "not_authenticated")
    expect_problem(me(pair.access), 401, "token_invalid")
    expect_problem(post(REFRESH, refresh=pair.refresh), 401, "token_invalid")
    expect_problem(me(secret), 401, "token_invalid")
    assert me(bobs_secret).status_code == 200
    entry = AuditEntry.objects.get(action="user.end_sessions")
    assert (entry.actor, entry.before["access_tokens"]) == (user, 1)


def change_on_page(user):
    client = Client()
    post_login_form(client)
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert client.post(reverse("account_change_password"), form).status_code == 302


def change_by_mail(user):
    client = Client()
    client.post(reverse("account_reset_password"), {"email": user.email})
    path = mail.outbox[-1].body.partition("http://127.0.0.1:8000")[2].split()[0]
    form = client.get(path).url
    new = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert client.post(form, new).status_code == 302


def change_by_administrator(user):
    set_user_password(user, password=NEW_PASSWORD, by=None)


def change_on_server(user):
    user.set_password(NEW_PASSWORD)
    user.save()


@pytest.mark.parametrize(
    "change", [change_on_page, change_by_mail, change_by_administrator, change_on_server]
)
def test_a_changed_password_ends_access_tokens_and_pairs(change, settings):
    settings.HAS_MAIL_SERVER = True
    user = make_user()
    pair = issue_token_pair(user)
    secret = issue_token(user, name="ci", scopes=["read"], days=1)[1]
    assert me(secret).status_code == 200
    change(user)
    expect_problem(me(secret), 401, "token_invalid")
    expect_problem(me(pair.access), 401, "token_invalid")
    expect_problem(post(REFRESH, refresh=pair.refresh), 401, "token_invalid")
    assert log_in(user, password=NEW_PASSWORD).status_code == 200


def test_a_password_that_is_hashed_again_at_a_login_ends_no_access_token(settings):
    hashers = "django.contrib.auth.hashers"
    settings.PASSWORD_HASHERS = [f"{hashers}.MD5PasswordHasher", f"{hashers}.PBKDF2PasswordHasher"]
    user = make_user()
    User.objects.update(password=make_password(PASSWORD, hasher="pbkdf2_sha256"))
    secret = issue_token(user, name="ci", scopes=["read"], days=1)[1]
    assert log_in(user).status_code == 200
    user.refresh_from_db()
    assert user.password.startswith("md5")
    assert me(secret).status_code == 200
