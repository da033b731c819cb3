"""Read tasks and attempts from the database of the site, without writing."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TASKS = """select id, worker_id, state, outcome, reason, detail from tasks_task
    where purpose = 'user'"""
#: tasks with a repeated event, which means that a result was accepted twice
_MOVED_TWICE = """select task_id, kind, count(*) from tasks_taskevent
    where kind in ('task.processing', 'task.finished') group by task_id, kind
    having count(*) > 1"""
_PROFILES = """select a.task_id, count(*) from profiles_profile p
    join tasks_attempt a on a.id = p.attempt_id group by a.task_id having count(*) > 1"""
#: tasks with two successful attempts, and tasks with two attempts live at the same time
_SUCCEEDED_TWICE = """select task_id, count(*) from tasks_attempt
    where end_reason = 'exited' and exit_code = 0 group by task_id having count(*) > 1"""
_OVERLAPPING = """select distinct a.task_id from tasks_attempt a join tasks_attempt b
    on a.task_id = b.task_id and a.number < b.number
    where a.ended_at is null or a.ended_at > b.created_at"""


@dataclass(frozen=True)
class TaskSnapshot:
    """The columns of a task that the bench reads."""

    id: int
    worker_id: int
    state: str
    outcome: str
    reason: str
    detail: str

    @property
    def is_live(self) -> bool:
        return self.state != "finished"


class SiteDatabase:
    """Read-only access to the site's database.

    Each query opens a connection of its own, so that no lock delays the site.
    """

    def __init__(self, database: Path) -> None:
        self._address = f"file:{database}?mode=ro"

    def tasks(self, *, live: bool = False) -> dict[int, TaskSnapshot]:
        """Return the tasks of users by id; with `live` only those that have not ended."""
        only = " and state != 'finished'" if live else ""
        with self._open() as database:
            return {row[0]: TaskSnapshot(*row) for row in database.execute(_TASKS + only)}

    def events_after(self, event: int) -> list[tuple[int, int, int]]:
        """Return (event id, task id, worker id) of all events after `event`, in order."""
        query = """select e.id, e.task_id, t.worker_id from tasks_taskevent e
            join tasks_task t on t.id = e.task_id where e.id > ? order by e.id"""
        with self._open() as database:
            return database.execute(query, (event,)).fetchall()

    def devices_with_runtimes(self) -> int:
        """Count the devices that have reported a working runtime."""
        query = "select count(distinct worker_id) from workers_runtime where problem = ''"
        with self._open() as database:
            count: int = database.execute(query).fetchone()[0]
        return count

    def doubles(self) -> dict[int, str]:
        """Return tasks with more than one result or with overlapping attempts -> description."""
        doubles: dict[int, str] = {}
        with self._open() as database:
            for task, kind, count in database.execute(_MOVED_TWICE):
                doubles[task] = f"{kind} came {count} times"
            for task, count in database.execute(_PROFILES):
                doubles[task] = f"{count} profiles"
            for task, count in database.execute(_SUCCEEDED_TWICE):
                doubles[task] = f"{count} attempts ended well"
            for (task,) in database.execute(_OVERLAPPING):
                doubles[task] = "two attempts lived at the same time"
        return doubles

    def attempts(self) -> tuple[int, dict[str, int]]:
        """Return the number of attempts, and counts by reason of their end."""
        query = "select end_reason, count(*) from tasks_attempt group by end_reason"
        with self._open() as database:
            ends = dict(database.execute(query))
        return sum(ends.values()), ends

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self._address, uri=True, timeout=30)) as database:
            yield database
