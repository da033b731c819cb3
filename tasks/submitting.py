"""From uploaded files into the queue: whether they arrived whole, and can be what they are."""

import datetime
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import prefetch_related_objects
from django.utils import timezone

from tasks.asking.admission import misfit
from tasks.asking.copying import described, script_of
from tasks.asking.inspection import inspect
from tasks.asking.programs import check_model, check_program
from tasks.hints import dispatch_on_commit
from tasks.models import Task, TaskFile
from tasks.queue.targets import Candidate, candidates, target_of
from tasks.selectors import place_read_again
from tasks.states import TaskState
from tasks.transitions import tasks_lock, transitions_if
from webprofile.errors import DomainError
from webprofile.saving import rows_save, wait_at_most
from webprofile.together import Together

#: devices for the same user's tasks with the same target, the soonest free first
Places = dict[tuple[int, str], list[Candidate]]
#: so many that a round takes some 100 ms at most
SUBMITTED_TOGETHER = 50
ROUND_WAITS_S = 1.0


@dataclass(frozen=True)
class StoredObject:
    """What object storage says of an object."""

    size_bytes: int
    md5: str


@dataclass(frozen=True)
class Arrived:
    """A task whose files are said to be there.

    `stored` maps file ids to what storage holds (None: nothing), `heads` those of files that are
    looked into to their first bytes (`tasks.asking.inspection`, `programs`).
    """

    task: Task
    stored: Mapping[int, StoredObject | None]
    heads: Mapping[int, bytes] = field(default_factory=dict)


def task_submit(
    task: Task,
    stored: Mapping[int, StoredObject | None],
    heads: Mapping[int, bytes] | None = None,
) -> None:
    """Put a task into the queue, its files being what was announced. Repeating it changes nothing.

    stored, heads: see `Arrived`. Raises DomainError upload_missing or upload_damaged, naming the
    files; input_* for data that no device could use, script_* and model_* for a program or model
    that is none; not_initiated if the task ended.
    """
    if refused := tasks_submit([Arrived(task, stored, heads or {})]):
        raise refused[task.pk]


def tasks_submit(arrived: Sequence[Arrived]) -> dict[int, DomainError]:
    """The same of several tasks; returns what is wrong with those that stay behind.

    What several requests submit at the same moment is one transaction; where that fails, each task
    has one of its own. Repeating it changes nothing.
    """
    if transaction.get_connection().in_atomic_block:
        return _submit_within(arrived)
    found = _rounds.do(arrived)
    return {each.task.pk: error for each, error in zip(arrived, found, strict=True) if error}


@transaction.atomic
def _submit_within(arrived: Sequence[Arrived]) -> dict[int, DomainError]:
    tasks_lock([each.task.pk for each in arrived], may_wait=True)
    return _submit(arrived)


@transaction.atomic
def _submit_together(arrived: Sequence[Arrived]) -> dict[int, DomainError | None]:
    """What is wrong with each, by its place; without those that somebody else has locked, and
    without what is there twice.
    """
    # other rows than those: nobody may hold up what everybody submits
    wait_at_most(ROUND_WAITS_S)
    places = {each.task.pk: place for place, each in reversed(list(enumerate(arrived)))}
    held = tasks_lock(places, may_wait=False)
    refused = _submit([arrived[places[pk]] for pk in held])
    return {places[pk]: refused.get(pk) for pk in held}


@transaction.atomic
def _submit_alone(arrived: Arrived) -> DomainError | None:
    tasks_lock([arrived.task.pk], may_wait=True)
    # a round that was undone left here what it had written
    with suppress(Task.DoesNotExist):
        place_read_again(arrived.task)
    return _submit([arrived]).get(arrived.task.pk)


_rounds = Together(_submit_together, _submit_alone, most=SUBMITTED_TOGETHER)


def _submit(arrived: Sequence[Arrived]) -> dict[int, DomainError]:
    """As `tasks_submit`, of tasks whose rows this transaction holds."""
    prefetch_related_objects([each.task for each in arrived], "files")
    places: Places = {}
    refused, changed = dict[int, DomainError](), list[TaskFile]()
    going = defaultdict[tuple[tuple[str, Any], ...], list[Task]](list)
    for each in arrived:
        try:
            looked_into, where = _judged(each, places)
        except DomainError as error:
            refused[each.task.pk] = error
        else:
            changed += looked_into
            going[tuple(where.items())].append(each.task)
    rows_save(changed, ["arrays"])
    # first in line on commit: the device should not wait for what browsers are told
    dispatch_on_commit(
        {dict(where).get("worker_id", task.worker_id) for where in going for task in going[where]}
    )
    now, moved = timezone.now(), list[Task]()
    for columns, tasks in going.items():
        moved += transitions_if(
            tasks,
            TaskState.WAITING,
            {TaskState.INITIATED},
            submitted_at=now,
            queue_deadline_at=now + datetime.timedelta(seconds=settings.QUEUE_DEADLINE_S),
            **dict(columns),
        )
    TaskFile.objects.filter(task__in=moved).update(stored_at=now)
    for file in (file for task in moved for file in task.files.all()):
        file.stored_at = now
    late = (task for tasks in going.values() for task in tasks if task.state == TaskState.FINISHED)
    return refused | {task.pk: DomainError("not_initiated", status=409) for task in late}


def _judged(arrived: Arrived, places: Places) -> tuple[list[TaskFile], dict[str, Any]]:
    """The files whose `arrays` are known now, and columns to change. Raises as `task_submit`."""
    task, stored = arrived.task, arrived.stored
    if task.state == TaskState.FINISHED:
        raise DomainError("not_initiated", status=409)
    files = list(task.files.all())
    missing = [file.name for file in files if stored.get(file.pk) is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    expected = {file.pk: StoredObject(file.size_bytes, file.stored_md5) for file in files}
    damaged = [file.name for file in files if stored[file.pk] != expected[file.pk]]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))
    looked_into = _look_into(task, files, arrived.heads)
    check_feeds(task, files)
    return looked_into, _chosen_now(task, files, places)


def _look_into(task: Task, files: list[TaskFile], heads: Mapping[int, bytes]) -> list[TaskFile]:
    """Note what the headers of data files say, and return those; refuse what cannot be inputs.

    Refuses a model that is a program, and a program that is none.
    """
    for file in files:
        if file.kind == TaskFile.Kind.MODEL and file.pk in heads:
            _check_start(task, file, heads[file.pk])
    if task.is_script:
        return []
    data = [file for file in files if file.kind == TaskFile.Kind.DATA and file.pk in heads]
    if not data:
        return []
    runtime = task.worker.runtimes.filter(version=task.runtime_version).first()
    # with a target another device may take what this one cannot: see `_chosen_now`
    kind = runtime.kind if runtime and task.target is None else "wheel"
    for file in data:
        found = inspect(file.name, heads[file.pk], file.size_bytes, kind=kind)
        file.arrays = [array.as_row() for array in found]
    return data


def _check_start(task: Task, file: TaskFile, head: bytes) -> None:
    if script := script_of(task):
        check_program(file.name, head, file.size_bytes, entry=script.entry)
    else:
        check_model(file.name, head)


def _chosen_now(task: Task, files: list[TaskFile], places: Places) -> dict[str, Any]:
    """The columns that send a task with a target to the device that is best at this moment.

    Meanwhile the files were uploaded, which may have taken hours. If no device is there any more,
    it waits where it was; raises DomainError if none of those there can take its data.
    """
    if task.target is None or task.state != TaskState.INITIATED:
        return {}
    request = described(task)
    arrays = [array for file in files for array in file.arrays]
    key = (task.owner_id, json.dumps(task.target, sort_keys=True))
    if key not in places:
        places[key] = candidates(target_of(task.target), user=task.owner)
    refusals = []
    for each in places[key]:
        refusal = misfit(each, request, arrays)
        if refusal is None:
            # the next one of the same kind goes to the next device
            places[key].remove(each)
            places[key].append(each)
            return {"worker_id": each.worker.pk, "runtime_version": each.runtime.version}
        refusals.append(refusal)
    if refusals:
        raise refusals[0]
    return {}


def check_feeds(task: Task, files: list[TaskFile]) -> None:
    """Raise DomainError if two of files, JSON's entries and given inputs are for one variable."""
    if task.is_script:
        return  # its data feed nothing, they lie beside it
    feeds = [(given["name"], "") for given in task.inputs]
    for file in files:
        if file.kind == TaskFile.Kind.DATA:
            names = [file.input] if file.input else [array["name"] for array in file.arrays]
            feeds += [(name, file.name) for name in names]
    sources = dict[str, str]()
    for name, source in feeds:
        if name in sources:
            both = sorted({sources[name], source} - {""})
            raise DomainError("input_given_twice", field="data", input=name, files=", ".join(both))
        sources[name] = source
