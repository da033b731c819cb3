"""Columns kept as npz come back exactly."""

import dataclasses
import io
from typing import Any

import numpy as np
import pytest

from profiles.analysis.text import profile_text
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.load_and_run import parse
from profiles.parsers.npz import from_npz, to_npz
from profiles.tests.make import make_profile, to_json
from profiles.tests.shared_data import bad_profile, good_profile, needs_data

REAL = ["bert_tiny", "hostile_names", "lstm", "no_op", "quantized", "resnet18", "train_mlp"]


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if dataclasses.is_dataclass(left):
        for field in dataclasses.fields(left):
            assert_same(getattr(left, field.name), getattr(right, field.name))
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    else:
        assert left == right


def assert_round_trip(columns: ProfileColumns) -> None:
    data = to_npz(columns)
    assert_same(from_npz(data), columns)
    assert to_npz(from_npz(data)) == data


@needs_data
@pytest.mark.parametrize("name", REAL)
def test_columns_of_a_real_profile_come_back_exactly(name: str) -> None:
    columns = parse(good_profile(name))
    assert_round_trip(columns)
    assert profile_text(from_npz(to_npz(columns)), 0, True) == profile_text(columns, 0, True)


@needs_data
@pytest.mark.parametrize(
    "name",
    ["no_operators", "shapes_null", "shapes_text", "time_nan_literal", "no_profiler_opr_footprint"],
)
def test_odd_columns_come_back_exactly(name: str) -> None:
    assert_round_trip(parse(bad_profile(name)))


def test_texts_with_nul_and_any_script_come_back_exactly() -> None:
    names = {"1": "卷积\x00", "2": "", "3": "\x00"}
    profile = make_profile({"1": 0.5, "2": 0.5, "3": float("nan")}, names=names)
    columns = parse(to_json(profile))
    assert columns.names == tuple(names.values())
    assert_round_trip(columns)


def damaged(**changes: np.ndarray[Any, Any] | None) -> bytes:
    with np.load(io.BytesIO(to_npz(parse(to_json(make_profile({"1": 0.5})))))) as file:
        arrays = dict(file)
    arrays |= {name.replace("__", "."): array for name, array in changes.items()}
    out = io.BytesIO()
    np.savez(out, **{name: array for name, array in arrays.items() if array is not None})
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04",
        b"\x80\x04N.",
        to_npz(parse(to_json(make_profile({"1": 0.5}))))[:-40],
        damaged(version=np.array(99)),
        damaged(memory__values=None),
        damaged(memory__values=np.zeros(2)),
        damaged(names__utf8=np.array([255, 254, 253], dtype=np.uint8)),
        damaged(ids__ends=np.array([object()])),
    ],
)
def test_damaged_columns_are_refused_with_a_code(data: bytes) -> None:
    with pytest.raises(ProfileFormatError) as caught:
        from_npz(data)
    assert caught.value.code == "bad_columns"
