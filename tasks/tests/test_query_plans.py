"""Tests that frequent operations use indexes on PostgreSQL.

A transaction fills the database, runs frequent operations of pages, agents, dispatcher and sweep,
and asks for the plan of each of their queries. It is rolled back at the end.
"""

import datetime
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from profiles.retention.deletion import sweep_removed_files
from profiles.services import purge_abandoned_uploads, remove_uploads
from tasks.dispatch import gateway
from tasks.lifecycle.counters import count_outcomes
from tasks.lifecycle.sweep import sweep
from tasks.models import Attempt, Task, TaskEvent, TaskFile
from tasks.scheduling.assignment import assign_waiting
from workers.models import LastHeartbeat, Runtime, Worker, WorkerSecret
from workers.tokens import valid_tokens

pytestmark = [pytest.mark.production, pytest.mark.django_db]

TASKS, WORKERS, USERS = 20_000, 2_000, 10
#: tables that grow with the history of a site; a query must not scan them
HISTORY = {"tasks_task", "tasks_attempt", "tasks_taskevent", "tasks_taskfile", "tasks_logchunk"}
#: tables that grow with the fleet; a query about one device must not scan them
FLEET = {"workers_worker", "workers_pulse", "workers_runtime", "workers_workersecret"}
#: most rows that a node of a plan may return from a table of the history; 50 tasks are live
MOST_ROWS = 2_500
#: total cost, in PostgreSQL's unit of one sequential page read, below which a LIMIT is cheap
FEW_PAGES = 250

#: operation -> tables that it must not scan
OPERATIONS = {
    # the filter lists the versions of all devices, and the page of a task other devices
    "task list": HISTORY,
    "task list, failed": HISTORY,
    "task list of an administrator": HISTORY,
    "a task": HISTORY,
    # the page lists all devices that the user may see
    "worker list": HISTORY,
    "a free device": HISTORY | FLEET,
    "a freed device": HISTORY | FLEET,
    "the sweep": HISTORY,
    "the sweep's files": HISTORY,
    "heartbeats": HISTORY | FLEET,
    "what a device should do": HISTORY | FLEET,
}


@pytest.fixture(scope="module")
def problems(django_db_setup: None, django_db_blocker: Any) -> dict[str, list[str]]:
    """Descriptions of sequential scans and of nodes with too many rows, by operation."""
    with django_db_blocker.unblock(), transaction.atomic():
        fill()
        functions = operations()
        found = {name: list(problems_of(functions[name], OPERATIONS[name])) for name in OPERATIONS}
        transaction.set_rollback(True)
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_scans_no_growing_table(problems, operation):
    assert problems[operation] == []


def problems_of(operation: Callable[[], Any], tables: set[str]) -> Iterator[str]:
    with CaptureQueriesContext(connection) as queries:
        operation()
    for query in queries:
        sql = query["sql"]
        if not sql.lstrip("( ").startswith(("SELECT", "UPDATE", "DELETE")):
            continue
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
            plan = cursor.fetchone()[0][0]["Plan"]
        for node in nodes(plan):
            table = node.get("Relation Name", "")
            if table in tables and node["Node Type"] == "Seq Scan":
                yield f"{table} is scanned: {sql[:300]}"
            elif table in HISTORY and node["Plan Rows"] > MOST_ROWS:
                yield f"{node['Plan Rows']} rows of {table}: {sql[:300]}"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan, except those below a cheap LIMIT."""
    if plan["Node Type"] == "Limit" and plan["Total Cost"] < FEW_PAGES:
        return
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def operations() -> dict[str, Callable[[], Any]]:
    user, admin = Client(), Client()
    user.force_login(User.objects.get(email="user-1@example.org"))
    admin.force_login(User.objects.get(email="root@example.org"))
    waiting = Task.objects.filter(state="waiting").first()
    live = Attempt.objects.filter(ended_at=None).first()
    assert waiting is not None
    assert live is not None
    worker_ids = list(Worker.objects.order_by("pk").values_list("pk", flat=True)[:400])
    digests = [f"{number:064x}" for number in range(400)]
    attempts_by_worker = dict.fromkeys(worker_ids, frozenset[uuid.UUID]())
    # the first call counts the whole history, later ones only what is new
    count_outcomes()

    def page(client: Client, address: str) -> Callable[[], Any]:
        def get() -> None:
            assert client.get(address).status_code == 200, address

        return get

    return {
        "task list": page(user, "/tasks/"),
        "task list, failed": page(user, "/tasks/?status=failed"),
        "task list of an administrator": page(admin, "/tasks/"),
        "a task": page(admin, f"/tasks/{waiting.pk}/"),
        "worker list": page(user, "/workers/"),
        "a free device": lambda: assign_waiting([waiting.worker_id]),
        "a freed device": lambda: assign_waiting([live.worker_id]),
        "the sweep": sweep,
        "the sweep's files": lambda: (
            sweep_removed_files(),
            purge_abandoned_uploads(),
            remove_uploads(),
        ),
        "heartbeats": lambda: (
            list(valid_tokens(digests)),
            gateway.on_heartbeats(attempts_by_worker),
        ),
        "what a device should do": lambda: gateway.desired_state(live.worker_id),
    }


def fill() -> None:
    """Create a long history, a large fleet and few live tasks."""
    now = timezone.now()
    User.objects.create_superuser("root@example.org")
    users = User.objects.bulk_create(User(email=f"user-{n}@example.org") for n in range(USERS))
    worker = Worker.objects.create(name="device-0")
    add_copies(worker, f"generate_series(1, {WORKERS - 1}) AS n", name="'device-' || n")
    devices = f"(SELECT id FROM workers_worker WHERE id <> {worker.pk}) AS device"
    heartbeat = LastHeartbeat.objects.create(worker=worker, last_seen_at=now)
    runtime = Runtime.objects.create(worker=worker, version="1.13.0", kind="wheel")
    token = WorkerSecret.objects.create(worker=worker, kind="token", sha256=f"{0:064x}")
    add_copies(heartbeat, devices, worker_id="device.id")
    add_copies(runtime, devices, worker_id="device.id")
    digest = f"lpad(to_hex(device.id - {worker.pk}), 64, '0')"
    add_copies(token, devices, worker_id="device.id", sha256=digest)
    task = Task.objects.create(
        owner=users[0],
        worker=worker,
        runtime_version="1.13.0",
        timeout_s=600,
        submitted_at=now - datetime.timedelta(seconds=TASKS),
        state="finished",
        outcome="succeeded",
    )
    is_old = f"n < {TASKS - 50}"
    add_copies(
        task,
        f"generate_series(1, {TASKS - 1}) AS n",
        owner_id=f"{users[0].pk} + mod(n, {USERS})",
        worker_id=f"{worker.pk} + mod(n, {WORKERS})",
        submitted_at="template.submitted_at + make_interval(secs => n)",
        state=f"CASE WHEN {is_old} THEN 'finished' WHEN n < {TASKS - 25} THEN 'running' "
        "ELSE 'waiting' END",
        outcome=f"CASE WHEN {is_old} THEN CASE mod(n, 10) WHEN 8 THEN 'failed' "
        "WHEN 9 THEN 'cancelled' ELSE 'succeeded' END ELSE '' END",
        reason=f"CASE WHEN {is_old} THEN CASE mod(n, 10) WHEN 8 THEN 'crashed' "
        "WHEN 9 THEN 'cancelled_by_user' ELSE '' END ELSE '' END",
    )
    others = f"(SELECT * FROM tasks_task WHERE id <> {task.pk}) AS task"
    model = TaskFile.objects.create(
        task=task, kind="model", name="net.mge", size_bytes=9, md5="0" * 32, stored_at=now
    )
    add_copies(model, others, task_id="task.id", md5="md5(task.id::text)")
    first, second = (
        TaskEvent.objects.create(task=task, seq=n, kind="task.waiting") for n in (1, 2)
    )
    add_copies(first, others, task_id="task.id")
    add_copies(second, others, task_id="task.id")
    attempt = Attempt.objects.create(
        task=task,
        worker=worker,
        number=1,
        slot=0,
        lease_expires_at=now + datetime.timedelta(minutes=5),
        started_at=task.submitted_at,
        accepted_at=task.submitted_at,
        ended_at=task.submitted_at,
        end_reason="exited",
    )
    end = "CASE task.state WHEN 'finished' THEN task.submitted_at END"
    add_copies(
        attempt,
        f"{others} WHERE task.state <> 'waiting'",
        id="gen_random_uuid()",
        task_id="task.id",
        worker_id="task.worker_id",
        started_at="task.submitted_at",
        accepted_at=end,
        ended_at=end,
        end_reason="CASE task.state WHEN 'finished' THEN 'exited' ELSE '' END",
    )
    counts = [model.objects.count() for model in (Worker, WorkerSecret, Task, TaskFile, Attempt)]
    assert counts == [WORKERS, WORKERS, TASKS, TASKS, TASKS - 25]
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def add_copies(row: Model, source: str, **columns: str) -> None:
    """Insert a copy of a row for each row of `source`; `columns` are SQL expressions.

    The server makes the copies, which takes a tenth of the time of `bulk_create`.
    """
    meta = row._meta
    fields = [field.column for field in meta.concrete_fields]
    names = [name for name in fields if name in columns or name != meta.pk.column]
    assert columns.keys() <= set(names)
    values = (columns.get(name, f'template."{name}"') for name in names)
    into = ", ".join(f'"{name}"' for name in names)
    template = f"(SELECT * FROM {meta.db_table} WHERE {meta.pk.column} = %s) AS template"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {meta.db_table} ({into}) "
            f"SELECT {', '.join(values)} FROM {template}, {source}",
            [row.pk],
        )
