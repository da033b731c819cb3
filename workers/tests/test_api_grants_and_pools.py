"""Pools, and who may choose which private device, over the API of administrators."""

import pytest

from accounts.models import AuditEntry
from tasks.tests.make import make_user, make_worker
from webprofile.tests.documented_api import caller, refused
from workers.models import Grant, Pool, Worker
from workers.services import worker_retire

pytestmark = [pytest.mark.django_db, pytest.mark.database]

WORKERS = "/api/v1/admin/workers/"
POOLS = "/api/v1/admin/pools/"
GRANTS = "/api/v1/admin/grants/"
HUGE = 2**63 - 1


@pytest.fixture
def root():
    return make_user("root", is_staff=True, is_superuser=True)


@pytest.fixture
def client(root):
    return caller(root)


def last_entry():
    return AuditEntry.objects.latest("id")


def post(client, path, body=None):
    return client.post(path, body or {}, format="json")


def test_pools_are_made_changed_and_deleted(client):
    make_worker("a"), make_worker("b")
    made = post(client, POOLS, {"name": "arm", "description": "phones", "workers": ["a"]})
    assert (made.status_code, made.json()["workers"]) == (201, ["a"])
    own = f"{POOLS}{made.json()['id']}/"
    changed = client.patch(own, {"workers": ["b", "a", "b"], "name": "arms"}, format="json").json()
    assert (changed["name"], changed["workers"]) == ("arms", ["a", "b"])
    assert client.get(own).json() == changed
    assert client.get(POOLS).json()["results"] == [changed]
    assert client.delete(own).status_code == 204
    refused(client.delete(own), 404, "not_found")
    refused(client.patch(own, {}, format="json"), 404, "not_found")
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["pool.create", "pool.change", "pool.delete"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid"),
        ({"name": "a b"}, 422, "pool_name_bad"),
        ({"name": "taken"}, 409, "pool_name_taken"),
        ({"name": "x" * 61}, 422, "invalid"),
        ({"name": "arm", "description": "x" * 301}, 422, "invalid"),
        ({"name": "arm", "workers": ["none"]}, 404, "workers_unknown"),
        ({"name": "arm", "workers": ["old"]}, 409, "workers_retired"),
        ({"name": "arm", "workers": [1]}, 422, "invalid"),
        ({"name": "arm", "workers": {"a": 1}}, 422, "invalid"),
    ],
)
def test_a_pool_that_cannot_be_is_not_made(client, body, status, code):
    Pool.objects.create(name="taken")
    old = make_worker("old")
    worker_retire(old, by=None)
    Worker.objects.filter(pk=old.pk).update(name="old")
    refused(post(client, POOLS, body), status, code)
    assert Pool.objects.count() == 1


def test_several_users_get_and_lose_several_devices_at_once(client, root):
    bob, eve = make_user("bob"), make_user("eve")
    box, _ = (make_worker(name, is_public=False) for name in ("box", "lab"))
    body = {"users": [bob.pk, "EVE@example.com"], "workers": [box.pk, "lab"]}
    assert post(client, GRANTS, body).json() == {"changed": 4}
    assert post(client, GRANTS, body).json() == {"changed": 0}
    assert client.get(f"{WORKERS}{box.pk}/").json()["users"] == [bob.email, eve.email]
    assert caller(bob).get("/api/v1/workers/lab/").status_code == 200
    fewer = {"users": [bob.pk, bob.email], "workers": ["box"]}
    assert post(client, f"{GRANTS}remove/", fewer).json() == {"changed": 1}
    assert post(client, f"{GRANTS}remove/", fewer).json() == {"changed": 0}
    assert caller(bob).get("/api/v1/workers/box/").status_code == 404
    entry = last_entry()
    assert (entry.action, entry.actor, entry.target_name) == ("grant.remove", root, "box")
    assert (entry.before, entry.after) == ({bob.email: True}, {bob.email: False})
    assert AuditEntry.objects.filter(action="grant.add").count() == 2


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"users": []}, 422, "invalid"),
        ({"workers": []}, 422, "invalid"),
        ({"users": None}, 422, "invalid"),
        ({"users": "bob@example.com"}, 422, "invalid"),
        ({"users": [True]}, 422, "invalid"),
        ({"users": [1.5]}, 422, "invalid"),
        ({"users": [0]}, 422, "invalid"),
        ({"users": [-1]}, 422, "invalid"),
        ({"users": [HUGE + 1]}, 422, "invalid"),
        ({"users": [""]}, 422, "invalid"),
        ({"users": ["x\x00"]}, 422, "invalid"),
        ({"users": ["x" * 255]}, 422, "invalid"),
        ({"users": [[1]]}, 422, "invalid"),
        ({"users": [1] * 501}, 422, "invalid"),
        ({"users": [HUGE]}, 404, "users_unknown"),
        ({"users": ["nobody@example.com"]}, 404, "users_unknown"),
        ({"users": ["gone@example.com"]}, 404, "users_unknown"),
        ({"users": ["out@example.com"]}, 409, "users_inactive"),
        ({"workers": [HUGE]}, 404, "workers_unknown"),
        ({"workers": ["BOX"]}, 404, "workers_unknown"),
        ({"workers": ["retired"]}, 409, "workers_retired"),
        ({"more": 1}, 422, "invalid"),
    ],
)
def test_a_grant_that_cannot_be_grants_nobody_anything(client, change, status, code):
    bob = make_user("bob")
    make_user("gone").delete()
    make_user("out", is_active=False)
    box, retired = make_worker("box", is_public=False), make_worker("retired")
    worker_retire(retired, by=None)
    Worker.objects.filter(pk=retired.pk).update(name="retired")
    whole = {"users": [bob.pk], "workers": [box.pk]}
    if change.get("users") and len(change["users"]) == 1 and code != "invalid":
        change = {"users": [bob.pk, *change["users"]]}  # one who could get it beside one who cannot
    refused(post(client, GRANTS, whole | change), status, code)
    assert not Grant.objects.exists()
    assert not AuditEntry.objects.filter(action="grant.add").exists()
