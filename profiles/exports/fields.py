"""Fields of an operator: one list for CSV, JSON, Parquet, the API and the page that lists them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from django.utils.translation import gettext_noop
from numpy.typing import NDArray

from profiles.analysis.data import ProfileData
from profiles.analysis.select import Query, Selection, select
from profiles.formats.columns import (
    MISSING,
    SIDES,
    NumberColumn,
    ProfileColumns,
    Side,
    TextColumn,
    take_rows,
)

#: version of the fields; increased when a field changes its meaning, not for a new field
VERSION = 1

Kind = Literal["text", "json", "count", "number"]
Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Field:
    """One field of an operator.

    key: its name; in JSON, the part before the first `.` is an object
    kind: `text`; `json`, a text of compact JSON; `count`, a whole number; `number`, float64
    help: one English sentence that names the unit; translated on pages
    """

    key: str
    kind: Kind
    help: str

    @property
    def heading(self) -> str:
        """Return the title of the column in CSV; the key ends with the unit."""
        return self.key.replace(".", "_")


# the page of exports translates these texts, files keep them in English
_SELF_TIME = {
    "device": gettext_noop(
        "Self time on the device (end - start), in seconds, of the slowest computing node: the "
        "median over passes, or the value of the pass in the query string."
    ),
    "host": gettext_noop(
        "Self time on the host (end - start), in seconds, of the slowest thread: the median "
        "over passes, or the value of the pass in the query string."
    ),
}
_SHARE = {
    "device": gettext_noop("Self time / total of all operators on the device."),
    "host": gettext_noop("Self time / total of all operators on the host."),
}
#: key, kind and help of the fields that both sides have
_OF_SIDE: tuple[tuple[str, Kind, str], ...] = (
    (
        "kern_s",
        "number",
        gettext_noop(
            "Time to the first kernel, kern - start, in seconds; negative if no kernel was seen."
        ),
    ),
    (
        "min_s",
        "number",
        gettext_noop("With several profiled passes: the shortest self time, in seconds."),
    ),
    (
        "p10_s",
        "number",
        gettext_noop(
            "With several profiled passes: 10th percentile of the self times, in seconds."
        ),
    ),
    (
        "p90_s",
        "number",
        gettext_noop(
            "With several profiled passes: 90th percentile of the self times, in seconds."
        ),
    ),
    (
        "cv",
        "number",
        gettext_noop(
            "With several profiled passes: coefficient of variation of the self times (sample "
            "standard deviation / mean)."
        ),
    ),
    ("samples", "count", gettext_noop("Number of passes that timed the operator.")),
)


def _side_fields(side: Side) -> tuple[Field, ...]:
    return (
        Field(f"{side}.time_s", "number", _SELF_TIME[side]),
        Field(f"{side}.share", "number", _SHARE[side]),
        *(Field(f"{side}.{key}", kind, text) for key, kind, text in _OF_SIDE),
    )


FIELDS: tuple[Field, ...] = (
    Field(
        "row",
        "count",
        gettext_noop(
            "Index of the operator in the profile, starting from 0. In page URLs: ?op=ROW."
        ),
    ),
    Field("id", "text", gettext_noop("The number of the operator in MegEngine.")),
    Field("name", "text", gettext_noop("Name of the operator.")),
    Field("type", "text", gettext_noop("Type of the operator, such as ConvolutionForward.")),
    Field("step", "count", gettext_noop("Index in execution order, starting from 0.")),
    *_side_fields("device"),
    *_side_fields("host"),
    Field(
        "computation_flo",
        "number",
        gettext_noop("Operations of one execution; a multiply-add counts as 2."),
    ),
    Field(
        "flops_per_s",
        "number",
        gettext_noop("computation_flo / device self time, operations per second."),
    ),
    Field(
        "memory_bytes", "number", gettext_noop("Bytes of all inputs and outputs of one execution.")
    ),
    Field(
        "bandwidth_bytes_per_s",
        "number",
        gettext_noop("memory_bytes / device self time, bytes per second."),
    ),
    Field("intensity_flo_per_byte", "number", gettext_noop("computation_flo / memory_bytes.")),
    Field("in_shapes", "json", gettext_noop("Shapes of the inputs.")),
    Field("out_shapes", "json", gettext_noop("Shapes of the outputs.")),
    Field(
        "in_dtypes",
        "json",
        gettext_noop("Data types of the inputs; null for an input without memory."),
    ),
    Field("in_layouts", "json", gettext_noop("Strides of inputs that are not contiguous.")),
    Field("params", "json", gettext_noop("Parameters of the operator.")),
)

#: last columns of CSV, the same in each row; JSON has them once, in `meta`
SOURCE_FIELDS: tuple[Field, ...] = (
    Field("model", "text", gettext_noop("File name of the task’s model or script.")),
    Field("title", "text", gettext_noop("Title of the task, or name of an imported profile.")),
    Field("options", "json", gettext_noop("Options of the task that differ from their defaults.")),
    Field("device", "text", gettext_noop("Name of the device that ran the task.")),
    Field("version", "text", gettext_noop("Version of MegEngine that ran the task.")),
)


def rows_by_time(columns: ProfileColumns) -> Rows:
    """Return all n rows: those timed on the device, longest first, then the rest as in the file.

    Raises AnalysisError if the device total is 0.
    """
    timed = select(columns, Query()).rows
    return np.concatenate([timed, np.flatnonzero(~columns.device.present)])


def values_of(data: ProfileData, rows: Rows) -> list[list[Any]]:
    """Return the m values of each of `FIELDS`; None where the profile has none, unlike nan."""
    columns = data.columns
    columns_by_name: dict[str, list[Any]] = {
        "row": rows.tolist(),
        "id": [columns.ids[row] for row in rows],
        "name": [columns.names[row] for row in rows],
        "type": take_rows(columns.types, rows).texts(),
        "step": _steps(data, rows),
        "params": _params(data, rows),
    }
    for side in SIDES:
        columns_by_name |= _side(data, side, rows)
    columns_by_name |= _costs(columns, rows)
    for key in ("in_shapes", "out_shapes", "in_dtypes", "in_layouts"):
        columns_by_name[key] = take_rows(getattr(columns, key), rows).texts()
    return [columns_by_name[field.key] for field in FIELDS]


def _graph_rows(data: ProfileData, rows: Rows) -> Rows:
    return data.graph.operator_of_row(len(data.columns))[rows].astype(np.intp)


def _steps(data: ProfileData, rows: Rows) -> list[int | None]:
    """Return the places of operators in the order of execution, None for those without one."""
    # MISSING (-1) selects the last element, which has no step
    steps = np.append(data.graph.steps(), MISSING)[_graph_rows(data, rows)]
    return [None if step == MISSING else step for step in steps.tolist()]


def _params(data: ProfileData, rows: Rows) -> list[str | None]:
    params = data.graph.operators.params
    # the last element, without a value, stands for operators that are in no graph
    all_of_them = TextColumn(np.append(params.codes, np.int32(MISSING)), params.values)
    return take_rows(all_of_them, _graph_rows(data, rows)).texts()


def _side(data: ProfileData, side: Side, rows: Rows) -> dict[str, list[Any]]:
    times, spread = data.columns.times(side), data.spread(side)
    timed = times.present[rows]
    total_s = times.total_s()
    self_s = times.end_s[rows]
    many = timed & (spread.count[rows] > 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = self_s / np.float64(np.nan if total_s is None else total_s)
    kern_s = times.kern_s[rows]
    return {
        f"{side}.time_s": NumberColumn(self_s, timed).optional(),
        f"{side}.share": NumberColumn(share, timed).optional(),
        f"{side}.kern_s": NumberColumn(kern_s, timed & ~np.isnan(kern_s)).optional(),
        f"{side}.min_s": NumberColumn(spread.min_s[rows], many).optional(),
        f"{side}.p10_s": NumberColumn(spread.p10_s[rows], many).optional(),
        f"{side}.p90_s": NumberColumn(spread.p90_s[rows], many).optional(),
        f"{side}.cv": NumberColumn(spread.cv[rows], many).optional(),
        f"{side}.samples": spread.count[rows].tolist(),
    }


def _costs(columns: ProfileColumns, rows: Rows) -> dict[str, list[Any]]:
    time_s, timed = columns.device.end_s[rows], columns.device.present[rows]
    flo, has_flo = columns.computation.values[rows], columns.computation.present[rows]
    size, has_size = columns.memory.values[rows], columns.memory.present[rows]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return {
            "computation_flo": NumberColumn(flo, has_flo).optional(),
            "flops_per_s": NumberColumn(flo / time_s, has_flo & timed).optional(),
            "memory_bytes": NumberColumn(size, has_size).optional(),
            "bandwidth_bytes_per_s": NumberColumn(size / time_s, has_size & timed).optional(),
            "intensity_flo_per_byte": NumberColumn(flo / size, has_flo & has_size).optional(),
        }


def as_json(value: object) -> str:
    """Return compact JSON, for fields of kind `json`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


#: fields of a group; `time_s` is the aggregate of self times on the selected side
GROUP_FIELDS: tuple[Field, ...] = (
    Field("type", "text", ""),
    Field("operators", "count", ""),
    *(Field(key, "number", "") for key in ("time_s", "share", "cumulative_s")),
    *(Field(key, "number", "") for key in ("computation_flo", "flops_per_s")),
    *(Field(key, "number", "") for key in ("memory_bytes", "bandwidth_bytes_per_s")),
)


def group_columns(groups: Selection) -> list[list[Any]]:
    """Return the values of each of `GROUP_FIELDS`; None where the profile has no value."""
    return [
        [text or "" for text in groups.types.texts()],
        groups.counts.tolist(),
        groups.self_s.tolist(),
        groups.ratio.tolist(),
        groups.cumulative_s.tolist(),
        groups.computation.optional(),
        groups.flops.optional(),
        groups.memory.optional(),
        groups.bandwidth.optional(),
    ]


def group_rows(groups: Selection) -> Iterator[dict[str, Any]]:
    """Return one mapping for each group."""
    keys = [field.key for field in GROUP_FIELDS]
    for row in zip(*group_columns(groups), strict=True):
        yield dict(zip(keys, row, strict=True))
