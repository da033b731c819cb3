"""Create and read the database rows of `bench.fleet`; imported after Django is set up."""

import datetime
import hashlib
import statistics
from concurrent.futures import ThreadPoolExecutor

from django.db import connection
from django.db.models import Max, Min
from django.utils import timezone

from accounts.models import AccessToken, User
from accounts.tokens.access import issue_token
from agent.protocol.plan import Plan
from tasks.models import Attempt, Task, TaskFile
from tasks.states import TaskState
from testdata import DATA
from webprofile.storage import storage
from workers.models import Worker
from workers.tokens import issue_code

USERS = 10
MODEL = (DATA / "models" / "tiny.mge").read_bytes()
PLANS = {
    "profile": Plan(),
    "times": Plan(preset="custom", clean=True, profiled=0),
    "nothing": Plan(),
}


def make_users() -> list[str]:
    """Create the users and return their access tokens. Task n belongs to user n modulo USERS."""
    users = [User.objects.create_user(f"user-{n}@example.org", None) for n in range(USERS)]
    return [
        issue_token(user, name="bench", scopes=AccessToken.Scope.values[:2], days=1)[1]
        for user in users
    ]


def bench_users() -> list[User]:
    return list(User.objects.filter(email__startswith="user-").order_by("pk"))


def make_workers(first: int, last: int) -> list[str]:
    """Register devices and return their enrolment codes."""
    workers = Worker.objects.bulk_create(Worker(name=f"device-{n}") for n in range(first, last))
    return [issue_code(worker) for worker in workers]


def make_tasks(number: int, *, leave: str) -> list[int]:
    """Create tasks in state initiated, on the devices in turn, with their model in storage."""
    users = bench_users()
    devices = Worker.objects.filter(name__startswith="device-")  # not that of `Cluster`
    workers = list(devices.order_by("pk").values_list("pk", flat=True))
    begin = (Task.objects.aggregate(last=Max("pk"))["last"] or 0) + 1
    plan = PLANS[leave].model_dump(mode="json")
    deadline = timezone.now() + datetime.timedelta(hours=6)
    tasks = Task.objects.bulk_create(
        Task(
            pk=pk,
            owner=users[pk % len(users)],
            worker_id=workers[pk % len(workers)],
            runtime_version="1.13.0",
            plan=plan,
            timeout_s=600,
            upload_deadline_at=deadline,
        )
        for pk in range(begin, begin + number)
    )
    md5 = hashlib.md5(MODEL, usedforsecurity=False).hexdigest()
    files = TaskFile.objects.bulk_create(
        TaskFile(task=task, kind="model", name="net.mge", size_bytes=len(MODEL), md5=md5)
        for task in tasks
    )
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda file: storage.write(file.object_key, MODEL), files))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return [task.pk for task in tasks]


def unfinished(tasks: list[int]) -> int:
    span = Task.objects.filter(pk__gte=tasks[0], pk__lte=tasks[-1])
    return span.exclude(state=TaskState.FINISHED).count()


def describe_live_attempts(tasks: list[int]) -> str:
    """Return the times and artifacts of up to 20 live attempts as text."""
    live = Attempt.objects.filter(task__in=tasks, ended_at=None).order_by("created_at")
    columns = ("task_id", "worker_id", "created_at", "accepted_at", "started_at")
    columns += ("lease_expires_at", "artifacts__name", "artifacts__is_stored")
    rows = live.values_list(*columns)[:20]
    return "\n".join(" ".join(str(value) for value in row) for row in rows)


def ends(tasks: list[int]) -> dict[str, int]:
    """Count tasks by state, outcome and reason."""
    counts: dict[str, int] = {}
    rows = Task.objects.filter(pk__in=tasks).values_list("state", "outcome", "reason")
    for row in rows:
        name = " ".join(filter(None, row))
        counts[name] = counts.get(name, 0) + 1
    return counts


def span_s(tasks: list[int]) -> float:
    """Return the time from the first submission to the last end in s."""
    times = Task.objects.filter(pk__in=tasks).aggregate(Min("submitted_at"), Max("finished_at"))
    return (times["finished_at__max"] - times["submitted_at__min"]).total_seconds()


def starts_ms(sent: dict[int, float]) -> list[float]:
    """Return the latencies from a user's request to the agent's message that the process runs, ms.

    sent: task id -> time of its request, s since the epoch
    """
    rows = Attempt.objects.filter(task__in=sent, number=1).exclude(started_at=None)
    pairs = rows.values_list("task", "started_at")
    return [(start.timestamp() - sent[task]) * 1000 for task, start in pairs]


def percentile(values: list[float], of: int) -> float:
    if len(values) < 2:
        return max(values, default=float("nan"))
    return statistics.quantiles(values, n=100, method="inclusive")[of - 1]
