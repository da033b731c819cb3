"""Parse the log of load_and_run 1.6 to 1.13. Standard library only.

Lines are recognized by their content, never by their prefix: versions up to 1.10 print them to
stdout without a prefix, later ones to stderr after a timestamp and a source location, in colours on
a terminal, and the library's own messages are interleaved. The text is untrusted: no pattern
backtracks, and the lengths of lines and lists are limited by the constants below.

Source of the formats: MegEngine, `sdk/load-and-run/src/mgblar.cpp` (to 1.6), then
`lite/load_and_run/src/strategys/strategy_{normal,fitting}.cpp` and `options/plugin_options.cpp`.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST_LINE = 4096
MOST_TIMES = 200_000
MOST_TENSORS = 1000

_N = r"(-?(?:\d{1,15}(?:\.\d{1,9})?|nan|inf))(?![\d.])"
#: terminal escape sequences: colours, cursor movement, window titles
ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\))")
_LOAD = re.compile(rf"\bload model: {_N} ?ms")
_PREPARE = re.compile(rf"=== prepare: {_N} ?ms")
_WARM_UP = re.compile(rf"\bwarm ?up \d{{1,9}}(?: time|:)? {{1,2}}{_N} ?ms")
#: groups: total time, host time, device time; "e2e"/"host" since 1.10, "exec" before
_ITER = re.compile(
    rf"\biter \d{{1,9}}/\d{{1,9}}: (?:e2e=)?{_N} ?ms"
    rf" \((?:host|exec)={_N}(?: ?ms)?(?:,device={_N})?\)"
)
#: up to 1.6, for a model without inputs
_FINISHED_RUN = re.compile(rf"=== finished run #\d{{1,9}}: time={_N} ?ms")
#: printed by agent/load_and_run only; groups: waiting time of all threads, its duration, switches,
#: steal time, its duration, waiting time of all iterations
_WAITED = re.compile(
    rf"=== threads waited {_N} ms for a core in {_N} ms; (\d{{1,9}}) involuntary switches"
    rf"(?:; {_N} ms of {_N} ms given to other machines)?"
    rf"(?:; in all iterations threads waited {_N} ms)?"
)
_INFO_ROW = re.compile(
    r"^\| *(INPUT|OUTPUT) *\|([^{}]{0,500})\| *\{([\d, ]{0,200})\} *\|([^|]{0,100})\|\s*$"
)
_TRIAL_TIME = re.compile(rf"^ ?(?:avg_time=|average time = ){_N}")


@dataclass(frozen=True)
class TensorInfo:
    """A row of the table of `--model_info`; `direction` is INPUT or OUTPUT.

    `dtype` is empty if load_and_run does not print it (float16, int64).
    """

    direction: str
    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class CoreWaits:
    """Time that the threads of a process were ready to run and waited for a core, summed, ms.

    `elapsed_ms` is the time during which that was counted. `switches` is the number of involuntary
    context switches of all threads, `stolen_ms` the time that the host gave the cores of the
    process to other machines, `whole_waited_ms` the waiting of all iterations, each within
    `whole_ms`; None if unknown.
    """

    waited_ms: float
    elapsed_ms: float
    switches: int | None = None
    stolen_ms: float | None = None
    whole_ms: float | None = None
    whole_waited_ms: float | None = None


@dataclass(frozen=True)
class RunLog:
    """The content of a log. Times are in milliseconds and in log order; None if not in the log.

    `e2e_ms` are the iteration times; `host_ms` are the times until the host thread was free, None
    if the version does not print them. With `--thread` the iterations of all threads are
    interleaved. `trials` is the number of sets of flags that `--fitting` measured. `waits` is of
    the iterations that determine the figure (`load_and_run/waits.py`; with `--thread`, of the copy
    that took longest), None if the log does not contain it.
    """

    load_ms: float | None = None
    prepare_ms: float | None = None
    warmup_ms: tuple[float, ...] = ()
    e2e_ms: tuple[float, ...] = ()
    host_ms: tuple[float | None, ...] = ()
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    trials: int = 0
    waits: CoreWaits | None = None


def parse_log(text: str) -> RunLog:
    """Parse the text of stdout, stderr or both concatenated. Never raises."""
    reader = _Reader()
    for line in _lines(text):
        reader.read(line)
    return reader.result()


def _lines(text: str) -> Iterator[str]:
    """Yield the lines without escape sequences, cut at LONGEST_LINE; the text is not copied."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start : min(end, start + LONGEST_LINE)]
        yield ESCAPE.sub("", line).rstrip("\r")
        start = end + 1


@dataclass
class _Reader:
    load_ms: float | None = None
    prepare_ms: float | None = None
    warmups: list[float] = field(default_factory=list)
    times: list[tuple[float, float | None]] = field(default_factory=list)
    single_runs: list[float] = field(default_factory=list)
    tensors: dict[tuple[str, str], TensorInfo] = field(default_factory=dict)
    trials: int = 0
    is_in_trial: bool = False
    waits: CoreWaits | None = None

    def read(self, line: str) -> None:
        if not line:
            return
        if self._read_fitting(line) or self._read_row(line):
            return
        if "ms" not in line:
            return
        for match in _ITER.finditer(line):
            self._add_time(match)
        for match in _WARM_UP.finditer(line):
            _append(self.warmups, _number(match[1]))
        for match in _FINISHED_RUN.finditer(line):
            _append(self.single_runs, _number(match[1]))
        if waited := _WAITED.search(line):
            self._read_waits(waited)
        self._read_once(line)

    def _read_waits(self, match: re.Match[str]) -> None:
        waited_ms, elapsed_ms = _number(match[1]), _number(match[2])
        if waited_ms is None or elapsed_ms is None or waited_ms < 0 or elapsed_ms <= 0:
            return
        if self.waits is None or elapsed_ms > self.waits.elapsed_ms:
            whole = (_number(match[group]) for group in (4, 5, 6))
            self.waits = CoreWaits(waited_ms, elapsed_ms, int(match[3]), *whole)

    def _read_once(self, line: str) -> None:
        """Read the lines that occur once in a log; with several threads, take the first one."""
        if self.load_ms is None and (match := _LOAD.search(line)):
            self.load_ms = _number(match[1])
        elif self.prepare_ms is None and (match := _PREPARE.search(line)):
            self.prepare_ms = _number(match[1])

    def _add_time(self, match: re.Match[str]) -> None:
        e2e = _number(match[1])
        if e2e is not None and len(self.times) < MOST_TIMES:
            self.times.append((e2e, _number(match[2])))

    def _read_row(self, line: str) -> bool:
        row = _INFO_ROW.match(line)
        if row is None:
            return False
        direction, name = row[1], row[2].strip()
        try:
            shape = tuple(int(number) for number in row[3].split(",") if number.strip())
        except ValueError:
            return True
        if len(self.tensors) < MOST_TENSORS:
            # printed before and after the run; the first one has the shapes that the model was
            # dumped with
            info = TensorInfo(direction, name, shape, row[4].strip())
            self.tensors.setdefault((direction, name), info)
        return True

    def _read_fitting(self, line: str) -> bool:
        if line.rstrip().endswith(("profile option:", "the best options:")):
            self.is_in_trial = "profile" in line
            return True
        match = _TRIAL_TIME.match(line) if self.is_in_trial else None
        if match is None:
            return False
        self.trials += _number(match[1]) is not None
        self.is_in_trial = False
        return True

    def result(self) -> RunLog:
        times = self.times or [(time_ms, None) for time_ms in self.single_runs]
        rows = self.tensors.values()
        return RunLog(
            load_ms=self.load_ms,
            prepare_ms=self.prepare_ms,
            warmup_ms=tuple(self.warmups),
            e2e_ms=tuple(e2e for e2e, _ in times),
            host_ms=tuple(host for _, host in times),
            inputs=tuple(row for row in rows if row.direction == "INPUT"),
            outputs=tuple(row for row in rows if row.direction == "OUTPUT"),
            trials=self.trials,
            waits=self.waits,
        )


def _append(numbers: list[float], number: float | None) -> None:
    if number is not None and len(numbers) < MOST_TIMES:
        numbers.append(number)


def _number(text: str | None) -> float | None:
    """Parse a number; return None for a missing one, for nan and for inf."""
    number = float(text) if text else math.nan
    return number if math.isfinite(number) else None
