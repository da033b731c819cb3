"""What each step of a task takes: `python -m bench.fleet.steps [--tasks 60]`.

Processor time and queries of the functions that web process and actor call, one after the other in
this process, on PostgreSQL, Redis and storage of its own. What a socket and a server add around
them is measured by `bench.fleet`.
"""

import argparse
import hashlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tabulate import tabulate

from bench.fleet.plant import running_plant
from testdata import DATA

DEVICES = 50
T = TypeVar("T")


class Steps:
    """The way of one task after the other; what each step took."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}
        self.queries: dict[str, list[int]] = {}

    def take(self, name: str, act: Callable[[], T]) -> T:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        begin = time.process_time()
        with CaptureQueriesContext(connection) as captured:
            result = act()
        self.times.setdefault(name, []).append((time.process_time() - begin) * 1000)
        self.queries.setdefault(name, []).append(len(captured))
        return result

    def table(self) -> str:
        rows = [
            [name, statistics.median(times), statistics.median(self.queries[name])]
            for name, times in self.times.items()
        ]
        return tabulate(rows, headers=["step", "ms", "queries"], floatfmt=("", ".2f", ".0f"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the steps of a task.")
    parser.add_argument("--tasks", type=int, default=60)
    wanted = parser.parse_args().tasks
    os.environ["DJANGO_SETTINGS_MODULE"] = "webprofile.settings.dev"
    with (
        tempfile.TemporaryDirectory() as folder,
        running_plant(Path(folder), webs=0, heartbeat_s=600),
    ):
        import django

        django.setup()
        steps = Steps()
        run(steps, wanted)
        print(f"processor time, median of {wanted} tasks; load {os.getloadavg()[0]:.1f}")
        print(steps.table())


def run(steps: Steps, wanted: int) -> None:
    from django.conf import settings
    from django.test import Client

    from agent.protocol import FEATURE_PLANS, Hello
    from bench.fleet import rows
    from bench.fleet.agents import FACTS, RUNTIMES
    from workers import gateway, tokens

    settings.ALLOWED_HOSTS = ["*"]
    users, client = rows.make_users(), Client()
    devices = [tokens.code_redeem(code) for code in rows.make_workers(0, DEVICES)]
    hello = Hello(
        agent_version="0", facts=FACTS, runtimes=RUNTIMES, features=frozenset({FEATURE_PLANS})
    )
    for name in ("hello, first", "hello, again"):
        for _, token in devices:
            steps.take(name, lambda t=token: gateway.handle(tokens.token_check(t), hello))
    by_worker = {worker.pk: token for worker, token in devices}
    for number in rows.make_tasks(wanted, leave="profile"):
        _task(steps, client, number, by_worker=by_worker, users=users)
    held = {worker.pk: frozenset[Any]() for worker, _ in devices}
    digests = [tokens.digest(token) for _, token in devices]
    for _, token in devices:
        steps.take(
            f"{DEVICES} heartbeats by socket",
            lambda: (tokens.tokens_valid(digests), gateway.on_heartbeats(held)),
        )
        steps.take("1 heartbeat by HTTP", lambda t=token: _beat(client, t))


def _beat(client: Any, token: str) -> None:
    body = json.dumps({"running": [], "sent_at": 0})
    headers = {"Authorization": f"Bearer {token}"}
    answer = client.post(
        "/api/agent/heartbeat/", body, content_type="application/json", headers=headers
    )
    assert answer.status_code == 200


def _task(
    steps: Steps, client: Any, number: int, *, by_worker: dict[int, str], users: list[str]
) -> None:
    from agent.protocol import (
        AttemptAccepted,
        AttemptFinished,
        AttemptStarted,
        AttemptUploads,
        EndReason,
        FileOffer,
    )
    from profiles.actors import build_profile
    from profiles.models import artifact_key
    from tasks.models import Task
    from tasks.queue.scheduling import assign_waiting
    from webprofile.storage import storage
    from workers import gateway

    worker = Task.objects.select_related("worker").get(pk=number).worker
    content = (DATA / "profiles/tiny.json").read_bytes()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    offer = FileOffer(name="profile.json", size_bytes=len(content), md5=digest)

    def say(message: Any) -> Any:
        def act() -> Any:
            return gateway.handle(worker, message, by_worker[worker.pk])

        return steps.take(f"frame: {message.type}", act)

    headers = {"Authorization": f"Bearer {users[number % len(users)]}"}
    answer = steps.take(
        "submit",
        lambda: client.post(f"/api/v1/tasks/{number}/submit/", headers=headers),
    )
    assert answer.status_code == 200, answer.content
    steps.take("dispatch", lambda: assign_waiting([worker.pk]))
    (start,) = steps.take("read the order", lambda: gateway.desired_state(worker.pk))
    say(AttemptAccepted(attempt=start.attempt))
    say(AttemptStarted(attempt=start.attempt, at=0))
    say(AttemptUploads(attempt=start.attempt, files=(offer,)))
    storage.write(artifact_key(str(start.attempt), offer.name), content)
    say(
        AttemptFinished(
            attempt=start.attempt, at=0, reason=EndReason.EXITED, exit_code=0, files=(offer,)
        )
    )
    steps.take("actor: build the result", lambda: build_profile(str(start.attempt)))


if __name__ == "__main__":
    main()
