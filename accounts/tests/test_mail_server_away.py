"""While mails cannot be sent, a change of an account is complete, and other requests say so."""

import re
import smtplib

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend as Outbox
from django.core.mail.backends.smtp import EmailBackend
from django.test import Client
from django.urls import reverse

from accounts.models import AuditEntry
from accounts.tests.make import (
    NEW_PASSWORD,
    PASSWORD,
    is_logged_in,
    login,
    make_verified_user,
    reauthenticated_client,
    totp_code,
)

# mails about a second factor are sent on commit
pytestmark = pytest.mark.django_db(transaction=True)

SIGNUP = reverse("account_signup")
RESET = reverse("account_reset_password")
EMAIL = reverse("account_email")
NOT_SENT = "The e-mail could not be sent"
ERRORS = [ConnectionRefusedError(), TimeoutError(), smtplib.SMTPServerDisconnected()]


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def member(request, settings, monkeypatch):
    """A client of a verified user, on a site whose mail server does not work."""
    settings.HAS_MAIL_SERVER = settings.ACCOUNT_EMAIL_NOTIFICATIONS = True

    def fail(*args):
        raise request.param

    monkeypatch.setattr(Outbox, "send_messages", fail)
    make_verified_user()
    return reauthenticated_client()


def test_a_new_password_keeps_the_session_and_is_audited(member):
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert member.post(reverse("account_change_password"), form).status_code == 302
    assert is_logged_in(member)
    assert AuditEntry.objects.get().action == "user.change_password"


def test_a_second_factor_has_recovery_codes_and_is_audited(member):
    secret = member.get(reverse("mfa_activate_totp")).context["form"].secret
    answer = member.post(reverse("mfa_activate_totp"), {"code": totp_code(secret)})
    assert answer.status_code == 302
    assert {row.type for row in Authenticator.objects.all()} == {"totp", "recovery_codes"}
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert actions == {"authenticator_app.add", "recovery_codes.add"}


@pytest.fixture
def outage(settings, monkeypatch):
    """A site that verifies addresses, whose mail server is away until `undo` is called."""
    settings.HAS_MAIL_SERVER = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    settings.ACCOUNT_PREVENT_ENUMERATION = True

    def fail(*args):
        raise ConnectionRefusedError

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "send_messages", fail)
        yield patch


def test_who_registers_meanwhile_logs_in_later_to_get_the_mail(outage, client):
    form = {"email": "new@example.com", "password1": PASSWORD, "password2": PASSWORD}
    answer = client.post(SIGNUP, form)
    assert answer.status_code == 503
    assert NOT_SENT in answer.content.decode()
    assert AuditEntry.objects.get().action == "user.register"
    outage.undo()
    assert login("new@example.com")[1].url == reverse("account_email_verification_sent")
    assert mail.outbox[0].to == ["new@example.com"]


@pytest.mark.parametrize("url", [SIGNUP, RESET])
def test_the_answer_does_not_tell_whether_an_address_has_an_account(outage, url):
    make_verified_user()
    passwords = {"password1": PASSWORD, "password2": PASSWORD}

    def post(email):
        answer = Client().post(url, {"email": email} | passwords)
        csrf_token = r"csrfmiddlewaretoken.*"
        return answer.status_code, re.sub(csrf_token, "", answer.content.decode())

    for _ in range(2):
        first, second = post("alice@example.com"), post("nobody@example.com")
        assert first == second
        assert first[0] == 503


def test_a_password_can_be_reset_once_the_mail_server_is_back(outage, client):
    make_verified_user()
    assert NOT_SENT in client.post(RESET, {"email": "alice@example.com"}).content.decode()
    outage.undo()
    assert client.post(RESET, {"email": "alice@example.com"}).status_code == 302
    assert mail.outbox[0].to == ["alice@example.com"]


def test_an_address_is_added_once_it_can_be_verified(outage):
    user = make_verified_user()
    client, form = reauthenticated_client(), {"email": "new@example.com", "action_add": ""}
    assert NOT_SENT in client.post(EMAIL, form).content.decode()
    assert user.emailaddress_set.count() == 1
    outage.undo()
    assert client.post(EMAIL, form).status_code == 302
    assert mail.outbox[0].to == ["new@example.com"]
    assert AuditEntry.objects.get().action == "user.add_email"


def test_a_mail_to_verify_an_address_is_sent_again_once_that_works(outage):
    make_verified_user().emailaddress_set.create(email="new@example.com")
    client, form = reauthenticated_client(), {"email": "new@example.com", "action_send": ""}
    assert NOT_SENT in client.post(EMAIL, form).content.decode()
    outage.undo()
    assert client.post(EMAIL, form).status_code == 302
    assert mail.outbox[0].to == ["new@example.com"]


def test_a_mail_server_that_does_not_answer_delays_a_request_for_seconds_only():
    assert 0 < EmailBackend().timeout <= 10
