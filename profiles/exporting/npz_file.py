"""A profile as numpy columns, for notebooks: `numpy.load(file, allow_pickle=False)`."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from profiles.analysis.data import ProfileData
from profiles.exporting.fields import VERSION, Rows, Values
from profiles.exporting.json_file import FORMAT

#: numpy pads each text of a column to the longest: at most so many characters in a column
MOST_CHARS = 2**24
LONGEST = 1_000


def to_npz(
    data: ProfileData, rows: Rows, values: Sequence[Values], meta: Mapping[str, Any]
) -> bytes:
    """Return an npz without pickle. For m operators and k passes it holds

    - for each field (`fields.FIELDS`) an array (m,) named as in CSV: float64, nan where the profile
      does not tell; int64, -1 where it does not; texts (`U`), empty where it does not. Texts
      longer than the column is wide are cut: at most 1,000 characters, less for many operators.
      JSON has all of them.
    - `device_passes_s`, `host_passes_s`: (k, m) float64, self times in each pass, s
    - `passes`: (k,) names of the passes
    - `device_total_s`, `host_total_s`: float64, of all operators; nan if none was timed
    - `format`, `version`, `meta`: as in JSON, `meta` as JSON text
    """
    columns = data.columns
    arrays: dict[str, NDArray[Any]] = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "meta": np.array(msgspec.json.encode(meta).decode()),
        "passes": np.array(data.passes, dtype=np.str_),
        "device_total_s": _total(columns.device.total_s()),
        "host_total_s": _total(columns.host.total_s()),
        "device_passes_s": data.device.end_s[:, rows],
        "host_passes_s": data.host.end_s[:, rows],
    }
    arrays |= {each.field.heading: _array(each) for each in values}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _total(total_s: float | None) -> NDArray[Any]:
    return np.array(np.nan if total_s is None else total_s)


def _array(values: Values) -> NDArray[Any]:
    found = values.values
    if isinstance(found, np.ndarray):
        absent = -1 if found.dtype.kind == "i" else np.nan
        return np.where(values.present, found, absent)
    # a NUL at its end would vanish: numpy pads with it
    widest = min(LONGEST, max(MOST_CHARS // max(len(found), 1), 1))
    longest = max(map(len, found), default=0)
    return np.array(found, dtype=f"U{max(1, min(longest, widest))}")
