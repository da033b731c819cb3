"""Start one process for each arm of a comparison and let them take turns.

Usage: python <this folder> SETUP RESULT [PATH...], the first two are paths of JSON files. The other
paths are not read: the sandbox shows programs only if their paths are in the command.

SETUP contains
    arms: for each arm {command: list of strings, folder: its working folder, count: iterations of
        a turn, profiled_count: those of a profiled one, operators: ids of the operators whose times
        are wanted}; a command runs `load_and_run --take-turns`
    turns: numbers of arms, in order
    profiled: the same for turns with the profiler, which follow
    look: true to write the outputs of the only arm and its profile to files, and to measure its
        iteration time

RESULT, written by this program, contains
    turns: for each turn {arm, ms: times of the iterations, count, waited_ms, elapsed_ms, switches,
        stolen_ms}, as `agent/load_and_run/turns.py` answers
    profiled: for each profiled turn the same, with `us`: for each iteration the device times of
        `operators` in µs, null for one that did not run
    profiling_s: duration of the profiled turns
    for `look`: usual_ms, the median time of an iteration; operators, the ids of the slowest, the
        slowest first; profiling_s, the duration of a profiled turn. Without a usable profile,
        operators is empty

All arms start at once, but only one of them computes in a turn; the others wait for a line on
stdin. If an arm ends before its last turn, its output is printed to stderr, RESULT contains
{failed: its number}, and this program exits with the exit code that a shell would report.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import IO, Any, cast

#: shortest duration of a series that determines the time of an iteration, and the longest series
_ENOUGH_MS = 30.0
_MOST_ITERATIONS = 10_000
#: limit on the printed stderr of an arm
_MOST_PRINTED_BYTES = 256 << 10
#: most operators whose times are kept; those of a model with more take little time each
_MOST_OPERATORS = 2000


class ArmFailed(Exception):
    """An arm ended, or its answer was not a turn."""

    def __init__(self, arm: "Arm") -> None:
        self.arm = arm
        super().__init__(f"arm {arm.number} failed")


class Arm:
    """The process of one arm."""

    def __init__(self, number: int, setup: dict[str, Any], log: IO[bytes]) -> None:
        self.number, self._setup, self._log = number, setup, log
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
        return {**self._ask(self._setup["count"], "ms"), "arm": self.number}

    def profiled_turn(self) -> dict[str, Any]:
        """Let the process run iterations with the profiler; return its answer. Raises ArmFailed."""
        answer = self._ask_for_profile(self._setup["profiled_count"])
        places = {key: place for place, key in enumerate(answer.pop("ids"))}
        wanted = [places.get(key) for key in self._setup["operators"]]
        us = [[None if place is None else row[place] for place in wanted] for row in answer["us"]]
        return {**answer, "us": us, "arm": self.number}

    def look_at_operators(self) -> dict[str, Any]:
        """Profile the model; return `operators` and `profiling_s`, as in RESULT."""
        try:
            self._ask_for_profile(1)  # attaches the profiler
            begun = time.monotonic()
            answer = self._ask_for_profile(self._setup["profiled_count"])
        except ArmFailed:
            return {"operators": []}
        profiling_s = time.monotonic() - begun
        times = dict(zip(answer["ids"], answer["us"][-1], strict=True))
        slowest = sorted(times, key=lambda key: -(times[key] or 0.0))
        return {"operators": slowest[:_MOST_OPERATORS], "profiling_s": profiling_s}

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
        """Print the end of the process's stderr."""
        self._log.seek(max(self._log.seek(0, os.SEEK_END) - _MOST_PRINTED_BYTES, 0))
        sys.stderr.write(self._log.read().decode("utf-8", "replace"))
        sys.stderr.flush()

    def _ask_for_profile(self, count: int) -> dict[str, Any]:
        answer = self._ask(f"profile {count}", "us")
        if not answer["us"]:
            self._log.write(f"cannot profile: {answer.get('problem')}\n".encode())
            raise ArmFailed(self)
        return answer

    def _ask(self, line: object, expected: str) -> dict[str, Any]:
        try:
            self._asking.write(f"{line}\n".encode())
            self._asking.flush()
        except OSError as error:  # it has ended
            raise ArmFailed(self) from error
        return self._answer(expected)

    def _answer(self, expected: str) -> dict[str, Any]:
        """Return the next answer; lines that are not JSON are messages of the library."""
        while line := self._answering.readline():
            with contextlib.suppress(ValueError):
                answer = json.loads(line)
                if isinstance(answer, dict) and expected in answer:
                    return answer
        raise ArmFailed(self)


def measure(setup: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Run all turns of a pair; return (content of RESULT, exit code)."""
    result: dict[str, Any] = {"turns": [], "profiled": [], "profiling_s": 0.0}
    with contextlib.ExitStack() as stack:
        # files: a full pipe would block an arm, because it is not read while another arm computes
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in setup["arms"]]
        arms = [Arm(number, arm, logs[number]) for number, arm in enumerate(setup["arms"])]
        try:
            for arm in arms:
                arm.wait_until_ready()
            if setup.get("look"):
                result["usual_ms"] = arms[0].look()
                result.update(arms[0].look_at_operators())
            result["turns"] = [arms[number].turn() for number in setup["turns"]]
            begun = time.monotonic()
            if setup["profiled"]:
                result["profiled"] = [arms[number].profiled_turn() for number in setup["profiled"]]
                result["profiling_s"] = time.monotonic() - begun
        except ArmFailed as failure:
            codes = {arm.number: arm.end() for arm in arms}
            failure.arm.print_log()
            return {"failed": failure.arm.number}, codes[failure.arm.number] or 1
        ended = {arm: arm.end() for arm in arms}
        if setup.get("look"):
            arms[0].print_log()
            # one that fails with the profiler is compared without
            if result["operators"] and (code := ended[arms[0]]):
                return {"failed": 0}, code
            return result, 0
        for arm, code in ended.items():
            if code:
                arm.print_log()
                return {"failed": arm.number}, code
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
