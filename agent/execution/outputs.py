"""Compare the outputs of two runs of a model on the same data."""

import json
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from agent.execution.artifacts import plain_files, size_of_plain_file
from agent.protocol.inputs import InputError, braces
from agent.protocol.inputs.npy import map_array, read_header
from agent.protocol.notes import Note
from agent.protocol.pairs import MOST_OUTPUTS, OutputDifference

#: lengths of the innermost axis in MegEngine's blocked layouts (NCHW4, NCHW8, NCHW32, NCHW64)
_BLOCKS = (4, 8, 32, 64)
#: numbers of the dtypes in a binary dump, as in `agent/load_and_run/dumps.py`
_DTYPES = {0: "f4", 1: "u1", 2: "i1", 3: "i2", 4: "i4", 9: "f2", 13: "u2"}
_HEAD = struct.Struct("<10I")
#: most bytes of the list of the outputs' names
_LONGEST_LIST = 1 << 20
#: values that are read at once
_VALUES = 1 << 18

Array = np.ndarray[Any, Any]


def read_outputs(folder: Path) -> list[tuple[str, Array]]:
    """Return the outputs that a run wrote to a folder, with their names, which may be equal.

    Our runner of a wheel writes `output-<n>.npy` and `outputs.json`, a compiled load_and_run the
    files of `--bin_out_dump`, of which those of the last run count. Files that cannot be read are
    skipped; links are not followed. The arrays are mapped to the files, which must not change.
    """
    outputs: list[tuple[str, Array]] = []
    for number, name in enumerate(_names(folder / "outputs.json")):
        path = folder / f"output-{number}.npy"
        if size_of_plain_file(path):
            with suppress(OSError, ValueError, InputError):
                outputs.append((name, map_array(path, read_header(path, "wheel"))))
    dumps = sorted(plain_files(folder / "bin_out_dump"), key=lambda path: _run_of(path.name))
    last = _run_of(dumps[-1].name)[0] if dumps else 0
    outputs += filter(None, (_dumped(path) for path in dumps if _run_of(path.name)[0] == last))
    return outputs


def differences(
    baseline: Sequence[tuple[str, Array]], other: Sequence[tuple[str, Array]]
) -> tuple[OutputDifference, ...]:
    """Compare outputs by position, since versions of a model may name them differently.

    If there are more than MOST_OUTPUTS, those that differ most are returned.
    """
    if not baseline or not other:
        return (OutputDifference(problem=Note.of("outputs_unknown")),)
    if len(baseline) != len(other):
        note = Note.of("outputs_count", count=len(other), expected=len(baseline))
        return (OutputDifference(problem=note),)
    pairs = zip(baseline, other, strict=True)
    found = [difference(name, first, second) for (name, first), (_, second) in pairs]
    if len(found) > MOST_OUTPUTS:
        found = sorted(found, key=lambda row: -math.inf if row.cosine is None else row.cosine)
    return tuple(found[:MOST_OUTPUTS])


def difference(name: str, baseline: Array, other: Array) -> OutputDifference:
    """Return the difference of one output.

    cosine = a.b / (|a| |b|); SQNR = 10 log10(sum a^2 / sum (a - b)^2) dB.
    """
    name = name[:300]
    one, two = plain(baseline, other.shape), plain(other, baseline.shape)
    if one.shape != two.shape:
        shapes = {"shape": braces(other.shape), "expected": braces(baseline.shape)}
        return OutputDifference(name=name, problem=Note.of("outputs_shape", **shapes))
    max_abs = largest = signal = noise = square = product = 0.0
    is_finite = is_equal = True
    for a, b in _blocks(one, two):
        is_equal = is_equal and np.array_equal(a, b, equal_nan=True)
        is_finite = is_finite and bool(np.isfinite(a).all() and np.isfinite(b).all())
        if not is_finite:
            continue
        error = b - a
        max_abs = max(max_abs, float(np.abs(error).max()))
        largest = max(largest, float(np.abs(a).max()))
        signal, noise = signal + float(a @ a), noise + float(error @ error)
        square, product = square + float(b @ b), product + float(a @ b)
    if is_equal:
        return OutputDifference(name=name, max_abs=0.0, max_rel=0.0, cosine=1.0)
    if not is_finite:
        return OutputDifference(name=name, problem=Note.of("outputs_not_finite"))
    norms = math.sqrt(signal) * math.sqrt(square)
    return OutputDifference(
        name=name,
        max_abs=max_abs,
        max_rel=max_abs / largest if largest else None,
        cosine=product / norms if norms else 0.0,
        sqnr_db=10 * math.log10(signal / noise) if signal and noise else None,
    )


def _blocks(one: Array, two: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the values of both arrays in the same order, in blocks of float64."""
    if one.size:
        yield from np.nditer(
            (one, two),
            flags=("external_loop", "buffered"),
            op_dtypes=(np.float64, np.float64),
            casting="unsafe",
            buffersize=_VALUES,
        )


def plain(array: Array, shape: Sequence[int]) -> Array:
    """Return an array of a blocked layout as NCHW if `shape` is the plain form of its shape.

    NCHW4 and similar layouts have the axes (N, C / block, H, W, block), padded to whole blocks.
    """
    if array.ndim != 5 or len(shape) != 4 or array.shape[4] not in _BLOCKS:
        return array
    n, outer, height, width, block = array.shape
    channels = outer * block
    if (n, height, width) != (shape[0], *shape[2:]) or not 0 <= channels - shape[1] < block:
        return array
    nchw = array.transpose(0, 1, 4, 2, 3).reshape(n, channels, height, width)
    return nchw[:, : shape[1]]


def _dumped(path: Path) -> tuple[str, Array] | None:
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        length, kind, _, *shape = _HEAD.unpack(head)
        name = file.read(min(length, _LONGEST_LIST)).decode("utf-8", errors="replace")
    dtype, begin = np.dtype(_DTYPES.get(kind, "V")), _HEAD.size + length
    axes = tuple(axis for axis in shape if axis)
    if not dtype.itemsize or path.stat().st_size - begin != math.prod(axes) * dtype.itemsize:
        return None
    return name, np.memmap(path, dtype, "r", begin, axes)


def _run_of(name: str) -> tuple[int, str]:
    run, _, variable = name.removeprefix("run").partition("-")
    return (int(run) if run.isdigit() else 0), variable


def _names(path: Path) -> list[str]:
    if not 0 < (size_of_plain_file(path) or 0) <= _LONGEST_LIST:
        return []
    try:
        names = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return []
    return list(map(str, names)) if isinstance(names, list) else []
