"""A paired comparison of two to four models: its arguments, and the task that it makes."""

import argparse
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from webprofile.client.batchfile import BatchError, Mistakes
from webprofile.client.batchfile.arguments import pairs_of, value_of
from webprofile.client.batchfile.matrix import ALL_VERSIONS, Block, CellFile, Value, blocks_of
from webprofile.terminal.exit_codes import FAILED, SUCCEEDED, UNDECIDED

#: names of the arms; the first is the baseline
LETTERS = "ABCD"

GateResult = Literal["failed", "not enough evidence", "passed"]
#: results of arms and tasks, the most severe first
RESULTS: tuple[GateResult, ...] = ("failed", "not enough evidence", "passed")
#: exit codes by the result
CODES: dict[GateResult, int] = {
    "failed": FAILED,
    "not enough evidence": UNDECIDED,
    "passed": SUCCEEDED,
}
#: text below the examples of `--help`
PAIRED_HELP = """The first model, A, is the baseline; the others are B, C and D. Each pair starts
a new process for each arm, and the processes take turns. Pairs are added until
the verdict is clear or the budget is used up. Before that, the outputs for the
same data are compared.

exit codes:
  0    no arm is slower than A
  1    an arm is slower than A, or its outputs differ from those of A; the task failed
  2    a mistake in the arguments
  3    the site cannot be reached, or refuses access
  4    not ended yet: --timeout passed
  5    not enough evidence for a verdict, and no arm is slower
  130  Ctrl-C; a submitted task continues"""


@dataclass(frozen=True)
class PairedModels:
    """The models and the settings of a paired comparison.

    models: one for each arm; the first is the baseline
    versions: empty for the newest of the device, one for all arms, or one for each
    options, data, inputs: those of all arms, as in a batch file
    arm_options, arm_data: those of single arms by letter; `arm_options` is merged into `options`,
        `arm_data` replaces `data` and `inputs`
    margin: ratios of times within 1 ± `margin` are equal; None for the site's default, 0.01
    budget_s: maximum measuring time; a verdict ends the measurement earlier; None: 60
    least_cosine: outputs with a smaller cosine similarity differ; None: 0.999
    """

    models: Sequence[str | Path]
    worker: str
    versions: Sequence[str] = ()
    options: Mapping[str, Value] = field(default_factory=dict)
    arm_options: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    data: Any = field(default_factory=dict)
    arm_data: Mapping[str, Mapping[str, str | Path]] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    margin: float | None = None
    budget_s: int | None = None
    least_cosine: float | None = None

    def block(self) -> Block:
        """Return the matrix of this one task. Raises BatchError with all mistakes."""
        self._check()
        models = [str(model) for model in self.models]
        document = {
            "models": models,
            "workers": [self.worker],
            "versions": [*self.versions[:1]],
            "options": self._options(0),
            "data": self.data,
            "inputs": self.inputs,
            "title": self.title,
        }
        (block,) = blocks_of(document, folder=Path())
        baseline = Path(models[0])
        files = block.files
        for number, model in enumerate(models[1:], start=1):
            if Path(model) != baseline:
                files += (CellFile("model", Path(model), arm=number),)
            files += self._data(number)
        limits = {name: getattr(self, name) for name in ("margin", "budget_s", "least_cosine")}
        pairing = {name: value for name, value in limits.items() if value is not None}
        pairing["arms"] = [self._arm(number) for number in range(1, len(models))]
        return replace(block, models=(baseline,), files=files, pairing=pairing)

    def _check(self) -> None:
        mistakes = Mistakes()
        count = len(self.models)
        if not 2 <= count <= len(LETTERS):
            mistakes.add("models", f"a paired comparison needs 2 to {len(LETTERS)} models")
        if len(self.versions) not in (0, 1, count) or ALL_VERSIONS in self.versions:
            mistakes.add("versions", "give one for all arms, or one for each")
        arms = [*LETTERS[:count]]
        mistakes_of = {
            "arm_options": (set(self.arm_options) - {*arms}, f"the arms are {', '.join(arms)}"),
            "arm_data": (
                set(self.arm_data) - {*arms[1:]},
                f"the arms with data of their own are {', '.join(arms[1:])}; `data` is that of A",
            ),
        }
        for place, (letters, hint) in mistakes_of.items():
            for letter in sorted(letters):
                mistakes.add(place, f"arm “{letter}” is not allowed; {hint}")
        mistakes.raise_any()

    def _options(self, number: int) -> dict[str, Value]:
        return {**self.options, **self.arm_options.get(LETTERS[number], {})}

    def _data(self, number: int) -> tuple[CellFile, ...]:
        data = self.arm_data.get(LETTERS[number], {})
        return tuple(CellFile("data", Path(path), name, arm=number) for name, path in data.items())

    def _arm(self, number: int) -> dict[str, Any]:
        """Return the API fields in which an arm differs from the baseline."""
        arm: dict[str, Any] = {}
        if len(self.versions) > 1:
            arm["runtime_version"] = self.versions[number]
        if self._options(number) != self._options(0):
            arm["options"] = self._options(number)
        return arm


def result_of_arm(verdict: str, *, differs: bool) -> GateResult:
    """Return whether an arm passes: it fails if it is slower or its outputs differ."""
    if verdict == "slower" or differs:
        return "failed"
    return "not enough evidence" if verdict == "not_enough" else "passed"


def worst_of(results: Iterable[GateResult]) -> GateResult:
    """Return the most severe result; without any, there is not enough evidence."""
    return min(results, key=RESULTS.index, default="not enough evidence")


def add_paired_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a paired comparison, without the models."""
    add = parser.add_argument
    add("-w", "--worker", metavar="NAME", help="device")
    add(
        "-V",
        "--megengine",
        action="append",
        default=[],
        metavar="VERSION",
        help="version of MegEngine, once for all arms or once for each; default: the newest",
    )
    add(
        "-o",
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="option of load_and_run for all arms",
    )
    add(
        "--arm-option",
        action="append",
        default=[],
        metavar="ARM:NAME[=VALUE]",
        help="option of one arm, such as B:fast_run",
    )
    add(
        "-d",
        "--data",
        action="append",
        metavar="VARIABLE=FILE",
        help="input file of a variable for all arms",
    )
    add(
        "--arm-data",
        action="append",
        default=[],
        metavar="ARM:VARIABLE=FILE",
        help="input file of one arm; replaces --data and --input",
    )
    add(
        "-i",
        "--input",
        action="append",
        metavar="VARIABLE=NUMBERS",
        help="values of an input, such as x=1,2,3",
    )
    add("--title", metavar="TEXT", help="title of the task")
    add(
        "--margin",
        type=_percentage,
        metavar="PERCENT",
        help="differences up to this count as equal; default: 1",
    )
    add(
        "--budget",
        type=_seconds,
        metavar="S",
        help="maximum measuring time in seconds; default: 60",
    )
    add(
        "--cosine",
        type=_finite,
        metavar="SIMILARITY",
        help="outputs with a smaller cosine similarity differ; default: 0.999",
    )


def keys_from_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of `PairedModels` without the models. Raises BatchError."""
    if not args.worker:
        raise BatchError([("--worker", "missing")])
    return {
        "worker": args.worker,
        "versions": args.megengine,
        "options": pairs_of("--option", args.option, value_of) or {},
        "arm_options": _by_arm("--arm-option", args.arm_option, value_of, default=True),
        "data": pairs_of("--data", args.data, str) or {},
        "arm_data": _by_arm("--arm-data", args.arm_data, str),
        "inputs": pairs_of("--input", args.input, str) or {},
        "title": args.title or "",
        "margin": args.margin,
        "budget_s": args.budget,
        "least_cosine": args.cosine,
    }


def _by_arm(
    name: str, texts: Sequence[str], read: Any, *, default: Any = None
) -> dict[str, dict[str, Any]]:
    """Parse `B:NAME=VALUE`; the value may be missing if there is a default."""
    values: dict[str, dict[str, Any]] = {}
    for text in texts:
        letter, colon, pair = text.partition(":")
        key, equals, value = pair.partition("=")
        if not colon or not key or (not equals and default is None):
            form = "ARM:NAME=VALUE, such as B:fast_run=true"
            raise BatchError([(name, f"“{text}” is not {form}")])
        of_arm = values.setdefault(letter.upper(), {})
        if key in of_arm:
            raise BatchError([(name, f"“{letter}:{key}” is given twice")])
        of_arm[key] = read(value) if equals else default
    return values


def _percentage(text: str) -> float:
    """Parse a percentage, `1` or `1%`, as a ratio. Raises ArgumentTypeError."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?) ?%?", text, re.ASCII):
        return float(match[1]) / 100
    raise argparse.ArgumentTypeError(f"“{text}” is not a percentage")


def _finite(text: str) -> float:
    """Parse a number that JSON can represent. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"“{text}” is not a number")
    return value


def _seconds(text: str) -> int:
    """Parse whole seconds, `60` or `60s`. Raises ArgumentTypeError."""
    if match := re.fullmatch(r"(\d{1,9}) ?s?", text, re.ASCII):
        return int(match[1])
    raise argparse.ArgumentTypeError(f"“{text}” is not a number of whole seconds")
