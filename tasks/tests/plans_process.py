"""Check the query plans of frequent operations on PostgreSQL.

DATABASE_URL names an empty database. `python -m tasks.tests.plans_process` fills it, runs frequent
operations of pages, agents, dispatcher and sweep, and prints one line of JSON for each: its name,
followed by descriptions of its sequential scans and of nodes with too many rows.
"""

import datetime
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import django
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

TASKS, WORKERS, USERS = 20_000, 2_000, 10
#: tables that grow with the history of a site; a query must not scan them
HISTORY = {"tasks_task", "tasks_attempt", "tasks_taskevent", "tasks_taskfile", "tasks_logchunk"}
#: tables that grow with the fleet; a query about one device must not scan them
FLEET = {"workers_worker", "workers_pulse", "workers_runtime", "workers_workersecret"}
#: most rows that a node of a plan may return from a table of the history; 50 tasks are live
MOST_ROWS = 2_500
#: total cost, in PostgreSQL's unit of one sequential page read, below which a LIMIT is cheap
FEW_PAGES = 250


def main() -> None:
    django.setup()
    call_command("migrate", verbosity=0)
    fill()
    for name, (operation, tables) in operations().items():
        print(json.dumps([name, *problems_of(operation, tables)]), flush=True)


def problems_of(operation: Callable[[], Any], tables: set[str]) -> Iterator[str]:
    """Yield a description of each sequential scan and of each node with too many rows."""
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


def operations() -> dict[str, tuple[Callable[[], Any], set[str]]]:
    """Return operation name -> (function, tables that it must not scan)."""
    from django.test import Client

    from accounts.models import User
    from profiles.retention.deletion import sweep_removed_files
    from profiles.services import purge_abandoned_uploads, remove_uploads
    from tasks.dispatch import gateway
    from tasks.lifecycle.counters import count_outcomes
    from tasks.lifecycle.sweep import sweep
    from tasks.models import Attempt, Task
    from tasks.scheduling.assignment import assign_waiting
    from workers.models import Worker
    from workers.tokens import valid_tokens

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
        # the filter lists the versions of all devices, and the page of a task other devices
        "task list": (page(user, "/tasks/"), HISTORY),
        "task list, failed": (page(user, "/tasks/?status=failed"), HISTORY),
        "task list of an administrator": (page(admin, "/tasks/"), HISTORY),
        "a task": (page(admin, f"/tasks/{waiting.pk}/"), HISTORY),
        # the page lists all devices that the user may see
        "worker list": (page(user, "/workers/"), HISTORY),
        "a free device": (lambda: assign_waiting([waiting.worker_id]), HISTORY | FLEET),
        "a freed device": (lambda: assign_waiting([live.worker_id]), HISTORY | FLEET),
        "the sweep": (sweep, HISTORY),
        "the sweep's files": (
            lambda: (sweep_removed_files(), purge_abandoned_uploads(), remove_uploads()),
            HISTORY,
        ),
        "heartbeats": (
            lambda: (list(valid_tokens(digests)), gateway.on_heartbeats(attempts_by_worker)),
            HISTORY | FLEET,
        ),
        "what a device should do": (
            lambda: gateway.desired_state(live.worker_id),
            HISTORY | FLEET,
        ),
    }


def fill() -> None:
    """Create a long history, a large fleet and few live tasks."""
    from accounts.models import User
    from tasks.models import Attempt, Task, TaskEvent, TaskFile
    from workers.models import LastHeartbeat, Runtime, Worker, WorkerSecret

    now = timezone.now()
    User.objects.create_superuser("root@example.org")
    users = User.objects.bulk_create(User(email=f"user-{n}@example.org") for n in range(USERS))
    workers = Worker.objects.bulk_create(Worker(name=f"device-{n}") for n in range(WORKERS))
    LastHeartbeat.objects.bulk_create(
        LastHeartbeat(worker=worker, last_seen_at=now) for worker in workers
    )
    Runtime.objects.bulk_create(
        Runtime(worker=worker, version="1.13.0", kind="wheel") for worker in workers
    )
    WorkerSecret.objects.bulk_create(
        WorkerSecret(worker=worker, kind="token", sha256=f"{worker.pk:064x}") for worker in workers
    )
    ends = [("succeeded", "")] * 8 + [("failed", "crashed"), ("cancelled", "cancelled_by_user")]
    tasks = Task.objects.bulk_create(
        [
            Task(
                owner=users[n % USERS],
                worker=workers[n % WORKERS],
                runtime_version="1.13.0",
                timeout_s=600,
                submitted_at=now - datetime.timedelta(seconds=TASKS - n),
                **_state(n, ends),
            )
            for n in range(TASKS)
        ],
        batch_size=2_000,
    )
    TaskFile.objects.bulk_create(
        [
            TaskFile(
                task=task,
                kind="model",
                name="net.mge",
                size_bytes=9,
                md5=uuid.uuid5(uuid.NAMESPACE_OID, str(task.pk)).hex,
                stored_at=now,
            )
            for task in tasks
        ],
        batch_size=2_000,
    )
    TaskEvent.objects.bulk_create(
        [TaskEvent(task=task, seq=n, kind="task.waiting") for task in tasks for n in (1, 2)],
        batch_size=5_000,
    )
    Attempt.objects.bulk_create(
        [_attempt(task, now) for task in tasks if task.state in ("running", "finished")],
        batch_size=2_000,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _state(number: int, ends: list[tuple[str, str]]) -> dict[str, str]:
    if number >= TASKS - 25:
        return {"state": "waiting"}
    if number >= TASKS - 50:
        return {"state": "running"}
    outcome, reason = ends[number % len(ends)]
    return {"state": "finished", "outcome": outcome, "reason": reason}


def _attempt(task: Any, now: datetime.datetime) -> Any:
    from tasks.models import Attempt

    is_finished = task.state == "finished"
    return Attempt(
        task=task,
        worker_id=task.worker_id,
        number=1,
        slot=0,
        lease_expires_at=now + datetime.timedelta(minutes=5),
        started_at=task.submitted_at,
        accepted_at=task.submitted_at if is_finished else None,
        ended_at=task.submitted_at if is_finished else None,
        end_reason="exited" if is_finished else "",
    )


if __name__ == "__main__":
    main()
