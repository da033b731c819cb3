"""Users who submit tasks: `python -m bench.fleet.clients`, told by JSON on stdin.

    {"ports": [8000], "tokens": [...], "threads": 4}                first
    {"tasks": [1, 2, ...], "per_s": 20, "together": 1}
                         -> {"failed": n, "seconds": s, "answer_ms": median, "sent": {"1": s}}

`sent`: when the request of each task left, by the clock; `per_s` null: as fast as `threads`
connections can; `together`: tasks that a user submits with one request, where it is above 1.
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


class Rounds:
    """Hands out what is submitted with one request, each at its time; `per_s` counts tasks."""

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
    """What each request submits: tasks of one user, the users in turn."""
    own = [tasks[user::users] for user in range(users)]
    longest = max(map(len, own))
    cut = [own_tasks[at : at + together] for at in range(0, longest, together) for own_tasks in own]
    return [list(group) for group in cut if group]


class Users:
    """The connections; each belongs to one user."""

    def __init__(self, first: dict[str, Any]) -> None:
        self._ports, self._tokens, self._threads = first["ports"], first["tokens"], first["threads"]
        self.answers_ms: list[float] = []
        self.sent: dict[int, float] = {}
        self.failed = 0

    def submit(self, tasks: list[int], per_s: float | None, together: int) -> None:
        rounds = Rounds(requests_of(tasks, len(self._tokens), together), per_s)
        ports = [self._ports[number % len(self._ports)] for number in range(self._threads)]
        threads = [threading.Thread(target=self._one, args=(rounds, port)) for port in ports]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, rounds: Rounds, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while tasks := rounds.next():
            begin = time.perf_counter()
            self.sent |= dict.fromkeys(tasks, time.time())
            self._ask(connection, tasks)
            answer = connection.getresponse()
            text = answer.read()
            self.answers_ms.append((time.perf_counter() - begin) * 1000)
            if answer.status != 200 or b'"refusal":{' in text:
                self.failed += len(tasks)
                sys.stderr.write(f"submit {tasks}: {answer.status} {text[:200]!r}\n")
        connection.close()

    def _ask(self, connection: http.client.HTTPConnection, tasks: list[int]) -> None:
        # task n belongs to user n: so they were made
        token = self._tokens[tasks[0] % len(self._tokens)]
        headers = {"Authorization": f"Bearer {token}"}
        if len(tasks) == 1:
            connection.request("POST", f"/api/v1/tasks/{tasks[0]}/submit/", headers=headers)
            return
        headers["Content-Type"] = "application/json"
        body = json.dumps({"tasks": tasks})
        connection.request("POST", "/api/v1/tasks/submit/", body, headers)


def main() -> None:
    users = Users(json.loads(sys.stdin.readline()))
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
