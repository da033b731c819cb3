"""Services for administrators: they change users, but never remove the last administrator."""

from datetime import timedelta
from functools import partial

import pytest
from allauth.usersessions.models import UserSession
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts import services
from accounts.models import AccessToken, AuditEntry, User
from accounts.services import system_user
from accounts.sessions import end_session, end_user_sessions, sessions_of
from accounts.tests.make import NEW_PASSWORD, PASSWORD, log_in, reauthenticated_client
from accounts.tests.threads import at_once
from tasks.tests.make import make_user
from webprofile.errors import DomainError

pytestmark = [pytest.mark.django_db, pytest.mark.database]


def make_administrator(name: str = "root") -> User:
    return make_user(name, is_staff=True, is_superuser=True)


def make_token(user: User, *scopes: str) -> AccessToken:
    return AccessToken.objects.create(
        user=user,
        name="ci",
        sha256=f"{user.pk}-{AccessToken.objects.count()}",
        scopes=list(scopes),
        expires_at=timezone.now() + timedelta(days=1),
    )


def rejected(code: str):
    return pytest.raises(DomainError, match=rf"^{code}\b")


def last_entry() -> AuditEntry:
    entry = AuditEntry.objects.first()
    assert entry is not None
    return entry


def test_a_promoted_user_has_all_permissions_and_the_promotion_is_audited():
    root, bob = make_administrator(), make_user("bob")
    assert services.promote_user(bob, by=root)
    assert (bob.is_staff, bob.is_superuser) == (True, True)
    entry = last_entry()
    assert (entry.action, entry.actor, entry.target_name) == ("user.promote", root, bob.email)
    assert (entry.before, entry.after) == ({"administrator": False}, {"administrator": True})


def test_a_call_without_effect_is_not_audited():
    root, bob = make_administrator(), make_user("bob")
    assert not services.promote_user(root, by=root)
    assert not services.demote_user(bob, by=root)
    assert not services.reactivate_user(bob, by=root)
    assert not AuditEntry.objects.exists()


def test_a_deactivated_user_is_not_promoted():
    root, bob = make_administrator(), make_user("bob", is_active=False)
    with rejected("user_inactive"):
        services.promote_user(bob, by=root)


@pytest.mark.parametrize("by_command", [True, False])
def test_the_last_administrator_cannot_be_demoted_or_deactivated(by_command):
    root = make_administrator()
    make_user("gone", is_staff=True, is_superuser=True, is_active=False)
    by = None if by_command else root
    with rejected("last_administrator"):
        services.demote_user(root, by=by)
    with rejected("last_administrator" if by_command else "user_is_oneself"):
        services.deactivate_user(root, by=by)
    root.refresh_from_db()
    assert root.is_staff
    assert root.is_active
    assert not AuditEntry.objects.exists()


def test_a_deactivated_administrator_can_be_demoted():
    root = make_administrator()
    gone = make_user("gone", is_staff=True, is_superuser=True, is_active=False)
    assert services.demote_user(gone, by=root)
    gone.refresh_from_db()
    assert not gone.is_staff


def test_users_cannot_deactivate_themselves():
    make_administrator("other")
    root = make_administrator()
    with rejected("user_is_oneself"):
        services.deactivate_user(root, by=root)


def test_a_demoted_administrator_cannot_change_users():
    root, other, bob = make_administrator(), make_administrator("other"), make_user("bob")
    services.demote_user(other, by=root)
    for act in (services.promote_user, services.demote_user, services.deactivate_user):
        with rejected("not_administrator"):
            act(bob, by=other)
    with rejected("not_administrator"):
        services.set_user_password(bob, password=NEW_PASSWORD, by=other)


@pytest.mark.parametrize("act", [services.demote_user, services.deactivate_user])
def test_one_administrator_remains_when_two_demote_each_other_concurrently(transactional_db, act):
    for round_ in range(5):
        ((a, b),) = at_once(lambda r=round_: [make_administrator(f"{x}{r}") for x in "ab"])
        results = at_once(partial(act, b, by=a), partial(act, a, by=b))
        assert sorted(map(str, results)) == ["True", "not_administrator"]
        active = User.objects.filter(is_staff=True, is_active=True)
        assert at_once(active.count) == [1]
        at_once(lambda: User.objects.update(is_staff=False, is_superuser=False))


def test_one_administrator_remains_when_all_are_demoted_concurrently(transactional_db):
    ((a, b, c),) = at_once(lambda: [make_administrator(x) for x in "abc"])
    results = at_once(*[lambda u=u: services.demote_user(u, by=None) for u in (a, b, c)])
    assert sorted(map(str, results)) == ["True", "True", "last_administrator"]


def test_the_update_statement_rejects_the_last_administrator(monkeypatch):
    """Without the lock, as in a transaction that still saw two administrators."""
    root = make_administrator()
    monkeypatch.setattr(services, "_lock_administrators", lambda by: None)
    stale = User.objects.get(pk=root.pk)
    with rejected("last_administrator"):
        services.demote_user(stale, by=make_user("nobody"))


def test_demotion_revokes_tokens_with_the_admin_scope():
    root, other = make_administrator(), make_administrator("other")
    admin_token, plain = make_token(other, "read", "admin"), make_token(other, "read")
    services.demote_user(other, by=root)
    admin_token.refresh_from_db()
    plain.refresh_from_db()
    assert admin_token.revoked_at is not None
    assert plain.revoked_at is None


def test_a_new_password_ends_sessions_and_tokens_and_can_log_in(client):
    root, bob = make_administrator(), make_user("bob")
    log_in(client, bob.email)
    token = make_token(bob, "read")
    services.set_user_password(bob, password=NEW_PASSWORD, by=root)
    assert client.get("/tasks/").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert not UserSession.objects.filter(user=bob).exists()
    assert Client().login(email=bob.email, password=NEW_PASSWORD)
    entry = last_entry()
    assert (entry.action, entry.before) == (
        "user.set_password",
        {"sessions": 1, "access_tokens": 1},
    )
    assert NEW_PASSWORD not in str(entry.after)


@pytest.mark.parametrize(
    "password", ["", "short", "1234567890123", "password123", "bob@example.com"]
)
def test_a_weak_password_is_rejected_and_ends_no_session(client, password):
    root, bob = make_administrator(), make_user("bob")
    client.force_login(bob)
    with rejected("password_weak"):
        services.set_user_password(bob, password=password, by=root)
    assert client.get("/tasks/").status_code == 200


def test_a_deactivated_user_is_logged_out_and_keeps_the_password_after_reactivation(client):
    root, bob = make_administrator(), make_user("bob")
    log_in(client, bob.email)
    assert client.get("/tasks/").status_code == 200
    token = make_token(bob, "read")
    assert services.deactivate_user(bob, by=root)
    assert client.get("/tasks/").status_code == 302
    assert not Client().login(email=bob.email, password=PASSWORD)
    assert services.reactivate_user(bob, by=root)
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert client.get("/tasks/").status_code == 302
    assert Client().login(email=bob.email, password=PASSWORD)
    actions = list(AuditEntry.objects.values_list("action", flat=True))
    assert actions == ["user.reactivate", "user.deactivate"]


def test_sessions_end_one_by_one_or_all_except_the_current_one(client):
    root, bob = make_administrator(), make_user("bob")
    other, third = Client(HTTP_USER_AGENT="phone"), Client()
    for browser in (client, other, third):
        log_in(browser, bob.email)
    sessions = sessions_of(bob)
    assert len(sessions) == 3
    phone = next(s for s in sessions if s.user_agent == "phone")
    end_session(bob, session_id=phone.pk, by=root)
    assert other.get("/tasks/").status_code == 302
    with rejected("session_unknown"):
        end_session(bob, session_id=phone.pk, by=root)
    with rejected("session_unknown"):
        end_session(root, session_id=sessions_of(bob)[0].pk, by=root)
    assert end_user_sessions(bob, by=root, keep=client.session.session_key) == 1
    assert client.get("/tasks/").status_code == 200
    assert third.get("/tasks/").status_code == 302


@pytest.mark.parametrize(
    ("email", "password", "code"),
    [
        ("", NEW_PASSWORD, "email_bad"),
        ("no address", NEW_PASSWORD, "email_bad"),
        ("x" * 300 + "@example.com", NEW_PASSWORD, "email_bad"),
        ("BOB@Example.COM", NEW_PASSWORD, "email_taken"),
        ("new@example.com", "short", "password_weak"),
    ],
)
def test_an_invalid_user_is_not_created(email, password, code):
    make_user("bob")
    with rejected(code):
        services.create_account(email=email, password=password, by=None)
    assert User.objects.count() == 1


def test_a_change_by_a_page_is_audited_with_the_client_address(client):
    root, bob = make_administrator(), make_user("bob")
    client.force_login(root)
    data = {"action": "promote", "_selected_action": [bob.pk], "confirm": "yes"}
    client.post("/admin/accounts/user/", data, REMOTE_ADDR="192.0.2.7")
    entry = last_entry()
    assert (entry.action, entry.actor, entry.address) == ("user.promote", root, "192.0.2.7")
    services.demote_user(bob, by=root)
    assert last_entry().address is None


def test_a_user_cannot_take_the_address_of_a_new_user():
    """Without verification of addresses, bob has added the address of alice."""
    bob = make_user("bob")
    client = reauthenticated_client(bob.email)
    address = {"email": "alice@example.com"}
    client.post(reverse("account_email"), address | {"action_add": ""})
    services.create_account(email="alice@example.com", password=NEW_PASSWORD, by=None)
    answer = client.post(reverse("account_email"), address | {"action_primary": ""})
    assert answer.status_code == 302
    bob.refresh_from_db()
    assert bob.email == bob.emailaddress_set.get().email == "bob@example.com"


def test_the_system_user_cannot_be_administered(client):
    root = make_administrator()
    own = system_user()
    assert not services.reactivate_user(own, by=root)
    with pytest.raises(DomainError, match="user_inactive"):
        services.promote_user(own, by=root)
    client.force_login(root)
    page = client.get("/admin/accounts/user/").text
    assert "root@" in page
    assert own.email not in page
    assert client.get(f"/admin/accounts/user/{own.pk}/password/").status_code == 404
    with pytest.raises(CommandError, match=r"User \S+ does not exist"):
        call_command("users", "set-password", own.email)
