"""Start one process for each arm of a comparison and let them take turns.

Usage: python <this folder> SETUP RESULT [PATH...], the first two are paths of JSON files. The other
paths are not read: the sandbox shows programs only if their paths are in the command.

SETUP holds
    arms: for each arm {command: list of strings, folder: its working folder, count: iterations of
        a turn}; a command runs `load_and_run --take-turns`
    turns: numbers of arms, in order
    look: true to write the outputs of the only arm to files, and to measure its iteration time

RESULT, written by this program, holds
    turns: for each turn {arm, ms: times of the iterations, count, waited_ms, elapsed_ms, switches,
        stolen_ms}, as `agent/load_and_run/turns.py` answers
    usual_ms: for `look`, the median time of an iteration

All arms start at once, but only one of them computes in a turn; the others wait for a line on
stdin. If an arm ends before its last turn, its output is printed to stderr, RESULT holds {failed:
its number}, and this program exits with the exit code that a shell would report.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import IO, Any, cast

#: duration from which a series of iterations tells the time of one, and the longest series
_ENOUGH_MS = 30.0
_MOST_ITERATIONS = 10_000
#: limit on the printed stderr of an arm
_MOST_PRINTED_BYTES = 256 << 10


class ArmFailed(Exception):
    """An arm ended, or answered something else than a turn."""

    def __init__(self, arm: "Arm") -> None:
        self.arm = arm
        super().__init__(f"arm {arm.number} failed")


class Arm:
    """The process of one arm."""

    def __init__(self, number: int, setup: dict[str, Any], log: IO[bytes]) -> None:
        self.number, self._count, self._log = number, setup["count"], log
        self._process = subprocess.Popen(
            setup["command"],
            cwd=setup["folder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        self._asking = cast(IO[bytes], self._process.stdin)
        self._answering = cast(IO[bytes], self._process.stdout)

    def wait_until_ready(self) -> None:
        """Wait until the model is loaded and has warmed up. Raises ArmFailed."""
        self._answer("ready")

    def turn(self) -> dict[str, Any]:
        """Let the process run its iterations; return its answer. Raises ArmFailed."""
        return {**self._ask(self._count, "ms"), "arm": self.number}

    def look(self) -> float:
        """Make the process write its outputs; return the median time of an iteration in ms."""
        self._ask(1, "ms")
        self._ask("outputs", "outputs")
        count = 1
        while True:
            answer = self._ask(count, "ms")
            if answer["elapsed_ms"] >= _ENOUGH_MS or count >= _MOST_ITERATIONS:
                return float(statistics.median(answer["ms"]))
            needed = int(1.2 * count * _ENOUGH_MS / max(answer["elapsed_ms"], 0.001)) + 1
            count = min(max(needed, 2 * count), 100 * count, _MOST_ITERATIONS)

    def end(self) -> int:
        """End the process; return its exit code as a shell reports it."""
        with contextlib.suppress(OSError):
            self._asking.close()
        self._answering.close()
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def print_log(self) -> None:
        """Print the end of what the process has written to stderr."""
        self._log.seek(max(self._log.seek(0, os.SEEK_END) - _MOST_PRINTED_BYTES, 0))
        sys.stderr.write(self._log.read().decode("utf-8", "replace"))
        sys.stderr.flush()

    def _ask(self, line: object, expected: str) -> dict[str, Any]:
        try:
            self._asking.write(f"{line}\n".encode())
            self._asking.flush()
        except OSError as error:  # it has ended
            raise ArmFailed(self) from error
        return self._answer(expected)

    def _answer(self, expected: str) -> dict[str, Any]:
        """Return the next answer; lines that are no JSON are messages of the library."""
        while line := self._answering.readline():
            with contextlib.suppress(ValueError):
                answer = json.loads(line)
                if isinstance(answer, dict) and expected in answer:
                    return answer
        raise ArmFailed(self)


def measure(setup: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Run all turns of a pair; return (content of RESULT, exit code)."""
    result: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        # files: a full pipe would block an arm, because it is not read while another arm computes
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in setup["arms"]]
        arms = [Arm(number, arm, logs[number]) for number, arm in enumerate(setup["arms"])]
        try:
            for arm in arms:
                arm.wait_until_ready()
            if setup.get("look"):
                result["usual_ms"] = arms[0].look()
            result["turns"] = [arms[number].turn() for number in setup["turns"]]
        except ArmFailed as failure:
            codes = {arm.number: arm.end() for arm in arms}
            failure.arm.print_log()
            return {"failed": failure.arm.number}, codes[failure.arm.number] or 1
        for arm in arms:
            if code := arm.end():
                arm.print_log()
                return {"failed": arm.number}, code
        if setup.get("look"):
            arms[0].print_log()
    return result, 0


def main(setup: str, result: str, *_: str) -> int:
    with open(setup, "rb") as file:
        content, code = measure(json.load(file))
    with open(f"{result}.new", "w") as file_:
        json.dump(content, file_)
    os.rename(f"{result}.new", result)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
