"""Users who submit tasks: `python -m bench.fleet.clients`, told by JSON on stdin.

    {"ports": [8000], "tokens": [...], "threads": 4}                first
    {"tasks": [1, 2, ...], "per_s": 20}   -> {"failed": n, "seconds": s, "answer_ms": median}

`per_s` null: as fast as `threads` connections can.
"""

import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any


class Rounds:
    """Hands out tasks, each at its time."""

    def __init__(self, tasks: list[int], per_s: float | None) -> None:
        self._tasks: Iterator[tuple[int, int]] = iter(enumerate(tasks))
        self._per_s, self._begin = per_s, time.monotonic()
        self._lock = threading.Lock()

    def next(self) -> int | None:
        with self._lock:
            place, task = next(self._tasks, (0, None))
        if task is not None and self._per_s:
            time.sleep(max(0.0, self._begin + place / self._per_s - time.monotonic()))
        return task


class Users:
    """The connections; each belongs to one user."""

    def __init__(self, first: dict[str, Any]) -> None:
        self._ports, self._tokens, self._threads = first["ports"], first["tokens"], first["threads"]
        self.answers_ms: list[float] = []
        self.failed = 0

    def submit(self, tasks: list[int], per_s: float | None) -> None:
        rounds = Rounds(tasks, per_s)
        ports = [self._ports[number % len(self._ports)] for number in range(self._threads)]
        threads = [threading.Thread(target=self._one, args=(rounds, port)) for port in ports]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _one(self, rounds: Rounds, port: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        while (task := rounds.next()) is not None:
            # task n belongs to user n: so they were made
            token = self._tokens[task % len(self._tokens)]
            begin = time.perf_counter()
            connection.request(
                "POST",
                f"/api/v1/tasks/{task}/submit/",
                headers={"Authorization": f"Bearer {token}"},
            )
            answer = connection.getresponse()
            text = answer.read()
            self.answers_ms.append((time.perf_counter() - begin) * 1000)
            if answer.status != 200:
                self.failed += 1
                sys.stderr.write(f"submit {task}: {answer.status} {text[:200]!r}\n")
        connection.close()


def main() -> None:
    users = Users(json.loads(sys.stdin.readline()))
    for line in iter(sys.stdin.readline, ""):
        order = json.loads(line)
        users.answers_ms, users.failed = [], 0
        begin = time.monotonic()
        users.submit(order["tasks"], order["per_s"])
        found = {
            "failed": users.failed,
            "seconds": time.monotonic() - begin,
            "answer_ms": statistics.median(users.answers_ms),
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
