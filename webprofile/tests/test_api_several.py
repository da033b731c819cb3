"""One act on several devices or users over the API: what came of each, and nothing by halves."""

import pytest

from accounts.models import AuditEntry, User
from accounts.rest.admin_acts import APPLY as USER_APPLY
from accounts.rest.admin_bodies import USER_ACTS
from accounts.system import system_user
from tasks.tests.make import make_user, make_worker
from webprofile.tests.documented_api import caller, refused
from workers.models import HealthCheck, Worker
from workers.rest.admin_acts import APPLY as WORKER_APPLY
from workers.rest.admin_bodies import WORKER_ACTS
from workers.services import worker_retire

pytestmark = [pytest.mark.django_db, pytest.mark.database]

WORKERS = "/api/v1/admin/workers/acts/"
USERS = "/api/v1/admin/users/acts/"


@pytest.fixture
def root():
    return make_user("root", is_staff=True, is_superuser=True)


@pytest.fixture
def client(root):
    return caller(root)


def came(client, path: str, act: str, *asked: int | str) -> list[tuple[str, str, str]]:
    noun = "workers" if path == WORKERS else "users"
    answer = client.post(path, {"act": act, noun: list(asked)}, format="json")
    assert answer.status_code == 200, answer.content
    rows = answer.json()["rows"]
    assert all(bool(row["detail"]) is (row["result"] == "refused") for row in rows)
    return [(row["name"], row["result"], row["code"]) for row in rows]


def test_each_device_has_its_result_in_the_order_asked_for(client, root):
    box, board, old = (make_worker(name) for name in ("box", "board", "old"))
    Worker.objects.filter(pk=board.pk).update(is_enabled=False)
    worker_retire(old, by=None)
    AuditEntry.objects.all().delete()
    gone = f"old.retired-{old.pk}"
    assert came(client, WORKERS, "drain", old.pk, "box", board.pk, box.pk) == [
        (gone, "refused", "worker_retired"),
        ("box", "changed", ""),
        ("board", "unchanged", ""),
    ]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target_name) == ("worker.drain", root, "box")
    assert [each[1] for each in came(client, WORKERS, "drain", "box", "board")] == ["unchanged"] * 2


def test_who_takes_their_own_rights_does_it_last(client, root):
    for name in ("alice", "bob"):
        make_user(name, is_staff=True, is_superuser=True)
    assert came(client, USERS, "demote", root.pk, "alice@example.com") == [
        ("root@example.com", "changed", ""),
        ("alice@example.com", "changed", ""),
    ]
    body = {"act": "promote", "users": [root.pk]}
    refused(client.post(USERS, body, format="json"), 403, "administrators_only")


def test_a_device_that_does_not_exist_keeps_all_as_they_are(client):
    box = make_worker("box")
    body = {"act": "retire", "workers": [box.pk, "bx", 999]}
    answer = refused(client.post(WORKERS, body, format="json"), 404, "workers_unknown")
    assert "bx" in answer["detail"]
    assert "999" in answer["detail"]
    box.refresh_from_db()
    assert box.retired_at is None
    assert not AuditEntry.objects.exists()


@pytest.mark.usefixtures("storage")
def test_several_devices_are_checked_and_one_that_is_away_says_so(client):
    make_worker("box")
    make_worker("away", online=False)
    assert came(client, WORKERS, "check", "box", "away") == [
        ("box", "changed", ""),
        ("away", "refused", "health_check_impossible"),
    ]
    assert HealthCheck.objects.get().worker.name == "box"


def test_the_last_administrator_and_oneself_are_refused_among_others(client, root):
    bob, other = make_user("bob"), make_user("other", is_staff=True, is_superuser=True)
    assert came(client, USERS, "deactivate", bob.email.upper(), root.pk, other.pk) == [
        ("bob@example.com", "changed", ""),
        ("root@example.com", "refused", "user_is_oneself"),
        ("other@example.com", "changed", ""),
    ]
    assert came(client, USERS, "demote", root.pk) == [
        ("root@example.com", "refused", "last_administrator")
    ]
    assert came(client, USERS, "reactivate", bob.pk, root.pk) == [
        ("bob@example.com", "changed", ""),
        ("root@example.com", "unchanged", ""),
    ]


def test_the_sites_own_user_is_nobody_to_act_on(client):
    nobody = system_user()
    body = {"act": "promote", "users": [nobody.pk]}
    refused(client.post(USERS, body, format="json"), 404, "users_unknown")
    assert not User.objects.get(pk=nobody.pk).is_staff


@pytest.mark.parametrize("path", [WORKERS, USERS])
@pytest.mark.parametrize(
    "changes",
    [{"act": "enrol"}, {"act": ""}, {"act": None}, {"rows": [1]}, {"act": ["drain"]}],
)
def test_an_act_that_is_none_is_refused(client, path, changes):
    noun = "workers" if path == WORKERS else "users"
    body = {"act": "drain" if path == WORKERS else "promote", noun: [1]} | changes
    refused(client.post(path, body, format="json"), 422, "invalid")


@pytest.mark.parametrize("asked", [[], [0], [True], [1.5], [""], [{}], "box", ["x"] * 501])
def test_rows_that_are_none_are_refused(client, asked):
    refused(client.post(WORKERS, {"act": "drain", "workers": asked}, format="json"), 422, "invalid")


def test_each_act_that_is_named_has_a_service():
    assert set(WORKER_ACTS) == set(WORKER_APPLY)
    assert set(USER_ACTS) == set(USER_APPLY)
