"""Simulate users who submit tasks: `python -m bench.fleet.clients`.

Commands are lines of JSON on stdin, answers are lines of JSON on stdout:

    {"ports": [8000], "tokens": [...], "threads": 4}                first
    {"tasks": [1, 2, ...], "per_s": 20, "together": 1}
                         -> {"failed": n, "seconds": s, "answer_ms": median, "sent": {"1": s}}

per_s: tasks per second; null for as fast as `threads` connections allow
together: how many tasks of one user each request submits
sent: time of the request of each task, s since the epoch
"""

import http.client
import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any


class RequestSchedule:
    """Hands out the tasks of one request at a time, at a rate of `per_s` tasks per second."""

    def __init__(self, requests: Sequence[list[int]], per_s: float | None) -> None:
        before = itertools.accumulate(map(len, requests), initial=0)
        self._requests = iter(zip(before, requests, strict=False))
        self._per_s, self._begin = per_s, time.monotonic()
        self._lock = threading.Lock()

    def next(self) -> list[int]:
        with self._lock:
            before, tasks = next(self._requests, (0, []))
        if tasks and self._per_s:
            time.sleep(max(0.0, self._begin + before / self._per_s - time.monotonic()))
        return tasks


def requests_of(tasks: Sequence[int], users: int, together: int) -> list[list[int]]:
    """Return the tasks of each request: up to `together` of one user, users in turn."""
    own = [tasks[user::users] for user in range(users)]
    longest = max(map(len, own))
    chunks = [
        own_tasks[at : at + together] for at in range(0, longest, together) for own_tasks in own
    ]
    return [list(group) for group in chunks if group]


class UserConnections:
    """The connections that submit tasks, one thread each."""

    def __init__(self, first: dict[str, Any]) -> None:
        self._ports, self._tokens, self._threads = first["ports"], first["tokens"], first["threads"]
        self.answers_ms: list[float] = []
        self.sent: dict[int, float] = {}
        self.failed = 0

    def submit(self, tasks: list[int], per_s: float | None, together: int) -> None:
        schedule = RequestSchedule(requests_of(tasks, len(self._tokens), together), per_s)
        ports = [self._ports[number % len(self._ports)] for number in range(self._threads)]
        threads = [threading.Thread(target=self._one, args=(schedule, port)) for port in ports]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, schedule: RequestSchedule, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while tasks := schedule.next():
            begin = time.perf_counter()
            self.sent |= dict.fromkeys(tasks, time.time())
            self._send(connection, tasks)
            answer = connection.getresponse()
            text = answer.read()
            self.answers_ms.append((time.perf_counter() - begin) * 1000)
            if answer.status != 200 or b'"refusal":{' in text:
                self.failed += len(tasks)
                sys.stderr.write(f"submit {tasks}: {answer.status} {text[:200]!r}\n")
        connection.close()

    def _send(self, connection: http.client.HTTPConnection, tasks: list[int]) -> None:
        # `rows.make_tasks` gives task n to user n modulo the number of users
        token = self._tokens[tasks[0] % len(self._tokens)]
        headers = {"Authorization": f"Bearer {token}"}
        if len(tasks) == 1:
            connection.request("POST", f"/api/v1/tasks/{tasks[0]}/submit/", headers=headers)
            return
        headers["Content-Type"] = "application/json"
        body = json.dumps({"tasks": tasks})
        connection.request("POST", "/api/v1/tasks/submit/", body, headers)


def main() -> None:
    users = UserConnections(json.loads(sys.stdin.readline()))
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        users.answers_ms, users.sent, users.failed = [], {}, 0
        begin = time.monotonic()
        users.submit(order["tasks"], order["per_s"], order["together"])
        answer = {
            "failed": users.failed,
            "seconds": time.monotonic() - begin,
            "answer_ms": statistics.median(users.answers_ms),
            "sent": users.sent,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
