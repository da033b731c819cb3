"""Store a profile as one `.npz` file with its columns, the times of all passes, and the graph.

Statistics over passes are computed on loading, which takes less time than reading them. The members
of the graph, and the intervals of later passes, are read only when they are first used.
"""

import io
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.passes import spread_of, with_medians
from profiles.formats.columns import SIDES, SideTimes
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import ExecutedGraph, PassIntervals
from profiles.formats.npz import (
    DAMAGE,
    Arrays,
    Record,
    pack,
    pack_texts,
    save,
    unpack,
    unpack_columns,
    unpack_texts,
)

#: version of the content: increase it when the stored data or its computation changes, then run
#: `manage.py reprofile`
VERSION = 8

_COLUMNS, _GRAPH, _INTERVALS, _SUMMARY = "columns.", "graph.", "intervals.", "summary."
_TIMES = ("present", "end_s", "kern_s")


def to_archive(data: ProfileData) -> bytes:
    """Serialize a profile without loss; equal profiles give equal bytes."""
    arrays: Arrays = {
        "version": np.array(VERSION),
        "on_gpu": data.on_gpu,
        "order": data.order,
        "left_out": np.frombuffer(msgspec.json.encode(data.left_out), np.uint8),
        **pack_texts("passes", data.passes),
    }
    for side in SIDES:
        spread = data.spread(side)
        arrays |= {f"later.{side}.{name}": getattr(spread, name)[1:] for name in _TIMES}
    for number in range(1, len(data.passes)):
        arrays |= pack(data.load_intervals(number), f"{_INTERVALS}{number}.")
    for kind, summary in data.summaries.items():
        arrays[_SUMMARY + kind] = np.frombuffer(summary, np.uint8)
    return save(arrays | pack(data.columns_of_pass(0), _COLUMNS) | pack(data.graph, _GRAPH))


def from_archive(data: bytes) -> ProfileData:
    """Load a profile from the output of `to_archive`.

    `data` must come from our own storage, because its unpacked size is not limited. The arrays are
    read-only, since one profile is shared by many requests. Raises ProfileFormatError
    (`bad_columns`) if the archive is damaged or of another version.
    """
    try:
        arrays = _members(data, lambda name: not name.startswith((_GRAPH, _INTERVALS)))
        if arrays["version"] != VERSION:
            raise ValueError(f"its version is {arrays['version']}, not {VERSION}")
        return _profile(data, arrays)
    except DAMAGE as error:
        raise ProfileFormatError("bad_columns", f"The archive is damaged: {error}.") from error


def weight_bytes(data: bytes) -> int:
    """Estimate how much memory the profile of an archive takes, including its graph."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        kept = sum(member.file_size for member in file.infolist())
    # texts become separate Python objects, and statistics are as large as a few passes
    return 3 * kept + len(data)


def _profile(data: bytes, arrays: Mapping[str, NDArray[Any]]) -> ProfileData:
    columns = unpack_columns(arrays, _COLUMNS)
    spreads = {}
    for side in SIDES:
        later = zip(*(arrays[f"later.{side}.{name}"] for name in _TIMES), strict=True)
        spreads[side] = spread_of([columns.times(side), *(SideTimes(*times) for times in later)])
    return ProfileData(
        columns=with_medians(columns, **spreads),
        load_graph=lambda: _record(data, ExecutedGraph, _GRAPH),
        load_intervals=lambda number: _record(data, PassIntervals, f"{_INTERVALS}{number}."),
        **spreads,
        on_gpu=arrays["on_gpu"],
        order=arrays["order"],
        passes=unpack_texts("passes", arrays),
        left_out=msgspec.json.decode(arrays["left_out"].tobytes(), type=tuple[LeftOut, ...]),
        summaries={
            name.removeprefix(_SUMMARY): array.tobytes()
            for name, array in arrays.items()
            if name.startswith(_SUMMARY)
        },
    )


def _record(data: bytes, form: type[Record], prefix: str) -> Record:
    return unpack(form, _members(data, lambda name: name.startswith(prefix)), prefix)


def _members(data: bytes, accepts: Callable[[str], bool]) -> Arrays:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files if accepts(name)}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
