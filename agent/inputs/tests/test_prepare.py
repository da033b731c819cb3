"""Preparation of valid inputs, and their comparison with the inputs of the model."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agent.inputs.prepare import PreparedInputs, RandomSource, Source, prepare_inputs
from agent.inputs.tests.make import expect_error, load_prepared, prepare_one, save_npy
from agent.protocol.inputs import InputError
from agent.protocol.measurement import Note
from agent.protocol.run_log import TensorInfo

MODEL = (TensorInfo("INPUT", "data", (2, 3), "float32"), TensorInfo("INPUT", "ids", (4,), "int32"))


def raw_npy(path: Path, header: str, body: bytes = b"") -> Path:
    text = header.encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body)
    return path


@pytest.mark.parametrize("dtype", [">f4", ">i4", ">u2", "<f4", "|u1", "|i1", "<i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_all_orders_become_little_endian_c_order(dtype: str, order: str, tmp_path: Path) -> None:
    array = np.asarray(np.arange(24).reshape(2, 3, 4), dtype=dtype, order=order)
    source = save_npy(tmp_path, "a.npy", array)
    result = prepare_one(tmp_path, source)
    assert np.array_equal(result, array) and result.dtype == np.dtype(dtype).newbyteorder("<")
    content = next((tmp_path / "out").iterdir()).read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00" and b"'>" not in content[:128]
    # readers other than numpy expect the body in C order after a header of 64 x n bytes
    native = array.astype(array.dtype.newbyteorder("<"))
    assert content[128:] == native.tobytes(order="C")


def test_a_large_array_is_converted_in_parts(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(3_000_000, dtype=">i4").reshape(3, 1000, 1000))
    assert np.array_equal(prepare_one(tmp_path, save_npy(tmp_path, "a.npy", array)), array)


def test_a_canonical_file_is_not_copied(tmp_path: Path) -> None:
    source = save_npy(tmp_path, "a.npy", np.zeros((2, 3), np.float32))
    prepare_one(tmp_path, source)
    assert (tmp_path / "out" / "input_0.npy").samefile(source)


def test_a_file_of_format_2_becomes_format_1(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, np.arange(6, dtype=np.int32), version=(2, 0))
    prepare_one(tmp_path, tmp_path / "a.npy")
    assert (tmp_path / "out" / "input_0.npy").read_bytes()[6:8] == b"\x01\x00"


@pytest.mark.parametrize("dtype", ["f2", "i8", "u4", "?"])
def test_some_types_are_rejected_for_binaries_only(dtype: str, tmp_path: Path) -> None:
    source = save_npy(tmp_path, "a.npy", np.ones(3, dtype))
    error = expect_error(tmp_path, source)
    assert error.code == "dtype" and "compiled load_and_run" in error.text
    assert prepare_one(tmp_path, source, kind="wheel").dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", ["f8", "u8", "c8"])
def test_types_that_megengine_lacks_are_rejected(dtype: str, tmp_path: Path) -> None:
    source = save_npy(tmp_path, "a.npy", np.ones(3, dtype))
    assert (
        expect_error(tmp_path, source).code
        == expect_error(tmp_path, source, kind="wheel").code
        == "dtype"
    )


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999), }", "size"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "header"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }", "header"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", "header"),
        ("{'descr': '<f4', 'shape': (1,), }", "header"),
        ("{'descr': '|V8', 'fortran_order': False, 'shape': (1,), }", "dtype"),
        ("{'descr': 'no', 'fortran_order': False, 'shape': (1,), }", "header"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': [1], }", "header"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,), }", "header"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "dtype"),
        ("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "dtype"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "axes"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }", "axes"),
        ("{}", "header"),
        ("[" * 900 + "]" * 900, "header"),
        ("{'descr': '<f4,<f4', 'fortran_order': False, 'shape': (1,), }", "dtype"),
        ("{'descr': '3<f4', 'fortran_order': False, 'shape': (1,), }", "dtype"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1), }", "axes"),
        ("__import__('os').system('true')", "header"),
        ("(" * 5000, "header"),
        ("-" * 5000 + "1", "header"),
    ],
)
def test_an_invalid_header_is_rejected(header: str, code: str, tmp_path: Path) -> None:
    assert expect_error(tmp_path, raw_npy(tmp_path / "a.npy", header, b"\0" * 4)).code == code


def test_errors_for_missing_files_and_folders_contain_no_path(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    for name in ("none.npy", "folder.npy", "none.json", "none.ppm"):
        error = expect_error(tmp_path, tmp_path / name)
        assert error.code == "unreadable" and str(tmp_path) not in error.text


# random


def test_random_numbers_depend_only_on_the_seed_and_the_name(tmp_path: Path) -> None:
    result = prepare_one(tmp_path, RandomSource((2, 3), "float32", seed=7))
    assert np.array_equal(result, prepare_one(tmp_path, RandomSource((2, 3), "float32", seed=7)))
    assert not np.array_equal(
        result, prepare_one(tmp_path, RandomSource((2, 3), "float32", seed=8))
    )
    # benchmarks must be repeatable after an update of numpy
    assert [f"{value:.6f}" for value in result.ravel()[:3]] == ["0.610170", "0.881136", "0.796578"]
    sources = [(name, RandomSource((2, 3), "float32", seed=7)) for name in ("data", "other")]
    prepared = prepare_inputs(sources, None, tmp_path, kind="binary")
    assert np.array_equal(load_prepared(prepared, tmp_path), result)
    assert not np.array_equal(load_prepared(prepared, tmp_path, "other"), result)


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [
        ("float32", 0, 1),
        ("float16", 0, 1),
        ("int32", 0, 1),
        ("int64", 0, 1),
        ("int8", 0, 1),
        ("uint16", 0, 1),
        ("uint8", 0, 255),
        ("bool", 0, 1),
    ],
)
def test_random_numbers_cover_their_range(
    dtype: str, lowest: int, highest: int, tmp_path: Path
) -> None:
    result = prepare_one(tmp_path, RandomSource((50_000,), dtype), kind="wheel")
    assert result.dtype == dtype
    if dtype.startswith("float"):
        assert result.min() >= 0 and result.max() < 1 and 0.49 < result.astype("f8").mean() < 0.51
    else:
        assert (result.min(), result.max()) == (lowest, highest)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (RandomSource(), "shape"),
        (RandomSource((2,)), "shape"),
        (RandomSource((), "float32"), "axes"),
        (RandomSource((0,), "float32"), "axes"),
        (RandomSource((2,), "float64"), "shape"),
        (RandomSource((2,), "qint8"), "shape"),
        (RandomSource((2,), "float16"), "dtype"),
        (RandomSource((1 << 40,), "float32"), "too_large"),
    ],
)
def test_invalid_random_inputs_are_rejected(
    source: RandomSource, code: str, tmp_path: Path
) -> None:
    assert expect_error(tmp_path, source).code == code


def test_a_full_disk_is_not_reported_as_an_input_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    with pytest.raises(OSError, match="No space left"):
        prepare_one(tmp_path, RandomSource((2000,), "float32"))


def test_a_file_that_is_used_as_it_is_needs_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = save_npy(tmp_path, "a.npy", np.zeros(2000, np.float32))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    assert prepare_one(tmp_path, source).shape == (2000,)


# batches


@pytest.mark.parametrize(
    ("batch", "rows"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 0]), (5, [0, 1, 0, 1, 0])]
)
def test_a_batch_size_repeats_or_cuts_the_input(
    batch: int, rows: list[int], tmp_path: Path
) -> None:
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    source = save_npy(tmp_path, "a.npy", array)
    assert np.array_equal(prepare_one(tmp_path, source, batch=batch), array[rows])
    assert np.array_equal(prepare_one(tmp_path, source, batch=batch, kind="wheel"), array[rows])


def test_a_batch_size_applies_to_random_numbers(tmp_path: Path) -> None:
    assert prepare_one(tmp_path, RandomSource((2, 3), "float32"), batch=7).shape == (7, 3)


def test_a_batch_size_above_the_free_space_is_rejected(tmp_path: Path) -> None:
    source = save_npy(tmp_path, "a.npy", np.zeros((1, 1000), np.float32))
    assert expect_error(tmp_path, source, batch=10_000_000).code == "too_large"


# the model


def prepare(folder: Path, sources: list[tuple[str, Source]], **options: object) -> PreparedInputs:
    options = {"kind": "wheel"} | options
    return prepare_inputs(sources, MODEL, folder, **options)


def test_missing_inputs_are_noted_or_filled(tmp_path: Path) -> None:
    data = ("data", "[1.0,2,3]")
    prepared = prepare(tmp_path, [data])
    assert list(prepared.files) == ["data"]
    assert prepared.notes == [
        Note.of("input_shape", name="data", shape="{1,3}", expected="{2,3}"),
        Note.of("input_missing", name="ids", type="int32 {4}"),
    ]

    filled = prepare(tmp_path, [data], fill_seed=1)
    assert list(filled.files) == ["data", "ids"]
    assert load_prepared(filled, tmp_path, "ids").shape == (4,)
    assert filled.notes[-1] == Note.of("input_random", name="ids", type="int32 {4}")


@pytest.mark.parametrize(("shape", "dtype"), [((), "float32"), ((2,), "float16")])
def test_an_input_that_cannot_be_filled_is_named(
    shape: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    expected = [TensorInfo("INPUT", "scale", shape, dtype)]
    with pytest.raises(InputError) as caught:
        prepare_inputs([], expected, tmp_path, kind="binary", fill_seed=1)
    # the server's text has a place for the name
    assert caught.value.note().values["name"] == "scale"


def test_a_requested_batch_size_causes_no_note(tmp_path: Path) -> None:
    sources = [("data", RandomSource()), ("ids", RandomSource((4, 1), "int32"))]
    (note,) = prepare(tmp_path, sources, batch=9).notes
    assert note == Note.of("input_shape", name="ids", shape="{9,1}", expected="{4}")


def test_an_unknown_input_is_rejected_with_the_inputs_of_the_model(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        prepare(tmp_path, [("dta", "1")])
    assert caught.value.code == "unknown_input"
    assert "data float32 {2,3}, ids int32 {4}" in caught.value.text


def test_a_wrong_type_is_rejected_with_both_types(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"int32 \{1\}, but the model expects float32 \{2,3\}"):
        prepare(tmp_path, [("data", "1")])


def test_an_input_whose_type_is_unknown_is_not_checked(tmp_path: Path) -> None:
    expected = [TensorInfo("INPUT", "x", (2,), "")]
    spec = ("x", save_npy(tmp_path, "a.npy", np.zeros(2, np.float16)))
    assert prepare_inputs([spec], expected, tmp_path, kind="wheel").notes == []
    with pytest.raises(InputError, match="does not report the types float16 and int64"):
        prepare_inputs([], expected, tmp_path, kind="binary", fill_seed=1)


def test_a_repeated_input_is_rejected(tmp_path: Path) -> None:
    twice = [("data", "1.0")] * 2
    with pytest.raises(InputError, match="given twice"):
        prepare(tmp_path, twice)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a:b", "a;b", "a\nb", "x" * 201])
def test_a_name_that_load_and_run_would_split_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        prepare_inputs([(name, "1")], None, tmp_path, kind="binary")
    assert caught.value.code == "name" and "\n" not in caught.value.text


@pytest.mark.parametrize("name", ["a:b", "a;b"])
def test_the_wheel_takes_a_name_that_load_and_run_would_split(name: str, tmp_path: Path) -> None:
    expected = [TensorInfo("INPUT", name, (1,), "int32")]
    given = prepare_inputs([(name, "1")], expected, tmp_path, kind="wheel")
    filled = prepare_inputs([], expected, tmp_path, kind="wheel", fill_seed=0)
    assert given.files.keys() == filled.files.keys() == {name}
    with pytest.raises(InputError, match="a compiled load_and_run splits names"):
        prepare_inputs([], expected, tmp_path, kind="binary", fill_seed=0)


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "input_0.npy").write_text("mine")
    prepared = prepare_inputs([("a", "1")], None, tmp_path, kind="binary")
    assert prepared.files == {"a": "input_1.npy"}
    assert (tmp_path / "input_0.npy").read_text() == "mine"


def test_nan_and_infinity_cause_a_note_for_binaries(tmp_path: Path) -> None:
    source = save_npy(tmp_path, "a.npy", np.float32([1, np.nan, -np.inf]))
    (tmp_path / "out").mkdir()
    prepared = prepare_inputs([("a", source)], None, tmp_path / "out", kind="binary")
    assert prepared.notes == [Note.of("input_not_finite", name="a", count=2, size=3)]


@pytest.mark.exhaustive
def test_a_large_file_is_not_read_into_memory(tmp_path: Path) -> None:
    code = f"""
import resource
from pathlib import Path
import numpy as np
from agent.inputs.prepare import prepare_inputs
array = np.lib.format.open_memmap("{tmp_path}/a.npy", "w+", ">f4", (4, 1 << 24), fortran_order=True)
del array
held = int(next(line for line in open("/proc/self/status") if "VmData" in line).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_DATA, (held + (64 << 20),) * 2)  # the array has 256 MiB
spec = ("x", Path("{tmp_path}/a.npy"))
prepare_inputs([spec], None, Path("{tmp_path}"), kind="binary")
"""
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "input_0.npy").stat().st_size == 128 + (4 << 26)
