"""The archive of derived data restores columns, passes and graph exactly."""

import contextlib
import io

import numpy as np
import pytest

from profiles.analysis.archive import from_archive, to_archive, weight_bytes
from profiles.analysis.data import LeftOut, ProfileData
from profiles.formats.columns import ProfileColumns
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.reader import parse
from profiles.formats.npz import DAMAGE, pack, save, unpack_columns
from profiles.tests.make import assert_same, make_profile, to_json
from profiles.tests.passes import another_pass, data_of
from testdata import bad_profile, good_profile


def profile_of(name: str, passes: int = 1, left_out: tuple[LeftOut, ...] = ()) -> ProfileData:
    first = good_profile(name)
    files = [first, *(another_pass(first, seed) for seed in range(1, passes))]
    return data_of(*files, left_out=left_out)


@pytest.mark.parametrize("passes", [1, 3])
@pytest.mark.parametrize(
    "name",
    ["resnet18", "train_mlp", "hostile_names", "no_op", "bert_tiny", "lstm", "quantized"],
)
def test_an_archive_restores_a_profile_exactly(name, passes):
    data = profile_of(name, passes, (LeftOut("profile-9.json", "not_json", "It is <b>卷积</b>."),))
    archive = to_archive(data)
    restored = from_archive(archive)
    for field in ("columns", "device", "host", "on_gpu", "order", "passes", "left_out", "graph"):
        assert_same(getattr(restored, field), getattr(data, field))
    assert to_archive(restored) == archive


def round_trip(columns: ProfileColumns) -> ProfileColumns:
    """Return the columns after they were written to a file and read again."""
    with np.load(io.BytesIO(save(pack(columns))), allow_pickle=False) as file:
        return unpack_columns(dict(file))


@pytest.mark.parametrize(
    "name",
    ["no_operators", "shapes_null", "shapes_text", "time_nan_literal", "no_profiler_opr_footprint"],
)
def test_columns_with_missing_and_invalid_values_are_restored_exactly(name: str) -> None:
    columns = parse(bad_profile(name))
    assert_same(round_trip(columns), columns)


def test_texts_with_nul_and_unicode_are_restored_exactly() -> None:
    names = {"1": "卷积\x00", "2": "", "3": "\x00"}
    profile = make_profile({"1": 0.5, "2": 0.5, "3": float("nan")}, names=names)
    columns = parse(to_json(profile))
    assert columns.names == tuple(names.values())
    assert_same(round_trip(columns), columns)


def test_a_damaged_file_raises_a_documented_error() -> None:
    """A changed byte in the metadata raises one of `DAMAGE`, which fuzzing has shown."""
    data = save({"a": np.arange(3), "b": np.array([b"x"])})
    for position in range(len(data)):
        for change in (1, 2, 32, 255):
            changed = bytearray(data)
            changed[position] ^= change
            with (
                contextlib.suppress(*DAMAGE),
                np.load(io.BytesIO(changed), allow_pickle=False) as file,
            ):
                unpack_columns({name: file[name] for name in file.files})


def test_arrays_of_a_restored_profile_are_read_only():
    data = from_archive(to_archive(profile_of("lstm", 2)))
    for array in (data.on_gpu, data.columns.types.codes, data.graph.operators.row):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_the_graph_is_loaded_only_on_access():
    with np.load(io.BytesIO(to_archive(profile_of("lstm")))) as file:
        arrays = {name: file[name] for name in file.files if not name.startswith("graph.")}
    out = io.BytesIO()
    np.savez(out, **arrays)
    data = from_archive(out.getvalue())
    assert len(data.columns) == len(parse(good_profile("lstm")))
    with pytest.raises(KeyError):
        data.graph  # noqa: B018 the access loads the graph


def test_an_archive_is_smaller_than_its_profile_and_its_memory():
    archive = to_archive(profile_of("resnet18"))
    assert len(archive) * 5 < len(good_profile("resnet18"))
    assert len(archive) < weight_bytes(archive) < 1 << 20


def edited_archive(**changes) -> bytes:
    """Return an archive with other arrays; None removes an array."""
    with np.load(io.BytesIO(to_archive(profile_of("lstm")))) as file:
        arrays = dict(file) | {name.replace("__", "."): array for name, array in changes.items()}
    out = io.BytesIO()
    np.savez(out, **{name: array for name, array in arrays.items() if array is not None})
    return out.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda: b"",
        lambda: b"PK\x03\x04",
        lambda: b"\x80\x04N.",
        lambda: to_archive(profile_of("lstm"))[:-40],
        lambda: edited_archive(columns__memory__values=None),
        lambda: edited_archive(columns__memory__values=np.zeros(2)),
        lambda: edited_archive(columns__names__utf8=np.array([255, 254, 253], dtype=np.uint8)),
        lambda: edited_archive(columns__ids__ends=np.array([object()])),
    ],
)
def test_a_damaged_archive_is_refused_with_a_code(damage):
    with pytest.raises(ProfileFormatError) as caught:
        from_archive(damage())
    assert caught.value.code == "bad_columns"


def test_an_archive_of_another_version_is_refused():
    with pytest.raises(ProfileFormatError, match="version is 999"):
        from_archive(edited_archive(version=np.array(999)))
