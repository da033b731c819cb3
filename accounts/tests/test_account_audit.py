"""Changes that users make to how they log in are audited, without secrets."""

import re
from datetime import timedelta

import pytest
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from accounts.models import AuditEntry, User
from accounts.tests.make import (
    NEW_PASSWORD,
    PASSWORD,
    make_verified_user,
    reauthenticated_client,
    totp_code,
)
from accounts.webhooks.registration import add_webhook
from profiles.retention.deletion import delete_task
from profiles.retention.policy import POLICIES, purge
from tasks.lifecycle.cancel import cancel_task
from tasks.tests.make import make_user, make_waiting_task
from webprofile.admin.entries import ACTIONS, action_name, differences

pytestmark = [pytest.mark.django_db, pytest.mark.database]

LOG = "/admin/accounts/auditentry/"


@pytest.fixture
def committed(django_capture_on_commit_callbacks):
    """Run on_commit callbacks: django-allauth sends signals of second factors on commit."""
    return lambda: django_capture_on_commit_callbacks(execute=True)


def audit_entries():
    """Return the audit entries, oldest first; check that each is by a user about that user."""
    entries = list(AuditEntry.objects.order_by("id"))
    for entry in entries:
        assert entry.actor_id is not None
        assert (entry.target_type, entry.target_id) == ("user", str(entry.actor_id))
    return [(entry.action, entry.before, entry.after) for entry in entries]


def test_a_registration_is_audited_with_the_client_address():
    form = {"email": "new@example.com", "password1": PASSWORD, "password2": PASSWORD}
    Client().post(reverse("account_signup"), form, REMOTE_ADDR="192.0.2.7")
    assert audit_entries() == [("user.register", {}, {})]
    entry = AuditEntry.objects.get()
    assert (entry.actor_email, entry.address) == ("new@example.com", "192.0.2.7")


def test_a_rejected_registration_is_not_audited():
    make_user()
    form = {"email": "alice@example.com", "password1": PASSWORD, "password2": PASSWORD}
    Client().post(reverse("account_signup"), form)
    assert audit_entries() == []


def test_an_authenticator_app_is_audited_without_its_secret(committed):
    make_user()
    client = reauthenticated_client()
    secret = client.get(reverse("mfa_activate_totp")).context["form"].secret
    with committed():
        client.post(reverse("mfa_activate_totp"), {"code": totp_code(secret)})
    actions = {action for action, _, _ in audit_entries()}
    assert actions == {"authenticator_app.add", "recovery_codes.add"}
    codes = Authenticator.objects.get(type="recovery_codes").wrap().get_unused_codes()
    with committed():
        client.post(reverse("mfa_generate_recovery_codes"))
    assert audit_entries()[2] == ("recovery_codes.add", {}, {})
    with committed():
        client.post(reverse("mfa_deactivate_totp"))
    actions = {action for action, _, _ in audit_entries()[3:]}
    assert actions == {"authenticator_app.remove", "recovery_codes.remove"}
    written = str(list(AuditEntry.objects.values()))
    assert all(text not in written for text in (secret, *codes))


def test_a_security_key_is_audited_with_its_name_only(committed):
    alice = make_user()
    data = {"name": "blue key", "credential": {"id": "hidden"}}
    client = reauthenticated_client()
    key = Authenticator.objects.create(user=alice, type="webauthn", data=data)
    mfa.authenticator_added.send(Authenticator, request=None, user=alice, authenticator=key)
    with committed():
        client.post(reverse("mfa_remove_webauthn", args=[key.pk]))
    assert audit_entries() == [
        ("security_key.add", {}, {"name": "blue key"}),
        ("security_key.remove", {"name": "blue key"}, {}),
    ]


def test_a_changed_password_is_audited_once():
    alice = make_user()
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    reauthenticated_client().post(reverse("account_change_password"), form)
    assert audit_entries() == [("user.change_password", {}, {})]
    alice.refresh_from_db()
    assert alice.check_password(NEW_PASSWORD)
    assert NEW_PASSWORD not in str(list(AuditEntry.objects.values()))


def test_the_first_password_of_a_user_from_a_provider_is_audited():
    alice = make_user()
    User.objects.filter(pk=alice.pk).update(password="!none")
    client = Client()
    client.force_login(User.objects.get())
    client.post(
        reverse("account_set_password"), {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    )
    assert [entry[0] for entry in audit_entries()] == ["user.change_password"]


def test_a_password_reset_by_mail_is_audited(settings):
    settings.HAS_MAIL_SERVER = True
    make_user()
    client = Client()
    client.post(reverse("account_reset_password"), {"email": "alice@example.com"})
    assert audit_entries() == []
    link = re.search(r"http://127.0.0.1:8000(/\S+)", mail.outbox[-1].body)[1]
    page = client.get(link, follow=True)
    address = page.redirect_chain[-1][0]
    client.post(address, {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD})
    assert audit_entries() == [("user.reset_password", {}, {})]


def test_changes_of_addresses_are_audited():
    alice = make_verified_user()
    client, page = reauthenticated_client(), reverse("account_email")
    client.post(page, {"action_add": "", "email": "second@example.com"})
    link = re.search(r"http://127.0.0.1:8000(/\S+)", mail.outbox[-1].body)[1]
    client.post(link)
    client.post(page, {"action_primary": "", "email": "second@example.com"})
    client.post(page, {"action_remove": "", "email": alice.email})
    first, second = {"email": alice.email}, {"email": "second@example.com"}
    assert audit_entries() == [
        ("user.add_email", {}, second),
        ("user.verify_email", {}, second),
        ("user.change_email", first, second),
        ("user.remove_email", first, {}),
    ]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_audit_log_shows_translated_actions(language):
    root = make_user("root", is_staff=True, is_superuser=True, language=language)
    alice = make_user()
    noted = [code for code in ACTIONS if code.partition(".")[2] in {"add", "remove", "register"}]
    for code in noted:
        AuditEntry.objects.create(
            actor=alice, action=code, target_type="user", target_id=alice.pk,
            before={"email": "old@example.com"}, after={"identity": "Example Ltd."},
        )  # fmt: skip
    client = Client()
    client.force_login(root)
    page = client.get(LOG).text
    with translation.override(language):
        for code in noted:
            assert action_name(code) in re.findall(r'field-what">([^<]+)<', page)
        keys = {change.key for change in differences(AuditEntry.objects.first())}
    words = {"en": {"e-mail", "identity provider"}, "zh-hans": {"邮箱", "身份提供方"}}
    assert keys == words[language]


def test_the_audit_log_names_the_values_of_every_entry_in_chinese():
    alice, root = make_user(), make_user("root", is_staff=True, is_superuser=True)
    add_webhook(alice, url="https://hooks.example.org/", events=["task.finished"])
    task = make_waiting_task(alice)
    cancel_task(task)
    delete_task(task, by=root)
    long_ago = timezone.now() - timedelta(days=90)
    Session.objects.create(session_key="old", session_data="", expire_date=long_ago)
    purge(POLICIES["sessions"], 30)
    with translation.override("zh-hans"):
        for entry in AuditEntry.objects.all():
            for change in differences(entry):
                assert re.search("[\u4e00-\u9fff]", change.key), (entry.action, change.key)
