"""Tests of the eligibility rules: predicates and queries agree."""

import datetime
import random
import re
from collections.abc import Iterator

import pytest
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from tasks.models import Purpose, Task
from tasks.scheduling import eligibility
from tasks.scheduling.eligibility import DEVICE, HELD, RULES, Placement, placement_of
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


def test_every_rule_has_messages():
    for rule in RULES:
        assert rule.code in CAUSES
        assert rule.refusal in WORDINGS


@pytest.fixture
def worker_with_revoked_token():
    worker = make_worker("desk")
    redeem_code(issue_code(worker))
    revoke_worker(worker, by=None)
    return Worker.objects.get()


def test_task_for_a_device_with_a_revoked_token_is_rejected(alice, worker_with_revoked_token):
    """The device still counts as online."""
    with pytest.raises(DomainError, match="worker_shut_out"):
        make_waiting_task(alice, worker_with_revoked_token)
    with pytest.raises(DomainError) as caught:
        make_task_for_any_device(alice)
    assert caught.value.data["devices"] == "desk (token revoked)"


def test_task_for_a_retired_device_is_rejected():
    worker = make_worker("old", retired_at=timezone.now(), is_enabled=False)
    with pytest.raises(DomainError, match="worker_retired"):
        make_waiting_task(make_user(), worker)
    Worker.objects.update(is_public=False)
    with pytest.raises(DomainError, match="worker_unknown"):
        make_waiting_task(make_user("bob"), Worker.objects.get(name="old"))


@pytest.mark.usefixtures("worker_with_revoked_token")
def test_form_disables_devices_that_start_no_tasks(client, alice):
    make_worker("other")
    make_worker("old", is_enabled=False)
    client.force_login(alice)
    page = client.get("/tasks/new/").content.decode()
    for option in (" disabled>desk (token revoked)<", " disabled>old (drained)<", ">other (free)<"):
        assert option in page
    assert " disabled>other" not in page


def test_form_lists_the_versions_of_a_device_newest_first(client, alice):
    box = make_worker("box", version="1.9.1")
    for version in ("1.13.0", "nightly", "1.12.3"):
        Runtime.objects.create(worker=box, version=version, kind="wheel")
    client.force_login(alice)
    page = client.get("/tasks/new/").content.decode()
    listed = re.findall(rf'<option value="([^"]+)" data-worker="{box.pk}"', page)
    assert listed == ["1.13.0", "1.12.3", "1.9.1", "nightly"]


# -- predicates and queries -----------------------------------------------------------------------


def make_devices_and_tasks_at_random() -> None:
    """Create devices, and a task for each, with random values of all columns of the rules."""
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
    # far from the limit between online and offline, which moves while the test runs
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


@pytest.fixture(scope="module")
def fleet(django_db_setup, django_db_blocker) -> Iterator[None]:
    """Devices and tasks at random, which are there until the end of this file."""
    with django_db_blocker.unblock(), transaction.atomic():
        make_devices_and_tasks_at_random()
        yield
        transaction.set_rollback(True)


def placements() -> dict[int, Placement]:
    tasks = Task.objects.select_related("owner", "worker__last_heartbeat")
    return {
        task.pk: placement_of(task, task.worker)
        for task in tasks.prefetch_related("worker__runtimes")
    }


def ids(rows: QuerySet) -> set[int]:
    return set(rows.values_list("pk", flat=True))


def test_predicates_and_queries_agree_on_500_devices_and_tasks(fleet):
    placement_by_task = placements()
    assert len(placement_by_task) == NUMBER
    for rule in RULES:
        tasks = {pk for pk, placement in placement_by_task.items() if rule.holds(placement)}
        assert tasks == ids(Task.objects.filter(rule.rows("worker__"))), rule.code
        assert 0 < len(tasks) < NUMBER, f"only one outcome of {rule.code} is tested"
    startable = {pk for pk, placement in placement_by_task.items() if eligibility.meets(placement)}
    assert startable == ids(Task.objects.filter(eligibility.startable()))
    assert 0 < len(startable) < NUMBER
    # the error, the explanation and the query agree
    for pk, placement in placement_by_task.items():
        refusal = eligibility.refusal_of(placement)
        obstacles = list(eligibility.obstacles(placement))
        assert (refusal is None) == (not obstacles) == (pk in startable)
        assert refusal is None or refusal.code == obstacles[0].refusal


def test_queries_for_devices_agree_with_their_status(fleet):
    workers = list(with_shut_out_at(Worker.objects.all()))
    free = {worker.pk for worker in workers if status_of(worker) == DeviceStatus.FREE}
    assert free == ids(Worker.objects.filter(eligibility.takes_tasks()))
    checkable = {worker.pk for worker in workers if eligibility.starts_checks(worker)}
    assert checkable == ids(Worker.objects.filter(eligibility.takes_tasks(checks=True)))
    assert free < checkable
    for rule in (rule for rule in DEVICE if rule is not HELD):
        matches = {worker.pk for worker in workers if rule.holds(Placement(worker))}
        assert matches == ids(Worker.objects.filter(rule.rows(""))), rule.code
    assert {status_of(worker, is_busy=worker.pk % 2 == 0) for worker in workers} == set(
        DeviceStatus
    )
    # the annotation equals the query for one device
    separate = {worker.pk: worker.shut_out_at for worker in Worker.objects.all()}
    assert separate == {worker.pk: worker.shut_out_at for worker in workers}
    scripts = {worker.pk for worker in workers if worker.takes_scripts}
    assert scripts == ids(eligibility.scripts_takers())


def test_owner_query_agrees_with_the_access_rule(fleet):
    for worker in Worker.objects.all()[:40]:
        allowed = {
            user.pk
            for user in User.objects.all()
            if eligibility.ACCESS.holds(Placement(worker, owner=user))
        }
        movable = Task.objects.filter(eligibility.owner_may_use(worker))
        assert ids(movable) == ids(Task.objects.filter(owner__in=allowed))
