"""Read tasks and attempts from the database of the site, without writing."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TASKS = """select id, worker_id, state, outcome, reason, detail from tasks_task
    where purpose = 'user'"""
#: more than one of these for a task: its result was taken twice
_MOVED_TWICE = """select task_id, kind, count(*) from tasks_taskevent
    where kind in ('task.processing', 'task.finished') group by task_id, kind
    having count(*) > 1"""
_PROFILES = """select a.task_id, count(*) from profiles_profile p
    join tasks_attempt a on a.id = p.attempt_id group by a.task_id having count(*) > 1"""
#: two attempts of one task that ended well, and two that lived at the same time
_WELL_TWICE = """select task_id, count(*) from tasks_attempt
    where end_reason = 'exited' and exit_code = 0 group by task_id having count(*) > 1"""
_TOGETHER = """select distinct a.task_id from tasks_attempt a join tasks_attempt b
    on a.task_id = b.task_id and a.number < b.number
    where a.ended_at is null or a.ended_at > b.created_at"""


@dataclass(frozen=True)
class TaskRow:
    """One task as it is now."""

    id: int
    worker_id: int
    state: str
    outcome: str
    reason: str
    detail: str

    @property
    def is_live(self) -> bool:
        return self.state != "finished"


class Rows:
    """The site's database, opened for each question: nothing of ours may hold it up."""

    def __init__(self, database: Path) -> None:
        self._address = f"file:{database}?mode=ro"

    def tasks(self, *, live: bool = False) -> dict[int, TaskRow]:
        """All tasks of users by number, or those that have not ended."""
        only = " and state != 'finished'" if live else ""
        with self._open() as database:
            return {row[0]: TaskRow(*row) for row in database.execute(_TASKS + only)}

    def events_after(self, event: int) -> list[tuple[int, int, int]]:
        """What happened since: number of the event, its task, the device of the task."""
        query = """select e.id, e.task_id, t.worker_id from tasks_taskevent e
            join tasks_task t on t.id = e.task_id where e.id > ? order by e.id"""
        with self._open() as database:
            return database.execute(query, (event,)).fetchall()

    def introduced(self) -> int:
        """How many devices have said what they can run."""
        query = "select count(distinct worker_id) from workers_runtime where problem = ''"
        with self._open() as database:
            count: int = database.execute(query).fetchone()[0]
        return count

    def doubles(self) -> dict[int, str]:
        """Tasks with more than one result, or two attempts at once, and what is wrong."""
        doubles: dict[int, str] = {}
        with self._open() as database:
            for task, kind, count in database.execute(_MOVED_TWICE):
                doubles[task] = f"{kind} came {count} times"
            for task, count in database.execute(_PROFILES):
                doubles[task] = f"{count} profiles"
            for task, count in database.execute(_WELL_TWICE):
                doubles[task] = f"{count} attempts ended well"
            for (task,) in database.execute(_TOGETHER):
                doubles[task] = "two attempts lived at the same time"
        return doubles

    def attempts(self) -> tuple[int, dict[str, int]]:
        """How many there were, and how they ended."""
        query = "select end_reason, count(*) from tasks_attempt group by end_reason"
        with self._open() as database:
            ends = dict(database.execute(query))
        return sum(ends.values()), ends

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self._address, uri=True, timeout=30)) as database:
            yield database
