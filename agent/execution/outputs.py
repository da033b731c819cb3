"""Compare the outputs of two runs of a model on the same data."""

import json
import math
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from agent.protocol.inputs import braces
from agent.protocol.notes import Note
from agent.protocol.pairs import OutputDifference

#: lengths of the innermost axis in MegEngine's blocked layouts (NCHW4, NCHW8, NCHW32, NCHW64)
_BLOCKS = (4, 8, 32, 64)
#: numbers of the dtypes in a binary dump, as in `agent/load_and_run/dumps.py`
_DTYPES = {0: "f4", 1: "u1", 2: "i1", 3: "i2", 4: "i4", 9: "f2", 13: "u2"}
_HEAD = struct.Struct("<10I")
#: larger outputs are not compared
LARGEST_BYTES = 1 << 30


def read_outputs(folder: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the outputs that a run wrote to a folder, by name.

    Our runner of a wheel writes `output-<n>.npy` and `outputs.json`, a compiled load_and_run the
    files of `--bin_out_dump`, of which those of the last run count. Files that are too large or
    cannot be read are left out; links are not followed.
    """
    outputs = {}
    for number, name in enumerate(_names(folder / "outputs.json")):
        path = folder / f"output-{number}.npy"
        if _is_usable(path):
            with suppress(OSError, ValueError):
                outputs[name] = np.load(path, allow_pickle=False)
    for path in sorted(folder.glob("run*-var*"), key=lambda path: _run_of(path.name)):
        if _is_usable(path) and (found := _dumped(path)) is not None:
            outputs[found[0]] = found[1]
    return outputs


def differences(
    baseline: dict[str, np.ndarray[Any, Any]], other: dict[str, np.ndarray[Any, Any]]
) -> tuple[OutputDifference, ...]:
    """Compare outputs by position, since versions of a model may name them differently."""
    if not baseline or not other:
        return (OutputDifference(problem=Note.of("outputs_unknown")),)
    if len(baseline) != len(other):
        note = Note.of("outputs_count", count=len(other), expected=len(baseline))
        return (OutputDifference(problem=note),)
    pairs = zip(baseline.items(), other.values(), strict=True)
    return tuple(difference(name, first, second) for (name, first), second in pairs)


def difference(
    name: str, baseline: np.ndarray[Any, Any], other: np.ndarray[Any, Any]
) -> OutputDifference:
    """Return the difference of one output.

    cosine = a.b / (|a| |b|); SQNR = 10 log10(sum a^2 / sum (a - b)^2) dB.
    """
    name = name[:300]
    a, b = plain(baseline, other.shape), plain(other, baseline.shape)
    if a.shape != b.shape:
        shapes = {"shape": braces(other.shape), "expected": braces(baseline.shape)}
        return OutputDifference(name=name, problem=Note.of("outputs_shape", **shapes))
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        if np.array_equal(a, b, equal_nan=True):
            return OutputDifference(name=name, max_abs=0.0, max_rel=0.0, cosine=1.0)
        return OutputDifference(name=name, problem=Note.of("outputs_not_finite"))
    error = b - a
    max_abs = float(np.abs(error).max(initial=0.0))
    largest = float(np.abs(a).max(initial=0.0))
    signal, noise = float(a @ a), float(error @ error)
    norms = math.sqrt(signal) * math.sqrt(float(b @ b))
    is_equal = max_abs == 0
    return OutputDifference(
        name=name,
        max_abs=max_abs,
        max_rel=0.0 if is_equal else max_abs / largest if largest else None,
        cosine=1.0 if is_equal else float(a @ b) / norms if norms else 0.0,
        sqnr_db=10 * math.log10(signal / noise) if signal and noise else None,
    )


def plain(array: np.ndarray[Any, Any], shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return an array of a blocked layout as NCHW if `shape` is the plain form of its shape.

    NCHW4 and its like have the axes (N, C / block, H, W, block), padded to whole blocks.
    """
    if array.ndim != 5 or len(shape) != 4 or array.shape[4] not in _BLOCKS:
        return array
    n, outer, height, width, block = array.shape
    channels = outer * block
    if (n, height, width) != (shape[0], *shape[2:]) or not 0 <= channels - shape[1] < block:
        return array
    nchw = array.transpose(0, 1, 4, 2, 3).reshape(n, channels, height, width)
    return nchw[:, : shape[1]]


def _dumped(path: Path) -> tuple[str, np.ndarray[Any, Any]] | None:
    content = path.read_bytes()
    if len(content) < _HEAD.size:
        return None
    length, kind, _, *shape = _HEAD.unpack_from(content)
    dtype, begin = _DTYPES.get(kind), _HEAD.size + length
    axes = [axis for axis in shape if axis]
    if dtype is None or len(content) - begin != math.prod(axes) * np.dtype(dtype).itemsize:
        return None
    name = content[_HEAD.size : begin].decode("utf-8", errors="replace")
    return name, np.frombuffer(content, dtype, offset=begin).reshape(axes)


def _run_of(name: str) -> tuple[int, str]:
    run, _, variable = name.removeprefix("run").partition("-")
    return (int(run) if run.isdigit() else 0), variable


def _is_usable(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_BYTES


def _names(path: Path) -> list[str]:
    if not _is_usable(path):
        return []
    try:
        names = json.loads(path.read_text("utf-8"))
    except ValueError:
        return []
    return list(map(str, names)) if isinstance(names, list) else []
