"""A change of an account is complete although the mail about it cannot be sent."""

import smtplib

import pytest
from allauth.mfa.models import Authenticator
from django.core.mail.backends.locmem import EmailBackend as Outbox
from django.core.mail.backends.smtp import EmailBackend
from django.urls import reverse

from accounts.models import AuditEntry
from accounts.tests.make import (
    NEW_PASSWORD,
    PASSWORD,
    is_logged_in,
    make_verified_user,
    reauthenticated_client,
    totp_code,
)

# mails about a second factor are sent on commit
pytestmark = pytest.mark.django_db(transaction=True)

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


def test_a_mail_server_that_does_not_answer_delays_a_request_for_seconds_only():
    assert 0 < EmailBackend().timeout <= 10
