"""The rows of `bench.bench_queue`, and what is asked of them; imported once Django is set up."""

import datetime
from collections.abc import Callable
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import User
from tasks.models import Attempt, Task
from tasks.queue.facts import facts_of, outlook
from tasks.queue.scheduling import assign_waiting, queue_of, rebind_strays
from tasks.queue.turns import in_own_order, tiers
from tasks.states import TaskState
from workers.models import Pulse, Runtime, Worker

#: attempts that ended on the device before, and lately enough to count for a user's share
PAST = 20_000
LATELY = 400


def prepare(users: int) -> None:
    """Users, two devices, of which one is online and busy, and its history."""
    User.objects.bulk_create(User(email=f"user-{n}@example.org") for n in range(users))
    seen = timezone.now() + datetime.timedelta(days=1)
    for name in ("busy", "free"):
        worker = Worker.objects.create(name=name, labels={"chip": "A"})
        Pulse.objects.create(worker=worker, last_seen_at=seen)
        Runtime.objects.create(worker=worker, version="1.13.0", kind="wheel")
    worker, owners = Worker.objects.get(name="busy"), list(User.objects.all())
    _insert(worker, owners, PAST, state="finished", outcome="succeeded")
    past = list(Task.objects.filter(state="finished").order_by("pk"))
    Attempt.objects.bulk_create(_ended(task, worker, place) for place, task in enumerate(past))
    for attempt in Attempt.objects.order_by("pk")[:LATELY]:
        attempt.ended_at = timezone.now() - datetime.timedelta(minutes=30)
        attempt.save(update_fields=["ended_at"])
    Attempt.objects.update(created_at=timezone.now() - datetime.timedelta(days=2))
    lately = Attempt.objects.filter(ended_at__gt=timezone.now() - datetime.timedelta(hours=1))
    lately.update(created_at=timezone.now() - datetime.timedelta(minutes=31))


def _ended(task: Task, worker: Worker, place: int) -> Attempt:
    end = timezone.now() - datetime.timedelta(days=1, seconds=place)
    return Attempt(task=task, worker=worker, number=1, slot=0, ended_at=end, lease_expires_at=end)


def _insert(worker: Worker, owners: list[User], number: int, **columns: Any) -> None:
    now = timezone.now()
    Task.objects.bulk_create(
        (
            Task(
                owner=owners[place % len(owners)],
                worker=worker,
                runtime_version="1.13.0",
                timeout_s=600,
                priority=place % 5 - 2,
                target={"labels": {"chip": "A"}} if place % 4 == 0 else None,
                submitted_at=now - datetime.timedelta(seconds=number - place),
                **columns,
            )
            for place in range(number)
        ),
        batch_size=500,
    )


def fill(number: int) -> None:
    """So many tasks wait for the busy device."""
    Task.objects.filter(state=TaskState.WAITING).delete()
    columns = {"state": TaskState.WAITING}
    _insert(Worker.objects.get(name="busy"), list(User.objects.all()), number, **columns)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def questions() -> dict[str, Callable[[], Any]]:
    """What pages and the dispatcher ask; each may be asked again and again."""
    task = Task.objects.filter(state=TaskState.WAITING).order_by("-submitted_at").first()
    worker = Worker.objects.get(name="busy")
    assert task is not None
    owner = task.owner
    return {
        "facts of a waiting task": lambda: facts_of(task, reader=owner),
        "what the form says": lambda: outlook(worker, "1.13.0", owner=owner),
        "next task of a device": lambda: _undone(lambda: assign_waiting([worker.pk])),
        "take one over by its target": lambda: _undone(
            lambda: assign_waiting([Worker.objects.get(name="free").pk])
        ),
        "look for strays": rebind_strays,
    }


def _undone(act: Callable[[], Any]) -> None:
    """Do it without a trace, so that it can be done again."""
    with transaction.atomic():
        if not act():
            raise SystemExit("nothing was assigned: the numbers would mean nothing")
        transaction.set_rollback(True)


def plans() -> dict[str, list[str]]:
    """How the database answers the queries behind it."""
    worker = Worker.objects.get(name="busy")
    owner = User.objects.first()
    waiting = queue_of(worker)
    own = waiting.annotate(tier=tiers()).filter(tier=0, owner=owner)
    with_target = Task.objects.filter(state=TaskState.WAITING, target__isnull=False)
    past = Attempt.objects.filter(worker=worker, ended_at__isnull=False).order_by("-ended_at")
    return {
        "tasks by user and tier": _plan(_grouped(waiting)),
        "a user's next task": _plan(in_own_order(own)[:1]),
        "targets that wait": _plan(with_target.order_by().values("target").distinct()),
        "history of a device": _plan(past.values("created_at", "ended_at")[:50]),
    }


def _grouped(waiting: QuerySet[Task]) -> QuerySet[Any, Any]:
    from django.db.models import Count, Min

    rows = waiting.order_by().annotate(tier=tiers()).values("tier", "owner_id")
    return rows.annotate(Count("pk"), Min("submitted_at"))


def _plan(rows: QuerySet[Any, Any]) -> list[str]:
    return rows.explain().splitlines()
