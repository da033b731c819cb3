"""Messages that administrators see after an action on users."""

import pytest

from accounts.models import User
from tasks.tests.make import make_user, make_worker
from webprofile.tests.admin_messages import messages_after, messages_in

pytestmark = pytest.mark.django_db

USERS = "/admin/accounts/user/"


@pytest.fixture
def root(client):
    user = make_user("root", is_staff=True, is_superuser=True)
    client.force_login(user)
    return user


@pytest.mark.parametrize(
    ("name", "one", "several", "again"),
    [
        (
            "promote",
            "bob@example.com is now an administrator.",
            "carol@example.com, dave@example.com are now administrators.",
            "bob@example.com was already an administrator.",
        ),
        (
            "deactivate",
            "bob@example.com was deactivated.",
            "carol@example.com, dave@example.com were deactivated.",
            "bob@example.com was already deactivated.",
        ),
    ],
)
def test_messages_have_singular_and_plural_forms(client, root, name, one, several, again):
    bob, carol, dave = (make_user(name) for name in ("bob", "carol", "dave"))
    assert messages_after(client, USERS, name, bob) == [one]
    assert messages_after(client, USERS, name, carol, dave) == [several]
    assert messages_after(client, USERS, name, bob) == [again]


def test_each_action_has_a_message_for_no_change(client, root):
    bob = make_user("bob")
    assert messages_after(client, USERS, "demote", bob) == [
        "bob@example.com was not an administrator."
    ]
    assert messages_after(client, USERS, "reactivate", bob) == [
        "bob@example.com was already active."
    ]
    assert messages_after(client, USERS, "end_sessions", bob) == [
        "bob@example.com had no sessions or access tokens."
    ]


def test_an_error_names_its_user_once(client, root):
    (text,) = messages_after(client, USERS, "demote", root)
    assert text.startswith("root@example.com is the last administrator")
    assert text.count("root@example.com") == 1
    assert messages_after(client, USERS, "deactivate", root) == [
        "root@example.com: You cannot deactivate yourself. Ask another administrator."
    ]


def test_counts_of_grants_have_a_singular_form(client, root):
    bob, carol, board = make_user("bob"), make_user("carol"), make_worker(is_public=False)

    def granted(*users: User, name: str = "grant_workers") -> list[str]:
        chosen = {"action": name, "_selected_action": [user.pk for user in users]}
        data = {**chosen, "chosen": "yes", "workers": [board.pk]}
        return messages_in(client.post(USERS, data, follow=True).content.decode())

    assert granted(bob) == ["1 permission granted."]
    assert granted(bob) == ["Nothing has been changed."]
    assert granted(bob, carol) == ["1 permission granted."]
    assert granted(bob, carol, name="ungrant_workers") == ["2 permissions revoked."]
