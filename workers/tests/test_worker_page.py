"""The page of one device: visibility, contents, number of queries."""

import datetime

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agent.protocol.messages import Facts, RuntimeInfo
from agent.protocol.notes import Note
from tasks.lifecycle.attempts import assign_attempt
from tasks.models import Attempt
from tasks.scheduling.queue_depth import usage_of
from tasks.tests.make import change_worker, make_user, make_waiting_task, make_worker
from workers.models import Grant, HealthCheck, Runtime
from workers.selectors import labels_of
from workers.services import introduce_worker

pytestmark = pytest.mark.django_db


def client_of(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def worker_page(user, worker) -> str:
    answer = client_of(user).get(reverse("workers:detail", args=[worker.name]))
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("name", ["rows", "all", "check"])
def test_a_device_named_like_a_part_of_an_address_has_a_page(name):
    assert f"<h1>{name}" in worker_page(make_user(), make_worker(name))


def test_a_private_device_is_not_found_without_a_grant():
    alice, bob, root = make_user("alice"), make_user("bob"), make_user("root", is_staff=True)
    worker = make_worker("secret", is_public=False)
    Grant.objects.create(worker=worker, user=alice)
    address = reverse("workers:detail", args=["secret"])
    assert client_of(alice).get(address).status_code == 200
    assert client_of(root).get(address).status_code == 200
    assert client_of(bob).get(address).status_code == 404
    assert client_of(bob).get(reverse("workers:detail", args=["none"])).status_code == 404
    assert Client().get(address).status_code == 302


def test_tasks_of_other_users_show_only_their_times():
    alice, bob = make_user("alice"), make_user("bob")
    worker = make_worker("shared")
    make_waiting_task(alice, worker)
    text = worker_page(bob, worker)
    assert "another user" in text
    assert "net.mge" not in text
    assert "alice" not in text
    assert "net.mge" in worker_page(alice, worker)
    assert "net.mge" in worker_page(make_user("root", is_staff=True), worker)


def test_network_addresses_are_shown_only_to_administrators():
    worker = make_worker(facts={"hostname": "rack-7", "ip": "10.1.2.3"})
    assert "rack-7" not in worker_page(make_user(), worker)
    assert "10.1.2.3" in worker_page(make_user("root", is_staff=True), worker)


def test_problems_peak_performance_and_labels_are_shown():
    worker = make_worker(
        labels={"chip": "Kirin 990"},
        facts={"labels": {"chip": "unknown", "build": "<b>nightly</b>"}, "cores": 8},
    )
    roofs = {"device": "cpu", "peak_flops": {"Float32": 1.5e11}, "copy_bytes_s": 2e10}
    Runtime.objects.create(worker=worker, version="1.9.0", kind="binary", roofs=[roofs])
    Runtime.objects.create(worker=worker, version="1.8.0", kind="binary", problem="no libc")
    text = worker_page(make_user(), worker)
    for part in ("Kirin 990", "&lt;b&gt;nightly", "150 GFLOP/s", "no libc", "8 cores"):
        assert part in text, part
    assert "unknown" not in text
    assert labels_of(worker) == {"build": "<b>nightly</b>", "chip": "Kirin 990"}


def test_why_a_runtime_cannot_be_used_is_shown_in_the_language_of_the_user():
    worker = make_worker()
    problem = Note.of("cannot_start", path="/opt/load_and_run", cause="Permission denied")
    runtime = RuntimeInfo(version="1.8.0", kind="binary", problem=problem)
    facts = Facts(hostname="rack-7", platform="Linux", machine="x86_64", cores=8, memory_bytes=1)
    introduce_worker(worker, facts=facts, agent_version="1", runtimes=[runtime])
    user = make_user()
    assert "Cannot start /opt/load_and_run: Permission denied" in worker_page(user, worker)
    client = client_of(user)
    client.cookies["django_language"] = "zh-hans"
    page = client.get(reverse("workers:detail", args=[worker.name])).text
    assert "无法启动 /opt/load_and_run：Permission denied" in page


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "free"),
        ({"is_enabled": False}, "drained"),
        ({"last_seen_at": None}, "never connected"),
        ({"last_seen_at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}, "offline"),
        ({"held_at": timezone.now(), "held_reason": "It is ill."}, "quarantined"),
        # a drained device is not checked again automatically, and resuming it releases it
        ({"is_enabled": False, "held_at": timezone.now(), "held_reason": "It is ill."}, "drained"),
    ],
)
def test_the_status_is_shown_as_text(change, status):
    worker = make_worker()
    change_worker(worker.pk, **change)
    text = worker_page(make_user(), worker)
    assert f">{status}<" in text
    assert ("New task on this device" in text) is (status == "free")
    assert ("It is ill." in text) is (status == "quarantined")


def test_a_device_that_never_connected_is_not_said_to_lack_megengine():
    worker = make_worker(online=False)
    worker.runtimes.all().delete()
    assert "No MegEngine found" not in worker_page(make_user(), worker)
    change_worker(worker.pk, last_seen_at=timezone.now())
    assert "No MegEngine found" in worker_page(make_user("bob"), worker)


def test_the_reason_of_a_hold_is_translated():
    worker = make_worker(held_at=timezone.now(), held_reason="It is ill.")
    HealthCheck.objects.create(
        worker=worker, runtime_version="1.13.0", cause="schedule", result="failed", reason="crashed"
    )
    client = client_of(make_user())
    address = reverse("workers:detail", args=[worker.name])
    text = client.get(address, headers={"Accept-Language": "zh-hans"}).content.decode()
    assert "It is ill." not in text
    assert "最近一次健康检查未通过" in text


def test_an_outdated_agent_is_marked(settings, tmp_path):
    settings.AGENT_FOLDER = str(tmp_path)
    worker = make_worker(agent_version="0.1.0+0000aaaa")
    assert "outdated" not in worker_page(make_user(), worker)
    (tmp_path / "manifest.json").write_text(
        '{"version": "0.1.0+1111bbbb", "files": {}, "wheel": {"name": "w.whl"}}'
    )
    assert "0.1.0+1111bbbb" in worker_page(make_user("bob"), worker)


def make_attempts(worker, spans, *, lost=False):
    """Create attempts; `spans` contains the start and end of each, in hours before now."""
    now = timezone.now()
    for number, (begin, end) in enumerate(spans):
        Attempt.objects.create(
            task=make_waiting_task(make_user(f"u{number}"), worker),
            worker=worker,
            number=9,
            slot=number + 5,
            lease_expires_at=now,
            started_at=now - datetime.timedelta(hours=begin),
            ended_at=now - datetime.timedelta(hours=end),
            **({"end_reason": "lease_expired"} if lost else {"run_s": (begin - end) * 3600}),
        )


def test_utilisation_is_the_share_of_time_with_attempts():
    worker = make_worker(slots=2)
    spans = [
        (1, 0),  # 1 h within both
        (26, 20),  # 4 h of it within a day, 6 within a week
        (8 * 24, 6 * 24),  # 24 h within a week
        (20 * 24, 10 * 24),  # before
    ]
    make_attempts(worker, spans)
    usage = usage_of(worker)
    assert usage["day"] == pytest.approx(5 / 24 / 2, abs=1e-3)
    assert usage["week"] == pytest.approx(31 / 24 / 7 / 2, abs=1e-3)


def test_lost_attempts_count_towards_utilisation():
    worker = make_worker()
    make_attempts(worker, [(2, 1), (30, 28), (25, 23)], lost=True)
    usage = usage_of(worker)
    assert usage["day"] == pytest.approx(2 / 24, abs=1e-3)
    assert usage["week"] == pytest.approx(5 / 24 / 7, abs=1e-3)


def test_live_attempts_count_and_utilisation_is_at_most_one():
    worker = make_worker()
    attempt = assign_attempt(make_waiting_task(make_user(), worker), slot=0)
    begin = timezone.now() - datetime.timedelta(days=9)
    Attempt.objects.filter(pk=attempt.pk).update(started_at=begin)
    assert usage_of(worker) == {"day": 1.0, "week": 1.0}


def test_the_number_of_queries_does_not_depend_on_tasks(django_assert_num_queries):
    reader = make_user()
    worker = make_worker()
    client = client_of(reader)
    address = reverse("workers:detail", args=[worker.name])
    make_waiting_task(reader, worker)
    client.get(address)
    with django_assert_num_queries(14):
        client.get(address)
    for number in range(5):
        make_waiting_task(make_user(f"u{number}"), worker)
        Runtime.objects.create(worker=worker, version=f"1.{number}", kind="binary")
    with django_assert_num_queries(14):
        client.get(address)


@pytest.mark.parametrize(("slots", "text"), [(1, "0 of 1 slot<"), (2, "0 of 2 slots<")])
def test_the_number_of_slots_has_a_singular_form(slots, text):
    assert text in worker_page(make_user(), make_worker(slots=slots))
