"""Count the SQL statements of a task from its submission to its stored result.

Counts all queries of the site for a task with one model: the request of the user with its
authentication, the assignment, the handling of each frame of the agent, and the actor that reads
the result. BEGIN, COMMIT and savepoints are not counted, because they read and write no row. Frames
and wake-ups are passed directly to the functions that handle them.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
import pytest
from django.db import connection

# actors are registered by their import
import profiles.actors  # noqa: F401
import tasks.actors  # noqa: F401
from accounts.models import AccessToken
from accounts.tokens.access import issue_token
from agent.protocol.messages import (
    AttemptAccepted,
    AttemptFinished,
    AttemptLog,
    AttemptStarted,
    AttemptUploads,
    EndReason,
    FileOffer,
)
from tasks.dispatch import gateway
from tasks.models import Task, artifact_key
from tasks.tests.make import TASKS, make_user, make_worker, task_request, upload_files
from webprofile.storage import storage as object_storage
from webprofile.tests.documented_api import DocumentedClient
from workers import tokens

#: of all steps together; one of them saves the keys of confirmed files
LIMIT = 39


class StatementRecorder:
    """Records the SQL statements of each step."""

    def __init__(self) -> None:
        self.by_step: dict[str, list[str]] = {}

    @contextmanager
    def record(self, step: str) -> Iterator[None]:
        statements = self.by_step.setdefault(step, [])

        def watch(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
            if not sql.startswith(("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK")):
                statements.append(sql)
            return execute(sql, *args)

        with connection.execute_wrapper(watch):
            yield

    def counts(self) -> Counter[str]:
        return Counter({step: len(statements) for step, statements in self.by_step.items()})


def process_queue(queue: str) -> None:
    """Run the actors for all messages of a queue."""
    broker = dramatiq.get_broker()
    waiting = broker.queues[queue]
    while not waiting.empty():
        message = dramatiq.Message.decode(waiting.get_nowait())
        broker.get_actor(message.actor_name).fn(*message.args)
        waiting.task_done()


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_task_takes_few_statements_from_submission_to_result(storage, testdata):
    worker, token = tokens.redeem_code(tokens.issue_code(make_worker()))
    scopes = AccessToken.Scope.values[:2]
    _, secret = issue_token(make_user(), name="script", scopes=scopes, days=1)
    client = DocumentedClient(headers={"Authorization": f"Bearer {secret}"})
    body = task_request(worker=worker.pk)
    task = client.post(TASKS, body | {"files": body["files"][:1]}, format="json").json()
    upload_files(task)
    content = (testdata / "profiles" / "tiny.json").read_bytes()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    offer = FileOffer(name="profile.json", size_bytes=len(content), md5=digest)
    statements = StatementRecorder()
    # messages of earlier tests
    dramatiq.get_broker().flush_all()

    def receive(message: Any) -> None:
        with statements.record(message.type):
            gateway.handle(worker, message, token)

    with statements.record("submit"):
        answer = client.post(f"{TASKS}{task['id']}/submit/")
    assert answer.status_code == 200, answer.json()
    with statements.record("dispatch"):
        process_queue("dispatch")
    with statements.record("order"):
        (start,) = gateway.desired_state(worker.pk)
    receive(AttemptAccepted(attempt=start.attempt))
    receive(AttemptStarted(attempt=start.attempt, at=0, command="load_and_run"))
    receive(AttemptLog(attempt=start.attempt, seq=1, offset=0, size=7, text="a line\n"))
    receive(AttemptUploads(attempt=start.attempt, files=(offer,)))
    object_storage.write(artifact_key(str(start.attempt), offer.name), content)
    facts = {"reason": EndReason.EXITED, "exit_code": 0, "files": (offer,)}
    receive(AttemptFinished(attempt=start.attempt, at=0, **facts))
    with statements.record("dispatch, nothing waits"):
        process_queue("dispatch")
    with statements.record("result"):
        process_queue("profiles")
    assert Task.objects.get(pk=task["id"]).outcome == "succeeded"
    counts = statements.counts()
    assert counts.total() <= LIMIT, counts


def test_documents_name_the_limit(settings):
    docs = settings.BASE_DIR / "docs"
    scaling = (docs / "scaling.md").read_text(encoding="utf-8")
    assert f"fails above {LIMIT}." in scaling
    _, table = scaling.split("| step | process |")
    rows = re.findall(r"^\| (.*?) \|.*\| (\d+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    *steps, (total, number) = rows
    assert (total, int(number)) == ("total", LIMIT)
    assert sum(int(count) for _, count in steps) == LIMIT
    dispatch = (docs / "architecture" / "dispatch.md").read_text(encoding="utf-8")
    assert f"costs {LIMIT} SQL statements" in dispatch
