"""Rows, orders and aggregates of real profiles, compared with a plain implementation."""

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.analysis.errors import AnalysisError
from profiles.analysis.select import Query, Selection, ascending_order, number_order, select
from profiles.analysis.table import rows
from profiles.formats.columns import MISSING, NumberColumn, ProfileColumns, Side
from profiles.formats.load_and_run.reader import parse
from profiles.tests.make import make_profile, to_json
from testdata import good_profile

NAMES = ("resnet18", "bert_tiny", "train_mlp", "quantized", "lstm", "dynamic_shape")
SIDES: tuple[Side, ...] = ("device", "host")
Entry = dict[str, Any]


@cache
def columns_of(name: str) -> ProfileColumns:
    return parse(good_profile(name))


@cache
def operators_of(name: str, side: Side, end: str = "end") -> list[Entry]:
    """Return a dict for each operator that was timed, read from the JSON."""
    profile = json.loads(good_profile(name))
    graph, profiler = profile["graph_exec"], profile["profiler"]
    entries = []
    for key, operator in graph["operator"].items():
        if key not in profiler[side]:
            continue
        time = max(t[end] - t["start"] for t in profiler[side][key].values())
        cost = profiler["opr_footprint"].get(key, {})
        plans = [graph["var"][variable]["mem_plan"] for variable in operator["input"]]
        entries.append(
            {
                "id": operator["id"],
                "name": operator["name"],
                "type": operator["type"],
                "time": time,
                "computation": cost.get("computation") or None,
                "memory": cost.get("memory"),
                "in_shapes": cost.get("in_shapes"),
                "dtypes": [plan and plan["layout"]["dtype"] for plan in plans],
            }
        )
    return entries


def per_second(amount: float | None, time: float) -> float | None:
    if amount is None:
        return None
    return amount / time if time else (math.nan if amount == 0 else math.inf)


def ids(name: str, selection: Selection) -> list[str]:
    return [columns_of(name).ids[row] for row in selection.rows]


def values_or_none(column: NumberColumn) -> list[float | None]:
    pairs = zip(column.values.tolist(), column.present.tolist(), strict=True)
    return [value if present else None for value, present in pairs]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("order", ["computation", "flops"])
def test_missing_values_come_last_in_both_directions(
    name: str, side: Side, ascending: bool, order: Any
) -> None:
    def key(entry: Entry) -> tuple[bool, float]:
        value = entry["computation"]
        if order == "flops":
            value = per_second(value, entry["time"])
        return (value is None, 0.0 if value is None else (value if ascending else -value))

    expected = [entry["id"] for entry in sorted(operators_of(name, side), key=key)]
    query = Query(side=side, order=order, ascending=ascending)
    assert ids(name, select(columns_of(name), query)) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("aggregate", ["max", "min"])
@pytest.mark.parametrize("by_type", [True, False])
def test_min_and_max_skip_missing_values(name: str, aggregate: Any, by_type: bool) -> None:
    function = {"max": max, "min": min}[aggregate]
    groups: dict[str, list[Entry]] = {}
    for entry in operators_of(name, "device"):
        groups.setdefault(entry["type"] if by_type else "all", []).append(entry)

    def extreme(entries: list[Entry], key: str) -> float | None:
        return function((e[key] for e in entries if e[key] is not None), default=None)

    expected = {
        kind: [len(e), extreme(e, "time"), extreme(e, "computation"), extreme(e, "memory")]
        for kind, e in groups.items()
    }
    selection = select(columns_of(name), Query(aggregate=aggregate, by_type=by_type))
    numbers = zip(
        [selection.types[at] for at in range(len(selection))],
        selection.counts.tolist(),
        selection.self_s.tolist(),
        values_or_none(selection.computation),
        values_or_none(selection.memory),
        strict=True,
    )
    assert {kind: values for kind, *values in numbers} == expected
    assert selection.self_s.tolist() == sorted(selection.self_s.tolist(), reverse=True)
    assert set(selection.rows.tolist()) == {MISSING}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["Float32", "QuantizedS8", "Int32", "Nope"])
def test_the_dtype_filter_skips_variables_without_a_memory_plan(name: str, dtype: str) -> None:
    entries = [e for e in operators_of(name, "device") if dtype in e["dtypes"]]
    expected = [e["id"] for e in sorted(entries, key=lambda e: -e["time"])]
    assert ids(name, select(columns_of(name), Query(input_dtype=dtype))) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ascending", [True, False])
def test_nan_does_not_disorder_other_rows(name: str, ascending: bool) -> None:
    selection = select(columns_of(name), Query(order="bandwidth", ascending=ascending))
    values = selection.bandwidth.values[selection.bandwidth.present]
    known = values[~np.isnan(values)].tolist()
    assert known == sorted(known, reverse=not ascending)
    assert sorted(ids(name, selection)) == sorted(e["id"] for e in operators_of(name, "device"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ascending", [True, False])
def test_shapes_are_ordered_as_lists_and_ids_as_numbers(name: str, ascending: bool) -> None:
    entries = operators_of(name, "host")
    by_id = sorted(entries, key=lambda e: int(e["id"]) if ascending else -int(e["id"]))
    query = Query(side="host", ascending=ascending)
    selection = select(columns_of(name), replace(query, order="opr_id"))
    assert ids(name, selection) == [e["id"] for e in by_id]
    shapes = [
        json.loads(columns_of(name).in_shapes[row] or "null")
        for row in select(columns_of(name), replace(query, order="in_shapes")).rows
    ]
    expected = sorted((e["in_shapes"] for e in entries), reverse=not ascending)
    assert shapes == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", SIDES)
def test_filters_and_limits_are_combined(name: str, side: Side) -> None:
    entries = operators_of(name, side, "kern")
    times = sorted(e["time"] for e in entries)
    low, high = times[len(times) // 4], times[-2]
    kinds = {e["type"] for e in entries[::3]}
    expected = [
        e["id"]
        for e in sorted(entries, key=lambda e: e["time"])
        if e["type"] in kinds and low <= e["time"] <= high and e["name"].startswith(("c", "b"))
    ]
    query = Query(
        side=side,
        types=tuple(kinds),
        name="c|b",
        top_end="kern",
        min_s=low,
        max_s=high,
        ascending=True,
    )
    assert ids(name, select(columns_of(name), query)) == expected


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["FORWARD", "conv", ".*", "(", "1.", "ſ", "%"])
def test_the_text_filter_searches_name_and_type(name: str, text: str) -> None:
    expected = [
        entry["id"]
        for entry in sorted(operators_of(name, "device"), key=lambda e: -e["time"])
        if text.casefold() in entry["name"].casefold()
        or text.casefold() in entry["type"].casefold()
    ]
    assert ids(name, select(columns_of(name), Query(text=text))) == expected


def test_ratios_refer_to_the_unfiltered_total() -> None:
    entries = operators_of("resnet18", "device")
    total = sum(e["time"] for e in entries)
    selection = select(columns_of("resnet18"), Query(types=("ConvolutionForward",), top_end="kern"))
    assert selection.ratio.tolist() == pytest.approx((selection.self_s / total).tolist())
    assert selection.cumulative_s.tolist() == pytest.approx(np.cumsum(selection.self_s).tolist())
    assert selection.cumulative_ratio[-1] == pytest.approx(selection.self_s.sum() / total)


def test_a_mean_divides_by_all_and_a_sum_skips_unknown_values() -> None:
    footprint = {"1": {"computation": 6, "memory": 8}, "2": {"memory": 4}}
    columns = parse(to_json(make_profile({"1": 1.0, "2": 3.0, "3": 5.0}, footprint=footprint)))
    mean = select(columns, Query(aggregate="mean"))
    assert (mean.self_s[0], mean.computation.values[0], mean.memory.values[0]) == (3.0, 2.0, 4.0)
    assert mean.flops.values[0] == pytest.approx(2 / 3)
    total = select(columns, Query(aggregate="sum", by_type=True))
    assert (total.self_s[0], total.computation.values[0], total.memory.values[0]) == (9, 6, 12)


def test_rows_are_sliced_like_a_python_list_and_keep_their_places() -> None:
    columns = parse(to_json(make_profile({"1": 1.0, "2": 2.0, "3": 3.0})))
    selection = select(columns, Query())
    for start, stop in ((0, 1), (0, 2), (0, None), (1, None), (0, -1)):
        ids_of_rows = [row.id for row in rows(columns, selection, start, stop)]
        assert ids_of_rows == ["3", "2", "1"][start:stop]
    assert rows(columns, selection, 3, 9) == rows(columns, selection, 2, 1) == ()
    second = rows(columns, selection, 1, 2)[0]
    assert (second.place, second.cumulative_s) == (1, 5.0)


def test_a_row_of_a_group_has_type_and_count() -> None:
    columns = parse(to_json(make_profile({"1": 1.0, "2": 2.0})))
    (row,) = rows(columns, select(columns, Query(aggregate="sum", by_type=True)))
    assert (row.operator, row.name, row.id, row.count) == (MISSING, "Elemwise", "N/A", 2)
    assert (row.type, row.in_shapes, row.out_shapes) == ("Elemwise", ("None",), ("None",))


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (Query(by_type=True), "aggregate_missing"),
        (Query(order="colour"), "unknown_column"),  # type: ignore[arg-type]
        (Query(name="("), "bad_pattern"),
        (Query(name="(?=a)"), "bad_pattern"),
        (Query(name="x" * 5_000), "bad_pattern"),
    ],
)
def test_an_invalid_query_is_an_error_with_a_code(query: Query, code: str) -> None:
    columns = parse(to_json(make_profile({"1": 1.0, "2": 2.0})))
    with pytest.raises(AnalysisError) as caught:
        select(columns, query)
    assert caught.value.code == code
    assert caught.value.detail.endswith(".")


FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan])


@given(st.lists(FLOATS))
def test_the_order_equals_that_of_the_original_tool_without_nan(values: list[float]) -> None:
    keys = np.array(values, dtype=np.float64)
    order = ascending_order(keys).tolist()
    expected = sorted(range(len(values)), key=values.__getitem__)
    known = [values[at] for at in expected if not math.isnan(values[at])]
    if known == sorted(known):
        assert order == expected
    else:
        places = range(len(values))
        assert order == sorted(places, key=lambda at: (math.isnan(values[at]), values[at], at))


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans())), st.booleans())
def test_missing_numbers_come_last_and_the_order_is_stable(
    pairs: list[tuple[int, bool]], ascending: bool
) -> None:
    values = np.array([value for value, _ in pairs], dtype=np.float64)
    present = np.array([known for _, known in pairs], dtype=np.bool_)
    order = number_order(NumberColumn(values, present), ascending=ascending).tolist()

    def key(at: int) -> tuple[bool, float]:
        value, known = pairs[at]
        return (not known, (value if ascending else -value) if known else 0)

    assert order == sorted(range(len(pairs)), key=key)
