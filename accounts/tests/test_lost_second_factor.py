"""Only administrators can remove the second factor of a user who lost it."""

import io

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from accounts import services
from accounts.models import AuditEntry
from accounts.tests.make import is_logged_in, login, make_protected_user
from accounts.tokens.access import find_usable_token, issue_token
from accounts.tokens.refresh import issue_token_pair, renew_token_pair
from tasks.tests.make import make_user
from webprofile.errors import DomainError
from webprofile.tests.security_key import security_key

pytestmark = pytest.mark.django_db

USERS = "/admin/accounts/user/"
ACTION = "remove_second_factor"


@pytest.fixture
def browser(root):
    browser = Client()
    browser.force_login(root)
    return browser


@pytest.fixture
def alice():
    """A user with an authenticator app, recovery codes and a security key."""
    alice, _, _ = make_protected_user()
    WebAuthn.add(alice, "blue key", security_key())
    return alice


def last_entry():
    return AuditEntry.objects.latest("id")


def can_log_in_with_the_password_only(user):
    client, _ = login(email=user.email)
    return is_logged_in(client)


def test_after_removal_the_password_is_sufficient_and_the_removal_is_audited(root, alice):
    assert not can_log_in_with_the_password_only(alice)
    assert services.remove_second_factor(alice, by=root)
    assert can_log_in_with_the_password_only(alice)
    entry = last_entry()
    assert (entry.action, entry.actor) == ("user.remove_second_factor", root)
    removed = {"authenticator_app": True, "recovery_codes": True, "security_keys": ["blue key"]}
    assert removed.items() <= entry.before.items()


def test_removal_ends_sessions_and_tokens(root, alice):
    (codes,) = Authenticator.objects.filter(type="recovery_codes")
    phone, _ = login(email=alice.email)
    phone.post(reverse("mfa_authenticate"), {"code": codes.wrap().get_unused_codes()[0]})
    assert is_logged_in(phone)
    pair = issue_token_pair(alice)
    _, secret = issue_token(alice, name="a script", scopes=["read"], days=1)
    services.remove_second_factor(alice, by=root)
    assert not is_logged_in(phone)
    assert find_usable_token(secret) is None
    with pytest.raises(DomainError, match="token_invalid"):
        renew_token_pair(pair.refresh)


def test_removal_works_without_the_key_that_encrypted_the_secrets(root, alice, settings):
    settings.SECRET_KEY = "another key, of the new year, long enough"
    services.remove_second_factor(alice, by=root)
    assert can_log_in_with_the_password_only(alice)


@pytest.mark.parametrize("code", ["second_factor_none", "second_factor_own", "not_administrator"])
def test_removal_is_rejected_without_a_second_factor_and_for_oneself(root, alice, code):
    bob = make_user("bob")
    user, by = {
        "second_factor_none": (bob, root),
        "second_factor_own": (root, root),
        "not_administrator": (alice, bob),
    }[code]
    before = AuditEntry.objects.count()
    kept = Authenticator.objects.count()
    with pytest.raises(DomainError, match=code):
        services.remove_second_factor(user, by=by)
    assert (AuditEntry.objects.count(), Authenticator.objects.count()) == (before, kept)


def test_the_page_of_a_user_offers_the_removal_and_asks_for_confirmation(browser, alice):
    bob = make_user("bob")
    url = f"{USERS}{alice.pk}/act/{ACTION}/"
    assert url in browser.get(f"{USERS}{alice.pk}/change/").text
    assert ACTION not in browser.get(f"{USERS}{bob.pk}/change/").text
    confirmation = browser.post(url).text
    assert "Verify the identity of the user first" in confirmation
    assert alice.email in confirmation
    assert Authenticator.objects.exists()
    done = browser.post(url, {"confirm": "yes"}, follow=True).text
    assert "alice@example.com now logs in with the password only." in done
    assert "Second factor removed" in done
    assert "blue key" in done
    assert not Authenticator.objects.exists()


def test_the_list_removes_several_and_names_users_without_a_second_factor(browser, alice):
    bob = make_user("bob")
    form = {"action": ACTION, "_selected_action": [alice.pk, bob.pk]}
    assert "Verify the identity of the user first" in browser.post(USERS, form).text
    done = browser.post(USERS, form | {"confirm": "yes"}, follow=True).text
    assert "alice@example.com now logs in with the password only." in done
    assert "bob@example.com has no second factor." in done


def test_administrators_cannot_remove_their_own_second_factor(alice):
    alice.is_staff = alice.is_superuser = True
    alice.save()
    browser = Client()
    browser.force_login(alice)
    url = f"{USERS}{alice.pk}/act/{ACTION}/"
    page = browser.post(url, {"confirm": "yes"}, follow=True).text
    assert "Turn off your own second factor in your account" in page
    assert Authenticator.objects.exists()


def test_the_command_removes_the_second_factor_of_the_only_administrator(alice):
    out = io.StringIO()
    alice.is_staff = alice.is_superuser = True
    alice.save()
    call_command("users", "remove-second-factor", alice.email, stdout=out)
    assert out.getvalue() == "alice@example.com now logs in with the password only.\n"
    assert can_log_in_with_the_password_only(alice)
    with pytest.raises(CommandError, match=r"alice@example\.com has no second factor"):
        call_command("users", "remove-second-factor", alice.email, stdout=out)


@pytest.mark.parametrize("sends_mail", [True, False])
def test_the_user_gets_a_mail_in_their_language(
    root, alice, settings, django_capture_on_commit_callbacks, sends_mail
):
    settings.ACCOUNT_EMAIL_NOTIFICATIONS = sends_mail
    settings.SITE_URL = "https://site.example"
    alice.language = "zh-hans"
    alice.save()
    with django_capture_on_commit_callbacks(execute=True):
        services.remove_second_factor(alice, by=root)
    if not sends_mail:
        assert mail.outbox == []
        return
    (message,) = mail.outbox
    assert message.to == [alice.email]
    assert message.subject == "[site.example] 您的双因素认证已被移除"
    assert alice.email in message.body


def test_the_removal_does_not_depend_on_the_mail_server(
    browser, alice, settings, django_capture_on_commit_callbacks
):
    settings.ACCOUNT_EMAIL_NOTIFICATIONS = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    url = f"{USERS}{alice.pk}/act/{ACTION}/"
    with django_capture_on_commit_callbacks(execute=True):
        response = browser.post(url, {"confirm": "yes"})
    assert response.status_code == 302
    assert can_log_in_with_the_password_only(alice)


def test_the_login_page_refers_to_administrators():
    make_protected_user()
    client, _ = login()
    page = client.get(reverse("mfa_authenticate")).text
    assert "An administrator can remove your second factor." in page
