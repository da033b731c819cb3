"""Columns kept as npz come back exactly."""

import contextlib
import io

import numpy as np
import pytest

from profiles.analysis.text import profile_text
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.load_and_run import parse
from profiles.parsers.npz import DAMAGE, pack, save, unpack_columns
from profiles.tests.make import assert_same, make_profile, to_json
from testdata import bad_profile, good_profile

REAL = ["bert_tiny", "hostile_names", "lstm", "no_op", "quantized", "resnet18", "train_mlp"]


def kept(columns: ProfileColumns) -> ProfileColumns:
    """The columns, written to a file and read again."""
    with np.load(io.BytesIO(save(pack(columns))), allow_pickle=False) as file:
        return unpack_columns(dict(file))


@pytest.mark.parametrize("name", REAL)
def test_columns_of_a_real_profile_come_back_exactly(name: str) -> None:
    columns = parse(good_profile(name))
    assert_same(kept(columns), columns)
    assert profile_text(kept(columns), 0, True) == profile_text(columns, 0, True)


@pytest.mark.parametrize(
    "name",
    ["no_operators", "shapes_null", "shapes_text", "time_nan_literal", "no_profiler_opr_footprint"],
)
def test_odd_columns_come_back_exactly(name: str) -> None:
    columns = parse(bad_profile(name))
    assert_same(kept(columns), columns)


def test_texts_with_nul_and_any_script_come_back_exactly() -> None:
    names = {"1": "卷积\x00", "2": "", "3": "\x00"}
    profile = make_profile({"1": 0.5, "2": 0.5, "3": float("nan")}, names=names)
    columns = parse(to_json(profile))
    assert columns.names == tuple(names.values())
    assert_same(kept(columns), columns)


def test_a_damaged_archive_raises_what_is_promised_for_damage() -> None:
    """Found by fuzzing: each byte that is no packed data was changed."""
    data = save({"a": np.arange(3), "b": np.array([b"x"])})
    for place in range(len(data)):
        for change in (1, 2, 32, 255):
            changed = bytearray(data)
            changed[place] ^= change
            with (
                contextlib.suppress(*DAMAGE),
                np.load(io.BytesIO(changed), allow_pickle=False) as file,
            ):
                unpack_columns({name: file[name] for name in file.files})
