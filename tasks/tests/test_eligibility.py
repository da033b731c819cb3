"""Each eligibility rule gives the same result for objects and as a database query."""

import datetime
import random

import pytest
from django.utils import timezone

from accounts.models import User
from tasks.models import Purpose, Task
from tasks.scheduling import eligibility
from tasks.scheduling.eligibility import DEVICE, HELD, RULES, placement_of
from tasks.scheduling.messages import CAUSES
from tasks.states import TaskState
from tasks.tests.make import make_task_for_any_device, make_user, make_waiting_task, make_worker
from webprofile.errors import DomainError
from webprofile.messages.errors import WORDINGS
from workers.models import Grant, LastHeartbeat, Runtime, Worker, WorkerSecret
from workers.services import revoke_worker
from workers.status import DeviceStatus, status_of, with_shut_out_at
from workers.tokens import issue_code, redeem_code

pytestmark = [pytest.mark.django_db, pytest.mark.database]

NUMBER = 500


def make_devices_and_tasks_at_random() -> None:
    """Devices and a task for each of them, with every state that a rule asks for, at random."""
    draw = random.Random(25)
    now = timezone.now()
    users = [make_user(name) for name in ("alice", "bob")] + [make_user("root", is_staff=True)]
    workers = Worker.objects.bulk_create(
        Worker(
            name=f"device-{number}",
            is_public=draw.random() < 0.7,
            is_enabled=draw.random() < 0.8,
            allows_scripts=draw.random() < 0.7,
            offers_scripts=draw.random() < 0.7,
            held_at=draw.choice([None, None, None, None, now]),
            retired_at=draw.choice([None] * 9 + [now]),
        )
        for number in range(NUMBER)
    )
    # far from the moment that parts online and offline, which moves while the test runs
    hour = datetime.timedelta(hours=1)
    LastHeartbeat.objects.bulk_create(
        LastHeartbeat(worker=worker, last_seen_at=draw.choice([now + hour] * 4 + [now - hour]))
        for worker in workers
        if draw.random() < 0.9
    )
    WorkerSecret.objects.bulk_create(
        WorkerSecret(
            worker=worker,
            kind=draw.choice(["token", "token", "token", "code"]),
            sha256=f"{worker.pk}-{number}",
            revoked_at=draw.choice([None, now]),
        )
        for worker in workers
        for number in range(draw.randrange(3))
    )
    Grant.objects.bulk_create(
        Grant(worker=worker, user=draw.choice(users)) for worker in workers if draw.random() < 0.5
    )
    Runtime.objects.bulk_create(
        Runtime(
            worker=worker,
            version=version,
            kind=draw.choice(["wheel", "wheel", "binary"]),
            problem=draw.choice(["", "", "", "no libc"]),
        )
        for worker in workers
        for version in ("1.12.4", "1.13.0")
        if draw.random() < 0.9
    )
    kinds = [draw.choice(["model", "script"]) for _ in workers]
    Task.objects.bulk_create(
        Task(
            owner=draw.choice(users),
            worker=worker,
            runtime_version=draw.choice(["1.12.4", "1.13.0"]),
            state=TaskState.WAITING,
            kind=kind,
            script={} if kind == "script" else None,
            timeout_s=60,
            purpose=draw.choice([Purpose.USER, Purpose.USER, Purpose.USER, Purpose.HEALTH]),
        )
        for worker, kind in zip(workers, kinds, strict=True)
    )


def placements():
    tasks = Task.objects.select_related("owner", "worker__last_heartbeat")
    return {
        task.pk: placement_of(task, task.worker)
        for task in tasks.prefetch_related("worker__runtimes")
    }


def keys(rows) -> set[int]:
    return set(rows.values_list("pk", flat=True))


def test_predicates_and_queries_agree_on_500_devices_and_tasks():
    make_devices_and_tasks_at_random()
    placed = placements()
    assert len(placed) == NUMBER
    for rule in RULES:
        held = {pk for pk, placement in placed.items() if rule.holds(placement)}
        assert held == keys(Task.objects.filter(rule.rows("worker__"))), rule.code
        assert 0 < len(held) < NUMBER, f"{rule.code} is not tried both ways"
    startable = {pk for pk, placement in placed.items() if eligibility.meets(placement)}
    assert startable == keys(Task.objects.filter(eligibility.startable()))
    assert 0 < len(startable) < NUMBER
    # a refusal, an explanation and the query are the same answer
    for pk, placement in placed.items():
        refusal = eligibility.refusal_of(placement)
        assert (refusal is None) == (pk in startable)
        codes = [rule.code for rule in eligibility.obstacles(placement)]
        assert bool(codes) == (pk not in startable)
        assert (
            refusal is None or refusal.code == next(r for r in RULES if r.code == codes[0]).refusal
        )


def test_queries_for_devices_agree_with_their_status():
    make_devices_and_tasks_at_random()
    workers = list(with_shut_out_at(Worker.objects.all()))
    takers = {worker.pk for worker in workers if status_of(worker) == DeviceStatus.FREE}
    assert takers == keys(Worker.objects.filter(eligibility.takes_tasks()))
    checked = {worker.pk for worker in workers if eligibility.starts_checks(worker)}
    assert checked == keys(Worker.objects.filter(eligibility.takes_tasks(checks=True)))
    assert takers < checked
    for rule in (rule for rule in DEVICE if rule is not HELD):
        held = {worker.pk for worker in workers if rule.holds(eligibility.Placement(worker))}
        assert held == keys(Worker.objects.filter(rule.rows(""))), rule.code
    assert {status_of(worker, is_busy=worker.pk % 2 == 0) for worker in workers} == set(
        DeviceStatus
    )
    # read with the row or by a query of its own
    alone = {worker.pk: worker.shut_out_at for worker in Worker.objects.all()}
    assert alone == {worker.pk: worker.shut_out_at for worker in workers}
    scripts = {worker.pk for worker in workers if worker.takes_scripts}
    assert scripts == keys(eligibility.scripts_takers())


def test_owner_query_agrees_with_the_access_rule():
    make_devices_and_tasks_at_random()
    for worker in Worker.objects.all()[:40]:
        allowed = {
            user.pk
            for user in User.objects.all()
            if eligibility.ACCESS.holds(eligibility.Placement(worker, owner=user))
        }
        movable = Task.objects.filter(eligibility.owner_may_use(worker))
        assert keys(movable) == keys(Task.objects.filter(owner__in=allowed))


def test_every_rule_has_messages():
    for rule in RULES:
        assert rule.code in CAUSES
        assert rule.refusal in WORDINGS


@pytest.fixture
def shut_out():
    worker = make_worker("desk")
    redeem_code(issue_code(worker))
    revoke_worker(worker, by=None)
    return Worker.objects.get()


def test_task_for_a_device_with_a_revoked_token_is_rejected(shut_out):
    """Its last heartbeat is a moment old, so it still counts as online."""
    alice = make_user()
    with pytest.raises(DomainError, match="worker_shut_out"):
        make_waiting_task(alice, shut_out)
    with pytest.raises(DomainError) as refused:
        make_task_for_any_device(alice)
    assert refused.value.data["devices"] == "desk (shut out)"


def test_task_for_a_retired_device_is_rejected():
    worker = make_worker("old", retired_at=timezone.now(), is_enabled=False)
    with pytest.raises(DomainError, match="worker_retired"):
        make_waiting_task(make_user(), worker)
    Worker.objects.update(is_public=False)
    with pytest.raises(DomainError, match="worker_unknown"):
        make_waiting_task(make_user("bob"), Worker.objects.get(name="old"))


def test_form_disables_devices_that_start_no_tasks(client, shut_out):
    make_worker("other")
    make_worker("old", is_enabled=False)
    client.force_login(make_user())
    page = client.get("/tasks/new/").content.decode()
    for option in (" disabled>desk (shut out)<", " disabled>old (drained)<", ">other (free)<"):
        assert option in page
    assert " disabled>other" not in page
