"""`manage.py users`: changes, refusals and audit entries."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from accounts.models import AuditEntry, User
from accounts.tests.make import NEW_PASSWORD, log_in
from accounts.tokens.access import issue_token, usable_tokens
from tasks.tests.make import make_user, make_worker
from workers.models import Grant

pytestmark = pytest.mark.django_db


def users(*arguments: str) -> str:
    out = io.StringIO()
    call_command("users", *arguments, stdout=out)
    return out.getvalue()


@pytest.fixture
def set_stdin(monkeypatch):
    """Return a function that sets standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_create_reads_the_password_from_standard_input(set_stdin):
    set_stdin(f"{NEW_PASSWORD}\nanother line\n")
    users("create", "Bob@Example.com", "--administrator")
    bob = User.objects.get()
    assert (bob.email, bob.is_staff, bob.check_password(NEW_PASSWORD)) == (
        "bob@example.com",
        True,
        True,
    )
    entry = AuditEntry.objects.get(action="user.create")
    assert (entry.actor, entry.target_name) == (None, "bob@example.com")
    assert NEW_PASSWORD not in str(entry.after)


@pytest.mark.parametrize(
    ("text", "email", "message"),
    [
        ("", "bob@example.com", "No password"),
        ("short\n", "bob@example.com", "too short"),
        (f"{NEW_PASSWORD}\n", "bob", "e-mail"),
        (f"{NEW_PASSWORD}\n", "ALICE@example.com", "e-mail"),
    ],
)
def test_an_invalid_user_is_rejected(set_stdin, text, email, message):
    make_user("alice")
    set_stdin(text)
    with pytest.raises(CommandError, match=message):
        users("create", email)
    assert User.objects.count() == 1


def test_a_password_is_set_but_not_accepted_as_an_argument(set_stdin):
    alice = make_user("alice")
    set_stdin(f"{NEW_PASSWORD}\n")
    users("set-password", alice.email)
    alice.refresh_from_db()
    assert alice.check_password(NEW_PASSWORD)
    with pytest.raises(CommandError, match="unrecognized"):
        users("set-password", alice.email, NEW_PASSWORD)


def test_users_are_promoted_and_demoted_except_the_last_administrator():
    make_user("alice"), make_user("bob")
    assert users("promote", "alice@example.com", "bob@example.com").splitlines() == [
        "alice@example.com is now an administrator.",
        "bob@example.com is now an administrator.",
    ]
    output = users("promote", "alice@example.com")
    assert output == "alice@example.com was already an administrator.\n"
    users("demote", "alice@example.com")
    with pytest.raises(CommandError, match=r"^bob@example\.com is the last administrator"):
        users("demote", "bob@example.com")
    with pytest.raises(CommandError):
        users("deactivate", "bob@example.com")
    users("deactivate", "alice@example.com")
    assert not User.objects.get(email="alice@example.com").is_active
    users("reactivate", "alice@example.com")
    assert User.objects.get(email="alice@example.com").is_active


def test_an_address_may_be_written_as_at_its_registration(set_stdin):
    set_stdin(f"{NEW_PASSWORD}\n")
    users("create", "Bob@BÜCHER.example")
    assert "is now an administrator" in users("promote", "bob@bücher.example")


def test_sessions_are_ended(client):
    alice = make_user("alice")
    log_in(client, alice.email)
    assert client.get("/tasks/").status_code == 200
    assert (
        users("end-sessions", alice.email) == "All sessions of alice@example.com have been ended.\n"
    )
    assert client.get("/tasks/").status_code == 302
    output = users("end-sessions", alice.email)
    assert output == "alice@example.com had no sessions or access tokens.\n"


def test_an_error_for_one_user_does_not_prevent_the_others():
    for name in ("alice", "bob"):
        make_user(name, is_staff=True, is_superuser=True)
    out = io.StringIO()
    with pytest.raises(CommandError, match=r"^bob@example\.com is the last administrator"):
        emails = [f"{name}@example.com" for name in ("alice", "bob", "carol")]
        make_user("carol")
        call_command("users", "demote", *emails, stdout=out)
    assert out.getvalue().splitlines() == [
        "alice@example.com is no longer an administrator.",
        "carol@example.com was not an administrator.",
    ]


def test_an_unknown_user_prevents_all_changes():
    alice = make_user("alice")
    with pytest.raises(CommandError, match=r"User x@example\.com does not exist") as error:
        users("promote", alice.email, "x@example.com")
    alice.refresh_from_db()
    assert (alice.is_staff, error.value.returncode) == (False, 2)


def test_grants_are_added_and_revoked():
    alice, worker = make_user("alice"), make_worker("secret", is_public=False)
    users("grant", alice.email, "secret")
    assert Grant.objects.get().worker == worker
    assert "0 grants" in users("grant", alice.email, "secret")
    users("revoke-grant", alice.email, "secret")
    assert not Grant.objects.exists()
    with pytest.raises(CommandError) as caught:
        users("grant", alice.email, "secret", "none")
    assert caught.value.returncode == 2


def test_an_access_token_is_revoked_by_its_prefix():
    alice, bob = make_user("alice"), make_user("bob")
    revoked, _ = issue_token(alice, name="lost", scopes=["read"], days=1)
    kept, _ = issue_token(alice, name="kept", scopes=["read"], days=1)
    with pytest.raises(CommandError, match="no access token"):
        users("revoke-token", bob.email, revoked.prefix)
    assert users("revoke-token", alice.email, f"{revoked.prefix}…") == "lost revoked\n"
    assert list(usable_tokens(alice)) == [kept]
    assert AuditEntry.objects.get(action="access_token.revoke").actor is None
    with pytest.raises(CommandError, match="no access token"):
        users("revoke-token", alice.email, revoked.prefix)


def test_users_are_listed_as_a_table_and_as_json():
    make_user("alice"), make_user("bob", is_staff=True)
    assert "alice@example.com" in users("list")
    rows = [json.loads(line) for line in users("list", "--json").splitlines()]
    assert [row["role"] for row in rows] == ["user", "administrator"]
    assert "alice" not in users("list", "--administrators")
    assert "bob" not in users("list", "--match", "ALI")
