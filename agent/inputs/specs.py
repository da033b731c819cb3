"""What is asked for, what the model wants, and what comes of it."""

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.protocol.run_log import TensorInfo

Kind = typing.Literal["binary", "wheel"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class File:
    """An uploaded file: .npy, .json, .ppm or .pgm."""

    path: Path


@dataclass(frozen=True)
class Literal:
    """Numbers as on load_and_run's command line: `1,2.5` or nested brackets."""

    text: str


@dataclass(frozen=True)
class Random:
    """Numbers drawn from `seed` and the input's name; the model's own shape and type if None."""

    shape: Shape | None = None
    dtype: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class InputSpec:
    """One input. The names in a JSON file win over `name`, which may then be empty."""

    name: str
    source: File | Literal | Random


@dataclass(frozen=True)
class Wanted:
    """An input of the model. `dtype` is empty if load_and_run does not name it."""

    name: str
    dtype: str
    shape: Shape


@dataclass(frozen=True)
class Prepared:
    """`files` maps an input to the name of its file in the folder, in the order of the specs.

    `notes` are sentences that a reader of the result must not miss. `filled` are the inputs that
    nothing was given for and that got random numbers.
    """

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()
    filled: frozenset[str] = frozenset()


def wanted_of(inputs: Iterable[TensorInfo]) -> tuple[Wanted, ...]:
    """The model's inputs as `--model_info` printed them (`RunLog.inputs`)."""
    return tuple(Wanted(each.name, each.dtype, each.shape) for each in inputs)


def braces(shape: Iterable[int]) -> str:
    """A shape as MegEngine writes it: {2,3,32,32}."""
    return "{" + ",".join(str(length) for length in shape) + "}"
