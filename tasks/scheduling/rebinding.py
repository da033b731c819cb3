"""Move a waiting task to another worker, and change its priority."""

import structlog
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from accounts.models import User
from tasks.audit import record_change
from tasks.lifecycle.transitions import add_event
from tasks.lifecycle.wakeups import dispatch_on_commit
from tasks.models import Purpose, Task
from tasks.states import TaskState
from tasks.submission.pairing import arm_requests
from tasks.submission.request import request_of
from tasks.submission.validation import check_fits, check_priority, refusal_by, runtime_of
from webprofile.errors import DomainError
from workers.models import Runtime, Worker

log = structlog.get_logger()


@transaction.atomic
def rebind_task(task: Task, *, to: Runtime, because: str) -> bool:
    """Move a waiting task to another worker; return whether it was moved.

    It is not moved if it no longer waits for the worker and version that `task` has. `task` is
    refreshed from the database in any case.

    because: `slot_free`, `worker_away` or `asked`, stored with the event
    """
    moved_from = task.worker
    moved = Task.objects.filter(
        pk=task.pk, state=TaskState.WAITING, worker=moved_from, runtime_version=task.runtime_version
    ).update(
        worker=to.worker,
        runtime_version=to.version,
        event_seq=F("event_seq") + 1,
        updated_at=timezone.now(),
    )
    task.refresh_from_db()
    if not moved:
        return False
    data = {
        "from": moved_from.name,
        "to": to.worker.name,
        "version": to.version,
        "because": because,
    }
    add_event(task, "task.moved", data)
    log.info("task_rebound", task=task.pk, to=to.worker.name, because=because)
    return True


def fits(task: Task, runtime: Runtime) -> bool:
    """Whether a runtime and its worker support everything that the task requests."""
    arrays = [array for file in task.files.all() for array in file.arrays]
    return refusal_by(check_fits, runtime, request_of(task), arrays) is None


def runtime_to_move(task: Task, to: Worker) -> Runtime:
    """Return the runtime on which a task would run on another worker, with the same version.

    Raises DomainError if the worker cannot run the task, or the task is a health check.
    """
    if task.purpose == Purpose.HEALTH:
        raise DomainError("check_stays", status=409)
    # first, since most devices that cannot run the task lack its version
    runtime = runtime_of(task.owner, to, task.runtime_version)
    arrays = {file.object_key: file.arrays for file in task.files.all()}
    for arm in arm_requests(request_of(task)):
        version = arm.runtime_version or task.runtime_version
        own = [array for file in arm.files for array in arrays[file.source]]
        check_fits(runtime_of(task.owner, to, version), arm, own)
    return runtime


@transaction.atomic
def move_task(task: Task, *, to: Worker, by: User | None = None) -> None:
    """Move a waiting task to a worker that a user chose. Idempotent.

    by: the acting user, as of `record_change`

    Clears the task's target. Raises DomainError as `runtime_to_move`, or not_waiting if the task no
    longer waits.
    """
    # the dispatcher may have moved the task since it was read, and must not before it stays there
    task.refresh_from_db(from_queryset=Task.objects.select_for_update(no_key=True))
    runtime = runtime_to_move(task, to)
    is_moved = task.worker_id == to.pk and task.state == TaskState.WAITING
    before = {"worker": task.worker.name}
    if not is_moved and not rebind_task(task, to=runtime, because="asked"):
        raise DomainError("not_waiting", status=409)
    if not is_moved:
        record_change("task.change", task, by=by, before=before, after={"worker": to.name})
    Task.objects.filter(pk=task.pk).update(target=None)
    task.target = None
    dispatch_on_commit({to.pk})


@transaction.atomic
def prioritize_task(task: Task, *, priority: int, by: User) -> None:
    """Change the priority of a task that has not started. Idempotent.

    Raises DomainError priority_bad outside the range that `by` may set, not_waiting if the task has
    started.
    """
    check_priority(by, priority)
    idle = {TaskState.INITIATED, TaskState.WAITING}
    if task.priority == priority and task.state in idle:
        return
    before = task.priority
    changed = Task.objects.filter(pk=task.pk, state__in=idle).update(
        priority=priority, event_seq=F("event_seq") + 1, updated_at=timezone.now()
    )
    task.refresh_from_db()
    if not changed:
        raise DomainError("not_waiting", status=409)
    add_event(task, "task.prioritized", {"from": before, "to": priority})
    record_change(
        "task.change", task, by=by, before={"priority": before}, after={"priority": priority}
    )
