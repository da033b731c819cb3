"""Clients with an unknown IP address: behind a Unix socket, or a proxy that sends none."""

import pytest
from allauth.usersessions.models import UserSession
from django.test import Client
from django.urls import reverse

from accounts.models import AuditEntry
from accounts.sessions import end_session
from accounts.tests.make import NEW_PASSWORD, PASSWORD, is_logged_in, log_in
from tasks.tests.make import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(
    params=[
        (0, {"REMOTE_ADDR": ""}),
        (0, {"REMOTE_ADDR": "a socket"}),
        (1, {"HTTP_X_FORWARDED_FOR": "unknown"}),
        (2, {"HTTP_X_FORWARDED_FOR": "9.9.9.9"}),
    ],
    ids=["unix socket", "no address", "proxy says no address", "fewer proxies than trusted"],
)
def metadata(request, settings):
    """The request metadata of such a client."""
    settings.ALLAUTH_TRUSTED_PROXY_COUNT, facts = request.param
    return facts


def test_registration_and_login_succeed(metadata):
    make_user()
    client = Client(**metadata)
    assert log_in(client).status_code == 302
    assert is_logged_in(client)
    new = {"email": "new@example.com", "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    other = Client(**metadata)
    assert other.post(reverse("account_signup"), new).status_code == 302
    assert is_logged_in(other)
    assert AuditEntry.objects.get(action="user.register").address is None


def test_the_api_issues_tokens(metadata):
    make_user()
    body = {"email": "alice@example.com", "password": PASSWORD}
    response = Client(**metadata).post("/api/v1/auth/token/", body, "application/json")
    assert response.status_code == 200


def test_the_list_of_sessions_says_that_the_address_is_unknown(metadata):
    alice = make_user("alice", is_staff=True, is_superuser=True)
    client = Client(**metadata)
    log_in(client)
    for page in (reverse("usersessions_list"), f"/admin/accounts/user/{alice.pk}/change/"):
        text = client.get(page).text
        assert "unknown" in text
        assert "0.0.0.0" not in text
    end_session(alice, session_id=UserSession.objects.get().pk, by=None)
    assert AuditEntry.objects.get().before == {}


def test_attempts_of_passwords_are_limited_with_an_error_page(metadata, settings):
    settings.ACCOUNT_RATE_LIMITS = {"login_failed_address": "2/m/ip"}
    make_user()
    for password in ("guess", "guess", PASSWORD):
        response = log_in(Client(**metadata), password=password)
    assert response.status_code == 200
    assert "Too many" in str(response.context["form"].non_field_errors())


def test_a_changed_password_is_reported_by_mail(metadata, settings, mailoutbox):
    settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    make_user()
    client = Client(**metadata)
    log_in(client)
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert client.post(reverse("account_change_password"), form).status_code == 302
    assert len(mailoutbox) == 1


def test_a_session_keeps_its_last_known_address(metadata):
    make_user()
    client = Client(REMOTE_ADDR="192.0.2.7")
    log_in(client)
    assert client.get("/healthz", **metadata).status_code == 200
    headers = {"accept": "application/xhtml+xml"}
    page = client.get(reverse("accounts:profile"), headers=headers, **metadata)
    assert page.status_code == 200
    session = UserSession.objects.get()
    assert session.ip == "192.0.2.7"
    assert session.last_seen_at > session.created_at
