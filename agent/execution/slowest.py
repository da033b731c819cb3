"""The slowest operators of a profile, which the task's page shows until the result is there.

Times are those of the result: an operator's self time is the longest `end - start` of its
computing nodes.
"""

import math
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from agent.protocol.messages import MOST_SLOWEST, SlowestOperators, encode

#: larger profiles are not read: on a small board that would delay the next pass
LARGEST_BYTES = 32 << 20
#: size of the operators in a frame; the other fields of the message need less than 500 bytes
ROWS_BYTES = 3_500
#: tried one after the other until all rows fit: most characters of a name
_LENGTHS = (300, 150, 100, 80, 70, 60, 50, 40, 30)
_TYPE_LENGTH = 60


class _Times(TypedDict):
    start: float
    end: float


class _Operator(TypedDict):
    name: str
    type: str


class _Profiler(TypedDict):
    device: dict[str, dict[str, _Times]]


class _Graph(TypedDict):
    operator: dict[str, _Operator]


class _Profile(TypedDict):
    """The fields of a profile that are read; the others are skipped."""

    profiler: _Profiler
    graph_exec: _Graph


_PROFILE = TypeAdapter(_Profile)


def slowest_operators(path: Path) -> SlowestOperators | None:
    """Return the slowest operators of a profile by their times on the device.

    None if the profile is too large, cannot be read, has no times, or a time is impossible: the
    server reads it later and reports the cause. Blocks for about 5 ms per MiB.
    """
    profile = _read(path)
    if profile is None:
        return None
    times_s = _device_times_s(profile)
    operators = profile["graph_exec"]["operator"]
    rows = [(operators[key], times_s[key]) for key in operators if key in times_s]
    if not rows or not all(0 <= time_s < math.inf for _, time_s in rows):
        return None
    # stable, so that equal times are in the order of the profile as in the result
    rows.sort(key=lambda row: -row[1])
    return _fit(rows)


def device_times_us(path: Path) -> dict[str, float]:
    """Return {id of an operator: its device time in µs} of a profile; empty if it is unusable."""
    profile = _read(path)
    times_s = _device_times_s(profile) if profile else {}
    return {key: _microseconds(s) for key, s in times_s.items() if math.isfinite(s)}


def _read(path: Path) -> _Profile | None:
    """Read a profile; None if it is too large or unreadable."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return None
        return _PROFILE.validate_json(path.read_bytes(), strict=True)
    except (OSError, ValidationError):
        return None


def _device_times_s(profile: _Profile) -> dict[str, float]:
    return {
        key: max(times["end"] - times["start"] for times in nodes.values())
        for key, nodes in profile["profiler"]["device"].items()
        if nodes
    }


def _fit(rows: list[tuple[_Operator, float]]) -> SlowestOperators | None:
    """Shorten names until the rows fit into ROWS_BYTES, then leave out the last rows."""
    kept = rows[:MOST_SLOWEST]
    for length in _LENGTHS:
        found = _message(rows, kept, length)
        if found is None or len(encode(found).encode()) <= ROWS_BYTES:
            return found
    while found is not None and len(encode(found).encode()) > ROWS_BYTES:
        kept = kept[:-1]
        found = _message(rows, kept, _LENGTHS[-1])
    return found


def _message(
    rows: list[tuple[_Operator, float]], kept: list[tuple[_Operator, float]], length: int
) -> SlowestOperators | None:
    types = list(dict.fromkeys(operator["type"] for operator, _ in kept))
    try:
        return SlowestOperators(
            operators=len(rows),
            total_us=_microseconds(math.fsum(time_s for _, time_s in rows)),
            types=tuple(shorten(name, _TYPE_LENGTH) for name in types),
            rows=tuple(
                (shorten(operator["name"], length), types.index(operator["type"]), _microseconds(s))
                for operator, s in kept
            ),
        )
    except ValidationError:
        # for example a time of more than 31 years
        return None


def shorten(text: str, most: int) -> str:
    """Cut the middle of a text so that it has at most `most` characters."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def _microseconds(time_s: float) -> float:
    """Convert seconds to µs, to whole ns: the writer's 15 digits leave noise beyond."""
    return round(time_s * 1e6, 3)
