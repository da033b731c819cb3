"""Devices in the API: what users see with and without a grant."""

import datetime
import json

import pytest
from django.utils import timezone

from agent.protocol.options import OPTIONS, describe
from tasks.models import Attempt
from tasks.tests.make import (
    make_attempt,
    make_user,
    make_waiting_task,
    make_worker,
    set_last_heartbeat,
)
from webprofile.tests.documented_api import caller, expect_problem
from workers.models import Grant, Pool, Runtime
from workers.services import retire_worker

pytestmark = [pytest.mark.django_db, pytest.mark.database]

WORKERS = "/api/v1/workers/"
POOLS = "/api/v1/pools/"
FACTS = {
    "hostname": "hiddenhost",
    "ip": "192.0.2.7",
    "cpu_model": "Kirin 990",
    "platform": "Linux-6.1",
    "cores": 8,
    "labels": {"chip": "kirin", "build": "nightly"},
}
ROOFS = {
    "device": "cpu",
    "peak_flops": {"float32": 1e11},
    "copy_bytes_s": 2e10,
    "measured_at": 1_763_000_000.0,
}


def names(answer):
    assert answer.status_code == 200, answer.content
    return [row["name"] for row in answer.json()["results"]]


def test_a_user_sees_public_and_granted_devices_and_an_administrator_all(alice, root):
    make_worker("open")
    box = make_worker("box", is_public=False)
    make_worker("other", is_public=False)
    Grant.objects.create(worker=box, user=alice)
    assert names(caller(alice).get(WORKERS)) == ["box", "open"]
    assert names(caller(root).get(WORKERS)) == ["other", "box", "open"]


def test_a_device_shows_facts_versions_labels_and_load(alice, root):
    worker = make_worker("box", facts=FACTS, labels={"build": "stable"})
    Runtime.objects.update(builds=["cuda"], libraries=["mine"], roofs=[ROOFS])
    Pool.objects.create(name="phones").workers.add(worker)
    make_attempt(make_waiting_task(owner=alice, worker=worker))
    make_waiting_task(owner=alice, worker=worker)
    device = caller(alice).get(f"{WORKERS}box/").json()
    assert (device["running"], device["waiting"], device["condition"]) == (1, 1, "busy")
    assert device["labels"] == {"chip": "kirin", "build": "stable"}
    assert device["pools"] == ["phones"]
    assert device["facts"]["cpu_model"] == "Kirin 990"
    Runtime.objects.create(worker=worker, version="1.6.0", kind="binary", problem="does not start")
    runtimes = caller(alice).get(f"{WORKERS}box/").json()["runtimes"]
    assert [(row["version"], row["kind"], row["problem"]) for row in runtimes] == [
        ("1.13.0", "wheel", ""),
        ("1.6.0", "binary", "does not start"),
    ]
    (runtime,) = device["runtimes"]
    assert (runtime["version"], runtime["builds"], runtime["libraries"]) == (
        "1.13.0", ["cuda"], ["mine"],
    )  # fmt: skip
    (roofs,) = runtime["roofs"]
    assert (roofs["peak_flops"], roofs["copy_bytes_s"]) == ({"float32": 1e11}, 2e10)
    assert roofs["measured_at"].startswith("2025-11-13T")
    for hidden in ("hostname", "ip"):
        assert hidden not in device["facts"]
        assert caller(root).get(f"{WORKERS}box/").json()["facts"][hidden] == FACTS[hidden]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["away", "phone", "server"]),
        ("online=true", ["phone", "server"]),
        ("online=false", ["away"]),
        ("pool=phones", ["phone"]),
        ("version=1.12.0", ["away"]),
        ("version=1.13", []),
        ("name=ERV", ["server"]),
        ("online=true&pool=phones&name=phone", ["phone"]),
        ("online=false&name=phone", []),
    ],
)
def test_the_list_is_filtered(alice, query, expected):
    make_worker("server", is_enabled=False)
    phone = make_worker("phone", facts=FACTS)
    make_worker("away", online=False, version="1.12.0")
    Pool.objects.create(name="phones").workers.add(phone)
    assert sorted(names(caller(alice).get(f"{WORKERS}?{query}"))) == expected


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("online=1", "query_invalid"),
        ("online=", "query_invalid"),
        ("pool=" + "x" * 61, "query_invalid"),
        ("name=%00", "query_invalid"),
        ("owner=1", "query_unknown"),
        ("limit=201", "limit_bad"),
        ("cursor=x", "cursor_bad"),
    ],
)
def test_invalid_query_parameters_are_rejected(alice, query, code):
    expect_problem(caller(alice).get(f"{WORKERS}?{query}"), 400, code)


def test_options_show_which_cannot_be_used_with_a_runtime(alice):
    worker = make_worker("box")
    Runtime.objects.create(worker=worker, version="1.6.0", kind="binary", flags=["iter", "profile"])
    client = caller(alice)
    wheel = client.get(f"{WORKERS}box/runtimes/1.13.0/options/").json()
    binary = client.get(f"{WORKERS}box/runtimes/1.6.0/options/").json()
    table = {row["name"]: row for row in json.loads(json.dumps(describe()))}
    assert [row["name"] for row in wheel] == list(table) == list(OPTIONS)
    assert len(wheel) == 74
    for row in wheel:
        for key, value in table[row["name"]].items():
            assert key == "help" or row[key] == value, (row["name"], key)
        assert set(row["help"]) == {"en", "zh-hans"}
    state = {row["name"]: row["unavailable"] for row in wheel}
    assert state["iter"] == ""
    assert "never" in state.values()
    assert "wheel" in state.values()
    old = {row["name"]: row for row in binary}
    assert old["iter"]["unavailable"] == ""
    assert old["fast_run"]["unavailable"] == "flag"
    assert old["fast_run"]["unavailable_text"]
    assert client.get("/api/v1/options/").json()[0]["name"] == wheel[0]["name"]
    expect_problem(client.get(f"{WORKERS}box/runtimes/9.9/options/"), 404, "not_found")


def test_the_usual_duration_is_null_until_a_task_has_ended(alice):
    worker = make_worker("box")
    client = caller(alice)
    assert client.get(f"{WORKERS}box/").json()["usual_s"] is None
    attempt = make_attempt(make_waiting_task(owner=alice, worker=worker))
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(
        created_at=now - datetime.timedelta(seconds=90), ended_at=now
    )
    assert client.get(f"{WORKERS}box/").json()["usual_s"] == pytest.approx(90)


def test_the_queue_shows_the_position_of_a_new_task_and_the_reason(alice):
    worker = make_worker("box", facts=FACTS)
    other = make_worker("free", facts=FACTS)
    make_attempt(make_waiting_task(owner=alice, worker=worker))
    make_waiting_task(owner=alice, worker=worker)
    client = caller(alice)
    queue = client.get(f"{WORKERS}box/queue/?version=1.13.0").json()
    assert queue["position"] == 2
    assert queue["causes"]
    assert other.name in json.dumps(queue)
    first = client.get(f"{WORKERS}box/queue/?version=1.13.0&priority=100").json()
    assert first["position"] == 1
    # a priority that this user may not set counts as the highest that the user may set
    make_waiting_task(owner=make_user("bob"), worker=worker, priority=10)
    positions = [
        client.get(f"{WORKERS}box/queue/?version=1.13.0&priority={priority}").json()["position"]
        for priority in (10, 100)
    ]
    assert positions == [2, 2]
    expect_problem(client.get(f"{WORKERS}box/queue/?version=9"), 422, "runtime_missing")
    expect_problem(client.get(f"{WORKERS}box/queue/"), 400, "query_invalid")
    expect_problem(
        client.get(f"{WORKERS}box/queue/?version=1.13.0&priority=x"), 400, "query_invalid"
    )


def test_the_queue_does_not_reveal_hidden_devices(alice):
    worker = make_worker("box", facts=FACTS, online=False)
    make_worker("hiddenbox", facts=FACTS, is_public=False)
    answer = caller(alice).get(f"{WORKERS}box/queue/?version=1.13.0")
    assert answer.json()["worker"] == worker.pk
    assert b"hiddenbox" not in answer.content


def test_a_private_device_is_not_found_without_a_grant(alice):
    """It is not visible by name, in lists, pools, filters or hints; nor is a retired device."""
    hidden = make_worker("hiddenbox", is_public=False, facts=FACTS, labels={"at": "hiddenlab"})
    retired = make_worker("oldbox")
    retire_worker(retired, by=None)
    visible = make_worker("box", facts=FACTS)
    mixed, secret = Pool.objects.create(name="mixed"), Pool.objects.create(name="secret")
    mixed.workers.set([hidden, visible])
    secret.workers.add(hidden)
    client = caller(alice)
    for own in ("hiddenbox", retired.name):
        for part in ("", "runtimes/1.13.0/options/", "queue/?version=1.13.0"):
            expect_problem(client.get(f"{WORKERS}{own}/{part}"), 404, "not_found")
    for address in (
        WORKERS, f"{WORKERS}?pool=secret", f"{WORKERS}?name=hidden", f"{WORKERS}box/",
        f"{WORKERS}box/queue/?version=1.13.0", POOLS,
    ):  # fmt: skip
        answer = client.get(address)
        assert answer.status_code == 200
        assert b"hidden" not in answer.content.replace(address.encode(), b"")
        assert b"oldbox" not in answer.content
        assert b"secret" not in answer.content.replace(address.encode(), b"")
    (pool,) = client.get(POOLS).json()["results"]
    assert (pool["name"], pool["workers"]) == ("mixed", ["box"])
    Grant.objects.create(worker=hidden, user=alice)
    pools = {pool["name"]: pool["workers"] for pool in client.get(POOLS).json()["results"]}
    assert pools == {"mixed": ["box", "hiddenbox"], "secret": ["hiddenbox"]}


@pytest.mark.parametrize(
    "name", ["%00", "no%2Fsuch", "..", "x" * 2000, "%F0%9F%98%80", "%ED%A0%80"]
)
def test_an_unknown_name_is_not_found(alice, name):
    assert caller(alice).get(f"{WORKERS}{name}/").status_code == 404


def test_the_api_of_devices_is_read_only(alice, root):
    make_worker("box")
    for client in (caller(alice), caller(root)):
        for method in ("post", "put", "patch", "delete"):
            expect_problem(getattr(client, method)(f"{WORKERS}box/"), 405, "method_not_allowed")


def make_busy_devices(user, number):
    """Make devices with all facts that a list shows."""
    for _ in range(number):
        worker = make_worker(facts=FACTS)
        Pool.objects.create(name=f"pool-{worker.pk}").workers.add(worker)
        make_attempt(make_waiting_task(owner=user, worker=worker))


@pytest.mark.parametrize(
    ("path", "most"),
    [
        (WORKERS, 8),
        (f"{WORKERS}?pool=pool-1", 8),
        (POOLS, 4),
    ],
)
def test_the_number_of_queries_of_a_list_does_not_depend_on_rows(
    alice, path, most, django_assert_max_num_queries
):
    make_busy_devices(alice, 2)
    client = caller(alice)
    client.get(path)
    with django_assert_max_num_queries(most) as few:
        client.get(path)
    make_busy_devices(alice, 10)
    with django_assert_max_num_queries(most) as many:
        client.get(path)
    assert len(many) == len(few)


def test_a_device_with_an_old_heartbeat_is_offline(alice):
    worker = make_worker("box")
    set_last_heartbeat(timezone.now() - datetime.timedelta(seconds=60), worker.pk)
    device = caller(alice).get(f"{WORKERS}box/").json()
    assert (device["is_online"], device["condition"]) == (False, "offline")
