"""Paired comparison: the settings of an order, and the schema of `paired.json`.

Two to four *arms*, models or settings of one model, are compared on one device in one attempt. The
unit of evidence is a *pair*: one freshly started process for each arm, which take turns. The first
arm is the baseline of all others.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agent.protocol.measurement import Disturbance
from agent.protocol.notes import Note
from agent.protocol.numbers import (
    LARGEST_INTEGER,
    LimitedCount,
    LimitedMilliseconds,
    LimitedNumber,
)
from agent.protocol.options import OPTIONS

#: file name of the result of a paired comparison
PAIRED_NAME = "paired.json"
#: file name of the times of the operators in each pair
OPERATORS_NAME = "paired_operators.json"
#: names of the arms in notes, logs and pages
ARM_NAMES = "ABCD"
MOST_ARMS = len(ARM_NAMES)
#: most pairs of one comparison; the budget usually ends it earlier
MOST_PAIRS = 1000
#: most pairs with profiled turns, and most operators of an arm whose times are kept
MOST_PROFILED_PAIRS, MOST_OPERATORS = 200, 2000
#: most outputs of a model that are reported
MOST_OUTPUTS = 100
#: bounds of the budget in seconds
BUDGET_S = (5, 1800)
#: options that add work to a process outside its iterations, or that choose their number
_UNPAIRED = frozenset(
    {
        *("iter", "thread", "fitting", "model_info", "verbose", "wait_gdb"),
        *("io_dump_stdout", "io_dump_stderr", "range", "check_dispatch", "check_var_value"),
    }
)


_ARTIFACTS = frozenset(name for name, option in OPTIONS.items() if option.kind == "artifact")


def unpaired_options(options: Iterable[str]) -> list[str]:
    """Return those of the options that a paired comparison does not accept, sorted."""
    return sorted(
        name
        for name in options
        if name in _UNPAIRED or (name in _ARTIFACTS and name != "fast_run_algo_policy")
    )


def check_paired_options(options: Iterable[str]) -> None:
    """Raise ValueError if a paired comparison does not accept one of the options."""
    if names := unpaired_options(options):
        raise ValueError(f"not in a paired comparison: {', '.join(names)}")


#: below the resolution of every clock
_LEAST_MS = 1e-6


class _PairedModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Pairing(_PairedModel):
    """The settings of a paired comparison.

    `margin`: arms whose ratio is within 1 ± `margin` count as equally fast. `budget_s`: the maximum
    measuring time, from the first pair on. `least_cosine`: outputs with a smaller cosine similarity
    to those of the baseline differ.
    """

    margin: float = Field(default=0.01, ge=0.001, le=0.5, allow_inf_nan=False)
    budget_s: int = Field(default=60, ge=BUDGET_S[0], le=BUDGET_S[1])
    least_cosine: float = Field(default=0.999, ge=-1, le=1, allow_inf_nan=False)


class OutputDifference(_PairedModel):
    """How one output of an arm differs from that of the baseline, for the same data.

    `problem`: why the two cannot be compared; the numbers are None then. `cosine` is the cosine
    similarity, `sqnr_db` the ratio of signal to quantization noise in dB, None if the outputs are
    equal. `max_rel` is relative to the largest absolute value of the baseline's output.
    """

    name: str = Field(default="", max_length=300)
    max_abs: LimitedNumber | None = None
    max_rel: LimitedNumber | None = None
    cosine: LimitedNumber | None = None
    sqnr_db: LimitedNumber | None = None
    problem: Note | None = None

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if self.problem is None and (self.max_abs is None or self.cosine is None):
            raise ValueError("neither numbers nor a problem")
        return self


class ArmRecord(_PairedModel):
    """One arm. Its turns have `iterations` iterations, whose first is dropped if there are several.

    `usual_ms`: median iteration time of the calibration. `outputs`: differences to the baseline's
    outputs, empty for the baseline itself.
    """

    runtime: str = Field(max_length=40)
    iterations: LimitedCount
    usual_ms: LimitedMilliseconds
    outputs: tuple[OutputDifference, ...] = Field(default=(), max_length=MOST_OUTPUTS)


class Turn(_PairedModel):
    """One turn of an arm: `ms` is the median time of its iterations."""

    arm: int = Field(ge=0, lt=MOST_ARMS)
    ms: LimitedMilliseconds


class PairRecord(_PairedModel):
    """One pair: its turns in order, and the waits and disturbances of its processes.

    `waited_ms` and `elapsed_ms` are sums over all turns, as in `PassRecord`. A pair with
    `disturbances` does not count.
    """

    started_at: LimitedNumber = 0.0
    run_s: LimitedNumber = 0.0
    turns: tuple[Turn, ...] = Field(max_length=64)
    waited_ms: LimitedMilliseconds | None = None
    elapsed_ms: LimitedMilliseconds | None = None
    stolen_ms: LimitedMilliseconds | None = None
    disturbances: tuple[Disturbance, ...] = Field(default=(), max_length=10)

    def times_ms(self, arm: int) -> list[float]:
        """Return the times of the turns of an arm, above 0, so that they have a logarithm."""
        return [max(turn.ms, _LEAST_MS) for turn in self.turns if turn.arm == arm]


#: device time of an operator in µs, None if it did not run; negative if a clock was set back
Microseconds = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)] | None


class ArmOperators(_PairedModel):
    """The times of the operators of one arm.

    `ids` are those of its profile, the slowest first. `us` has for each pair the median time of
    each of them.
    """

    ids: tuple[Annotated[str, Field(max_length=40)], ...] = Field(max_length=MOST_OPERATORS)
    us: tuple[tuple[Microseconds, ...], ...] = Field(max_length=MOST_PROFILED_PAIRS)


class OperatorTimes(_PairedModel):
    """The root object of `paired_operators.json`: the times from the profiled turns.

    `pairs` are the pairs that count, as indices of those in `paired.json`.
    """

    format: Literal[1] = 1
    pairs: tuple[Annotated[int, Field(ge=0, lt=MOST_PAIRS)], ...] = Field(
        max_length=MOST_PROFILED_PAIRS
    )
    arms: tuple[ArmOperators, ...] = Field(max_length=MOST_ARMS)

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        for arm in self.arms:
            if len(arm.us) != len(self.pairs) or any(len(row) != len(arm.ids) for row in arm.us):
                raise ValueError("not one time for each pair and operator")
        return self


class ArmVerdict(_PairedModel):
    """The verdict on one arm against the baseline.

    `effect` is the ratio of times minus 1 (0.012: 1.2 % slower), `low` and `high` its 95 %
    interval; None with too few pairs. `smallest` is the smallest effect that the pairs could have
    shown, `more_s` the estimated further time until a verdict (None: unknown). `pairs` counts the
    pairs that were used.
    """

    arm: int = Field(ge=1, lt=MOST_ARMS)
    verdict: Literal["faster", "slower", "same", "not_enough"]
    effect: LimitedNumber | None = None
    low: LimitedNumber | None = None
    high: LimitedNumber | None = None
    smallest: LimitedNumber | None = None
    more_s: LimitedNumber | None = None
    pairs: int = Field(ge=0, le=MOST_PAIRS)


class PairedMeasurement(_PairedModel):
    """The root object of `paired.json`.

    `seed` seeds the order of the turns. `measuring_s` is the time from the start of the first pair
    to the verdict.
    """

    format: Literal[1] = 1
    pairing: Pairing
    seed: int = Field(ge=0, le=LARGEST_INTEGER)
    arms: tuple[ArmRecord, ...] = Field(default=(), max_length=MOST_ARMS)
    pairs: tuple[PairRecord, ...] = Field(default=(), max_length=MOST_PAIRS)
    verdicts: tuple[ArmVerdict, ...] = Field(default=(), max_length=MOST_ARMS)
    measuring_s: LimitedNumber = 0.0

    @model_validator(mode="after")
    def _check_arms(self) -> Self:
        numbers = [verdict.arm for verdict in self.verdicts]
        if len(set(numbers)) < len(numbers) or any(arm >= len(self.arms) for arm in numbers):
            raise ValueError("verdicts on other arms")
        return self
