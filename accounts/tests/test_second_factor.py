"""The second factor: set up, required everywhere, impossible to bypass."""

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.urls import reverse

from accounts.tests.make import GOOD, code_of, is_logged_in, login, make_protected_user, proven
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db

ASK = reverse("mfa_authenticate")


def test_a_password_alone_is_not_sufficient():
    _, secret, _ = make_protected_user()
    client, answer = login()
    assert answer.url == ASK
    assert not is_logged_in(client)
    assert client.post(ASK, {"code": "000000"}).status_code == 200
    assert not is_logged_in(client)
    assert client.post(ASK, {"code": code_of(secret)}).url == reverse("tasks:list")
    assert is_logged_in(client)


def test_a_code_works_once():
    _, secret, _ = make_protected_user()
    code = code_of(secret)
    login(client := Client())
    client.post(ASK, {"code": code})
    login(other := Client())
    assert other.post(ASK, {"code": code}).status_code == 200
    assert not is_logged_in(other)


def test_a_clock_may_differ_by_half_a_minute():
    _, secret, _ = make_protected_user()
    for step, enough in ((-1, True), (4, False), (-4, False)):
        client, _ = login()
        client.post(ASK, {"code": code_of(secret, step)})
        assert is_logged_in(client) is enough


def test_a_recovery_code_works_once():
    _, _, codes = make_protected_user()
    assert len(codes) == 10
    for enough in (True, False):
        client, _ = login()
        client.post(ASK, {"code": codes[0]})
        assert is_logged_in(client) is enough


@pytest.mark.parametrize("code", ["", " ", "0" * 10_000, "１２３４５６", "abcdef", "-12345", "\0"])
def test_an_invalid_code_is_rejected(code):
    make_protected_user()
    client, _ = login()
    assert client.post(ASK, {"code": code}).status_code == 200
    assert not is_logged_in(client)


def test_attempts_of_codes_are_limited():
    _, secret, _ = make_protected_user()
    client, _ = login()
    for _ in range(6):
        client.post(ASK, {"code": "000000"})
    page = client.post(ASK, {"code": code_of(secret)})
    assert page.status_code == 200
    assert "Too many" in str(page.context["form"].errors)


def test_the_admin_site_requires_the_second_factor():
    _, secret, _ = make_protected_user(is_staff=True, is_superuser=True)
    client = Client()
    response = client.get("/admin/")
    first = client.get(response.url)
    assert first.url == "/accounts/login/?next=%2Fadmin%2F"
    _, answer = login(client, next="/admin/")
    assert answer.url.startswith(ASK)
    assert client.get("/admin/").status_code == 302
    client.post("/admin/login/", {"username": "alice@example.com", "password": GOOD})
    assert client.get("/admin/").status_code == 302
    assert client.post(answer.url, {"code": code_of(secret)}).url == "/admin/"
    assert client.get("/admin/").status_code == 200


def test_keep_me_logged_in_survives_the_second_step(settings):
    _, secret, _ = make_protected_user()
    client, _ = login(remember="on")
    client.post(ASK, {"code": code_of(secret)})
    assert client.session.get_expiry_age() == settings.ACCOUNT_SESSION_COOKIE_AGE


def test_a_user_deactivated_between_the_two_steps_cannot_log_in():
    user, secret, _ = make_protected_user()
    client, _ = login()
    type(user).objects.update(is_active=False)
    client.post(ASK, {"code": code_of(secret)})
    assert not is_logged_in(client)


def test_seeds_are_encrypted_in_the_database_and_survive_a_new_key(settings):
    _, secret, codes = make_protected_user()
    rows = str(list(Authenticator.objects.values("data")))
    assert secret not in rows
    assert all(code not in rows for code in codes)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key, of the new year, long enough"
    client, _ = login()
    client.post(ASK, {"code": code_of(secret)})
    assert is_logged_in(client)


def test_turning_it_off_requires_reauthentication():
    make_protected_user()
    client, _ = login()
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    client.post(ASK, {"code": codes[0]})
    off = reverse("mfa_deactivate_totp")
    assert client.get(off).url.startswith(reverse("account_reauthenticate"))
    client.post(reverse("account_reauthenticate"), {"password": GOOD})
    assert client.post(off).status_code == 302
    assert not Authenticator.objects.filter(type="totp").exists()
    _, answer = login()
    assert answer.url == reverse("tasks:list")


def test_a_key_of_another_user_cannot_be_removed_or_renamed():
    alice = make_user()
    key = Authenticator.objects.create(user=alice, type="webauthn", data={"name": "mine"})
    make_user("bob")
    bob = proven("bob@example.com")
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
    half.get(ASK)
    assert half.post(ASK, {"credential": credential}).status_code == 200
    assert not is_logged_in(half)
    Authenticator.objects.all().delete()
    client = proven()
    client.get(reverse("mfa_add_webauthn"))
    form = {"name": "key", "credential": credential}
    assert client.post(reverse("mfa_add_webauthn"), form).status_code == 200
    assert not Authenticator.objects.exists()


@pytest.mark.parametrize(
    "name",
    [
        "mfa_index", "mfa_activate_totp", "mfa_list_webauthn", "mfa_add_webauthn",
        "mfa_generate_recovery_codes", "account_change_password", "account_email",
        "usersessions_list", "socialaccount_connections",
    ],
)  # fmt: skip
def test_pages_use_the_sites_layout_in_both_languages(name):
    make_user()
    client = proven()
    for code, title in (("en", "Your account"), ("zh-hans", "您的账号")):
        client.post(reverse("set_language"), {"language": code})
        page = client.get(reverse(name))
        assert page.status_code == 200
        assert title in page.content.decode()
