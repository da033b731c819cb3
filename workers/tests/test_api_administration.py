"""What administrators do with devices, pools and grants over the API, and what is refused."""

import datetime
import json
import re

import pytest
from django.test import Client
from django.utils import timezone

from accounts.access_tokens import token_issue
from accounts.models import AuditEntry
from tasks.models import Task
from tasks.tests.make import last_seen, make_attempt, make_user, make_waiting_task, make_worker
from webprofile.errors import DomainError
from webprofile.tests.documented_api import DocumentedClient, caller, refused
from workers.models import Grant, HealthCheck, Pool, Worker
from workers.services import worker_retire
from workers.tokens import code_issue, code_redeem

pytestmark = [pytest.mark.django_db, pytest.mark.database]

WORKERS = "/api/v1/admin/workers/"
POOLS = "/api/v1/admin/pools/"
GRANTS = "/api/v1/admin/grants/"
HUGE = 2**63 - 1
FACTS = {"hostname": "lab-7", "ip": "192.0.2.7", "cpu_model": "Kirin 990", "cores": 8}


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


def test_a_device_is_registered_with_a_line_that_lets_its_agent_in_once(client, root):
    answer = post(client, WORKERS, {"name": "box"})
    assert answer.status_code == 201
    made = answer.json()
    assert (made["worker"]["name"], made["worker"]["is_public"]) == ("box", False)
    assert made["worker"]["beat"] == "never"
    code = re.search(r"--code (\S+)", made["lines"]["curl"])[1]
    assert code in made["lines"]["clone"]
    worker = Worker.objects.get()
    assert code.encode() not in client.get(f"{WORKERS}{worker.pk}/").content
    assert code not in str(list(AuditEntry.objects.values()))
    assert code_redeem(code)[0] == worker
    with pytest.raises(DomainError, match="code_used"):
        code_redeem(code)
    assert [e.action for e in AuditEntry.objects.order_by("id")] == [
        "worker.create",
        "worker.enrol",
    ]
    assert all(entry.actor == root for entry in AuditEntry.objects.all())


def test_enrolling_again_voids_the_code_before(client):
    worker = make_worker("box")
    post(client, f"{WORKERS}{worker.pk}/enrol/")
    again = post(client, f"{WORKERS}{worker.pk}/enrol/")
    assert again.status_code == 200
    assert worker.secrets.filter(kind="code", used_at=None, revoked_at=None).count() == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "invalid"),
        ({"name": ""}, 422, "invalid"),
        ({"name": 7}, 422, "invalid"),
        ({"name": ["box"]}, 422, "invalid"),
        ({"name": "x" * 61}, 422, "invalid"),
        ({"name": "two words"}, 422, "worker_name_bad"),
        ({"name": "a/b"}, 422, "worker_name_bad"),
        ({"name": "taken"}, 409, "worker_name_taken"),
        ({"name": "box", "is_public": "yes"}, 422, "invalid"),
        ({"name": "box", "public": True}, 422, "invalid"),
        ({"name": "box\x00"}, 422, "invalid"),
    ],
)
def test_a_device_that_cannot_be_is_not_registered(client, body, status, code):
    make_worker("taken")
    refused(post(client, WORKERS, body), status, code)
    assert Worker.objects.count() == 1
    assert not AuditEntry.objects.exists()


ACTS = [
    ("drain", "is_enabled", False, "worker.drain"),
    ("resume", "is_enabled", True, "worker.resume"),
    ("publish", "is_public", True, "worker.publish"),
    ("hide", "is_public", False, "worker.hide"),
]


@pytest.mark.parametrize(("act", "field", "value", "action"), ACTS)
def test_an_act_changes_the_device_once_and_the_log_says_who_and_what(
    client, root, act, field, value, action
):
    worker = make_worker("box", **{field: not value})
    first = post(client, f"{WORKERS}{worker.pk}/{act}/")
    assert (first.status_code, first.json()[field]) == (200, value)
    entry = last_entry()
    assert (entry.action, entry.actor, entry.target_name) == (action, root, "box")
    assert post(client, f"{WORKERS}{worker.pk}/{act}/").json()[field] is value
    assert AuditEntry.objects.count() == 1


def test_resuming_lifts_what_a_health_check_held(client):
    worker = make_worker("box", held_at=timezone.now(), held_reason="timed out")
    assert client.get(f"{WORKERS}{worker.pk}/").json()["condition"] == "held"
    found = post(client, f"{WORKERS}{worker.pk}/resume/").json()
    assert (found["held_at"], found["held_reason"], found["condition"]) == (None, "", "free")


def test_revoking_shuts_the_agent_out_and_retiring_ends_the_device(client):
    worker, token = code_redeem(code_issue(make_worker("box")))
    assert post(client, f"{WORKERS}{worker.pk}/revoke/").status_code == 200
    beat = Client().get("/api/agent/check/", headers={"Authorization": f"Bearer {token}"})
    assert beat.status_code in (401, 403)
    task = make_waiting_task(worker=worker)
    retired = post(client, f"{WORKERS}{worker.pk}/retire/").json()
    assert (retired["name"], retired["condition"]) == (f"box.retired-{worker.pk}", "retired")
    assert retired["retired_at"]
    assert post(client, f"{WORKERS}{worker.pk}/retire/").status_code == 200
    assert AuditEntry.objects.filter(action="worker.retire").count() == 1
    assert Task.objects.filter(pk=task.pk).exists()


@pytest.mark.parametrize("act", ["drain", "resume", "publish", "hide", "enrol"])
def test_a_retired_device_takes_no_other_act(client, act):
    worker = make_worker("box")
    worker_retire(worker, by=None)
    refused(post(client, f"{WORKERS}{worker.pk}/{act}/"), 409, "worker_retired")
    refused(post(client, f"{WORKERS}{worker.pk}/check/"), 409, "health_check_impossible")
    refused(
        client.patch(f"{WORKERS}{worker.pk}/", {"slots": 2}, format="json"), 409, "worker_retired"
    )


@pytest.mark.usefixtures("storage")
def test_a_health_check_is_asked_for_once_and_noted(client, root):
    worker = make_worker("box")
    check = post(client, f"{WORKERS}{worker.pk}/check/")
    assert (check.status_code, check.json()["cause"], check.json()["result"]) == (201, "asked", "")
    entry = last_entry()
    assert (entry.action, entry.actor) == ("worker.health_check", root)
    refused(post(client, f"{WORKERS}{worker.pk}/check/"), 409, "health_check_impossible")
    listed = client.get(f"{WORKERS}{worker.pk}/health-checks/").json()["results"]
    assert [each["id"] for each in listed] == [check.json()["id"]]
    away, drained = make_worker(online=False), make_worker(is_enabled=False)
    for each in (away, drained):
        refused(post(client, f"{WORKERS}{each.pk}/check/"), 409, "health_check_impossible")
    assert HealthCheck.objects.count() == 1


def test_name_slots_labels_and_pools_are_changed_together(client):
    worker = make_worker("box", labels={"chip": "old"})
    Pool.objects.create(name="phones")
    body = {"name": "box-2", "slots": 2, "labels": {"chip": "kirin 990"}, "pools": ["phones"]}
    found = client.patch(f"{WORKERS}{worker.pk}/", body, format="json").json()
    assert (found["name"], found["slots"], found["pools"]) == ("box-2", 2, ["phones"])
    assert found["own_labels"] == {"chip": "kirin 990"}
    entry = last_entry()
    assert entry.before == {"name": "box", "slots": 1, "labels": {"chip": "old"}, "pools": []}
    assert entry.after == body
    client.patch(f"{WORKERS}{worker.pk}/", body, format="json")
    assert last_entry() == entry


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"slots": 0}, 422, "invalid"),
        ({"slots": 17}, 422, "invalid"),
        ({"slots": HUGE * 4}, 422, "invalid"),
        ({"slots": True}, 422, "invalid"),
        ({"slots": 1.0}, 422, "invalid"),
        ({"name": "two words"}, 422, "worker_name_bad"),
        ({"name": "taken"}, 409, "worker_name_taken"),
        ({"labels": {"a b": "c"}}, 422, "label_bad"),
        ({"labels": {"": "c"}}, 422, "label_bad"),
        ({"labels": {"chip": ""}}, 422, "invalid"),
        ({"labels": {"chip": 7}}, 422, "invalid"),
        ({"labels": {"chip": "x" * 101}}, 422, "invalid"),
        ({"labels": {"x" * 101: "c"}}, 422, "label_long"),
        ({"labels": {f"l{n}": "x" for n in range(33)}}, 422, "labels_many"),
        ({"labels": ["chip"]}, 422, "invalid"),
        ({"pools": ["none"]}, 404, "pools_unknown"),
        ({"pools": "phones"}, 422, "invalid"),
        ({"pools": [1]}, 422, "invalid"),
        ({"pools": ["x"] * 1001}, 422, "invalid"),
        ({"is_public": True}, 422, "invalid"),
        ({"retired_at": None}, 422, "invalid"),
    ],
)
def test_a_change_that_cannot_be_changes_nothing(client, body, status, code):
    make_worker("taken")
    worker = make_worker("box", labels={"chip": "old"})
    before = Worker.objects.values().get(pk=worker.pk)
    refused(client.patch(f"{WORKERS}{worker.pk}/", body, format="json"), status, code)
    assert Worker.objects.values().get(pk=worker.pk) == before
    assert not AuditEntry.objects.exists()


def test_the_list_tells_heartbeats_queues_and_current_tasks(client):
    alice = make_user("alice")
    worker = make_worker("box", facts=FACTS)
    running = make_attempt(make_waiting_task(owner=alice, worker=worker))
    make_waiting_task(owner=alice, worker=worker)
    late = make_worker("late")
    last_seen(timezone.now() - datetime.timedelta(days=1), late.pk)
    make_worker("never", online=False)
    rows = {row["name"]: row for row in client.get(WORKERS).json()["results"]}
    assert {name: row["beat"] for name, row in rows.items()} == {
        "box": "on_time", "late": "lost", "never": "never",
    }  # fmt: skip
    (current,) = rows["box"]["current"]
    assert (current["task"], current["owner"]) == (running.task_id, alice.email)
    assert (rows["box"]["waiting"], rows["box"]["facts"]["ip"]) == (1, "192.0.2.7")


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("beat=on_time", ["box", "drained", "held"]),
        ("beat=never", ["new"]),
        ("state=service", ["box", "new"]),
        ("state=drained", ["drained"]),
        ("state=held", ["held"]),
        ("state=retired", ["old"]),
        ("public=false", ["new", "old"]),
        ("search=lab-7", ["box"]),
        ("search=192.0.2", ["box"]),
        ("search=phon", ["held"]),
        ("search=kirin&state=service", ["box"]),
    ],
)
def test_devices_are_found_by_heartbeat_state_and_text(client, question, found):
    make_worker("box", facts=FACTS)
    make_worker("drained", is_enabled=False)
    held = make_worker("held", held_at=timezone.now(), held_reason="x")
    make_worker("new", online=False, is_public=False)
    old = make_worker("old", online=False)
    worker_retire(old, by=None)
    last_seen(timezone.now() - datetime.timedelta(days=1), old.pk)
    Pool.objects.create(name="phones").workers.add(held)
    rows = client.get(f"{WORKERS}?{question}").json()["results"]
    assert sorted(row["name"].partition(".")[0] for row in rows) == found


def every_route(worker, pool):
    own = f"{WORKERS}{worker.pk}/"
    acts = ("enrol", "drain", "resume", "publish", "hide", "revoke", "retire", "check")
    return [
        *(("post", f"{own}{act}/") for act in acts),
        *(("get", path) for path in (WORKERS, own, f"{own}health-checks/", POOLS)),
        *(("post", path) for path in (WORKERS, POOLS, GRANTS, f"{GRANTS}remove/")),
        ("patch", own),
        *((method, f"{POOLS}{pool.pk}/") for method in ("get", "patch", "delete")),
    ]


def test_nobody_but_an_administrator_gets_anything_and_nothing_changes(root):
    worker, pool = make_worker("hiddenbox", is_public=False), Pool.objects.create(name="arm")
    granted = make_user("bob")
    Grant.objects.create(worker=worker, user=granted)
    plain = DocumentedClient()
    secret = token_issue(root, name="ci", scopes=["read", "write"], days=1)[1]
    plain.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    AuditEntry.objects.all().delete()
    before = Worker.objects.values().get()
    for method, path in every_route(worker, pool):
        for client, status, code in (
            (DocumentedClient(), 401, "not_authenticated"),
            (caller(granted), 403, "administrators_only"),
            (plain, 403, "scope_missing"),
        ):
            answer = getattr(client, method)(path, {}, format="json")
            refused(answer, status, code)
            assert b"hiddenbox" not in answer.content
    assert Worker.objects.values().get() == before
    assert not AuditEntry.objects.exists()


def test_a_token_with_the_scope_administers(root):
    worker = make_worker("box")
    client = DocumentedClient()
    secret = token_issue(root, name="ci", scopes=["admin"], days=1)[1]
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    assert post(client, f"{WORKERS}{worker.pk}/drain/").json()["is_enabled"] is False
    assert last_entry().actor == root


@pytest.mark.parametrize("number", [0, 987654321, HUGE, HUGE * 10**9])
def test_a_number_of_nothing_is_not_found(client, number):
    for method, path in (
        ("get", f"{WORKERS}{number}/"),
        ("post", f"{WORKERS}{number}/drain/"),
        ("post", f"{WORKERS}{number}/enrol/"),
        ("patch", f"{WORKERS}{number}/"),
        ("get", f"{WORKERS}{number}/health-checks/"),
        ("delete", f"{POOLS}{number}/"),
    ):
        refused(getattr(client, method)(path, {}, format="json"), 404, "not_found")


def make_hardware(user, number):
    for _ in range(number):
        worker = make_worker(facts=FACTS)
        Pool.objects.create(name=f"pool-{worker.pk}").workers.add(worker)
        make_attempt(make_waiting_task(owner=user, worker=worker))


@pytest.mark.parametrize(
    ("path", "most"), [(WORKERS, 10), (f"{WORKERS}?search=lab", 10), (POOLS, 6)]
)
def test_a_list_asks_the_database_as_often_for_many_rows_as_for_few(
    client, path, most, django_assert_max_num_queries
):
    alice = make_user("alice")
    make_hardware(alice, 2)
    client.get(path)
    with django_assert_max_num_queries(most) as few:
        client.get(path)
    make_hardware(alice, 10)
    with django_assert_max_num_queries(most) as many:
        shown = json.loads(client.get(path).content)["results"]
    assert len(shown) == 12
    assert len(many) == len(few)
