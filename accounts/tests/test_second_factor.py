"""The second factor: set up, required everywhere, impossible to bypass."""

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.urls import reverse

from accounts.tests.make import (
    PASSWORD,
    is_logged_in,
    log_in,
    login,
    make_protected_user,
    reauthenticated_client,
    totp_code,
)
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db

CODE_PAGE = reverse("mfa_authenticate")


def test_a_password_alone_is_not_sufficient():
    _, secret, _ = make_protected_user()
    client, response = login()
    assert response.url == CODE_PAGE
    assert not is_logged_in(client)
    assert client.post(CODE_PAGE, {"code": "000000"}).status_code == 200
    assert not is_logged_in(client)
    assert client.post(CODE_PAGE, {"code": totp_code(secret)}).url == reverse("tasks:list")
    assert is_logged_in(client)


@pytest.mark.parametrize("kind", ["app", "recovery"])
def test_a_code_works_once(kind):
    _, secret, codes = make_protected_user()
    assert len(codes) == 10
    code = totp_code(secret) if kind == "app" else codes[0]
    for is_accepted in (True, False):
        client, _ = login()
        client.post(CODE_PAGE, {"code": code})
        assert is_logged_in(client) is is_accepted


def test_the_code_that_set_up_the_app_works_for_nothing_else():
    make_user()
    client = reauthenticated_client()
    secret = client.get(reverse("mfa_activate_totp")).context["form"].secret
    code = totp_code(secret)
    assert client.post(reverse("mfa_activate_totp"), {"code": code}).status_code == 302
    other, _ = login()
    assert other.post(CODE_PAGE, {"code": f" {code[:3]} {code[3:]}"}).status_code == 200
    assert not is_logged_in(other)
    other.post(CODE_PAGE, {"code": totp_code(secret, 1)})
    assert is_logged_in(other)


def test_a_clock_may_differ_by_half_a_minute():
    _, secret, _ = make_protected_user()
    for step, enough in ((-1, True), (4, False), (-4, False)):
        client, _ = login()
        client.post(CODE_PAGE, {"code": totp_code(secret, step)})
        assert is_logged_in(client) is enough


@pytest.mark.parametrize("code", ["", " ", "0" * 10_000, "１２３４５６", "abcdef", "-12345", "\0"])
def test_an_invalid_code_is_rejected(code):
    make_protected_user()
    client, _ = login()
    assert client.post(CODE_PAGE, {"code": code}).status_code == 200
    assert not is_logged_in(client)


def test_attempts_of_codes_are_limited():
    _, secret, _ = make_protected_user()
    client, _ = login()
    for _ in range(6):
        client.post(CODE_PAGE, {"code": "000000"})
    page = client.post(CODE_PAGE, {"code": totp_code(secret)})
    assert page.status_code == 200
    assert "Too many" in str(page.context["form"].errors)


def test_the_admin_site_requires_the_second_factor():
    _, secret, _ = make_protected_user(is_staff=True, is_superuser=True)
    client = Client()
    response = client.get("/admin/")
    first = client.get(response.url)
    assert first.url == "/accounts/login/?next=%2Fadmin%2F"
    response = log_in(client, next="/admin/")
    assert response.url.startswith(CODE_PAGE)
    assert client.get("/admin/").status_code == 302
    client.post("/admin/login/", {"username": "alice@example.com", "password": PASSWORD})
    assert client.get("/admin/").status_code == 302
    assert client.post(response.url, {"code": totp_code(secret)}).url == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_remember_applies_after_the_second_factor(settings):
    _, secret, _ = make_protected_user()
    client, _ = login(remember="on")
    client.post(CODE_PAGE, {"code": totp_code(secret)})
    assert client.session.get_expiry_age() == settings.ACCOUNT_SESSION_COOKIE_AGE


def test_a_user_deactivated_between_the_two_steps_cannot_log_in():
    user, secret, _ = make_protected_user()
    client, _ = login()
    type(user).objects.update(is_active=False)
    client.post(CODE_PAGE, {"code": totp_code(secret)})
    assert not is_logged_in(client)


def test_seeds_are_encrypted_in_the_database_and_survive_a_new_key(settings):
    _, secret, codes = make_protected_user()
    rows = str(list(Authenticator.objects.values("data")))
    assert secret not in rows
    assert all(code not in rows for code in codes)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key, of the new year, long enough"
    client, _ = login()
    client.post(CODE_PAGE, {"code": totp_code(secret)})
    assert is_logged_in(client)


def test_removal_of_the_app_requires_reauthentication():
    make_protected_user()
    client, _ = login()
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    client.post(CODE_PAGE, {"code": codes[0]})
    off = reverse("mfa_deactivate_totp")
    assert client.get(off).url.startswith(reverse("account_reauthenticate"))
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    assert client.post(off).status_code == 302
    assert not Authenticator.objects.filter(type="totp").exists()
    _, response = login()
    assert response.url == reverse("tasks:list")


def test_a_key_of_another_user_cannot_be_removed_or_renamed():
    alice = make_user()
    key = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "mine"})
    make_user("bob")
    bob = reauthenticated_client("bob@example.com")
    for name in ("mfa_remove_webauthn", "mfa_edit_webauthn"):
        assert bob.post(reverse(name, args=[key.pk]), {"name": "x"}).status_code == 404
    assert Authenticator.objects.get().data == {"name": "mine"}


@pytest.mark.parametrize(
    "credential",
    [
        "", "{}", "[]", "null", "1", '"x"', '{"id": "x"}', '{"type": "public-key", "response": {}}',
        '{"id": "eA", "rawId": "eA", "type": "public-key", "response": {}}',
        '{"id": "eA", "rawId": "eA", "type": "public-key", "response": {"clientDataJSON": "e30", '
        '"attestationObject": "oA"}}',
        '{"id": "eA", "rawId": "eA", "type": "public-key", "response": {"clientDataJSON": "eyJ0", '
        '"attestationObject": "////", "authenticatorData": "AA", "signature": "AA"}}',
        '{"id": 1, "rawId": [], "type": "public-key", "response": []}',
    ],
)  # fmt: skip
def test_a_malformed_webauthn_response_is_rejected(credential):
    make_protected_user()
    half, _ = login()
    half.get(CODE_PAGE)
    assert half.post(CODE_PAGE, {"credential": credential}).status_code == 200
    assert not is_logged_in(half)
    Authenticator.objects.all().delete()
    client = reauthenticated_client()
    client.get(reverse("mfa_add_webauthn"))
    form = {"name": "key", "credential": credential}
    assert client.post(reverse("mfa_add_webauthn"), form).status_code == 200
    assert not Authenticator.objects.exists()
