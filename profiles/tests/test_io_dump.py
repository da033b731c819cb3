"""Comparison of the values of all variables of two runs."""

import contextlib
import io
import json
import struct
import subprocess
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from profiles.analysis.io_dump import BLOCK, compare, index_of, makers
from profiles.formats.errors import ProfileFormatError
from profiles.formats.tensor_dump import DumpError, _names, open_folder, open_zip
from profiles.tests.dumps import make_files, tensor_bytes, write_folder, zip_bytes

ROOT = Path(__file__).parents[2]
ONES = np.ones((2, 3), np.float32)


def dump(arrays):
    return open_zip(io.BytesIO(zip_bytes(make_files(arrays))))


def compare_arrays(a, b, **more):
    return list(compare(dump(a), dump(b), **more))


def set_value(array, index, value):
    copy = array.copy()
    copy[index] = value
    return copy


def test_a_folder_equals_a_zip_of_its_files(tmp_path):
    files = make_files({(1, "x"): ONES, (0x1F, "y"): ONES})
    folder = open_folder(write_folder(tmp_path / "a", files))
    rows = list(compare(folder, open_zip(io.BytesIO(zip_bytes(files)))))
    assert [(row.status, row.one.id, row.one.name) for row in rows] == [
        ("equal", 1, "x"),
        ("equal", 0x1F, "y"),
    ]


def test_a_difference_has_its_errors_and_first_index():
    other = set_value(set_value(ONES, (0, 2), 1.5), (1, 1), 3.0)
    (row,) = compare_arrays({(1, "x"): ONES}, {(1, "x"): other})
    assert (row.status, row.differing, row.numbers) == ("values", 2, 6)
    assert (row.max_abs, row.max_rel) == (2.0, pytest.approx(2 / 3))
    assert index_of(row.first, row.one.shape) == (0, 2)


def test_small_errors_are_close():
    arrays = {(1, "x"): ONES}, {(1, "x"): set_value(ONES, (0, 0), 1.0005)}
    (row,) = compare_arrays(*arrays)
    assert (row.status, row.differs, row.differing) == ("close", False, 1)
    (row,) = compare_arrays(*arrays, max_error=1e-4)
    assert row.status == "values"


def test_nan_equals_nan_and_differs_from_a_number():
    nan = set_value(ONES, (1, 0), np.nan)
    (row,) = compare_arrays({(1, "x"): nan}, {(1, "x"): nan})
    assert (row.status, row.nan_a, row.nan_b) == ("equal", 1, 1)
    (row,) = compare_arrays({(1, "x"): nan}, {(1, "x"): ONES})
    assert (row.status, row.nan_a, row.nan_b, row.first, row.max_abs) == ("values", 1, 0, 3, 0.0)
    inf = set_value(ONES, (0, 0), np.inf)
    (row,) = compare_arrays({(1, "x"): inf}, {(1, "x"): -inf}, max_error=10.0)
    assert row.status == "values"


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float16"])
def test_integers_are_compared_without_overflow(dtype):
    low, high = np.zeros(3, dtype), np.full(3, 120, dtype)
    (row,) = compare_arrays({(1, "x"): low}, {(1, "x"): high})
    assert (row.status, row.max_abs) == ("values", 120.0)


def test_quantized_and_unknown_dtypes_are_read_by_their_width():
    array = np.arange(4, dtype=np.uint8)
    for code, name in ((100000, "Quantized8Asymm"), (100003, "dtype 100003"), (8, "Byte")):
        files = {"000001": tensor_bytes(array, 1, "x", code=code)}
        (row,) = compare(*(open_zip(io.BytesIO(zip_bytes(files))) for _ in "ab"))
        assert (row.status, row.one.dtype, row.numbers) == ("equal", name, 4)


def compare_numbers(a, b, code):
    files = ({"000001": tensor_bytes(array, 1, "x", code=code)} for array in (a, b))
    (row,) = compare(*(open_zip(io.BytesIO(zip_bytes(file))) for file in files))
    return row


def test_bfloat16_is_compared_by_its_values():
    def bfloat16(*values):
        return (np.array(values, "<f4").view("<u4") >> 16).astype("<u2")

    one, other = bfloat16(1, 2, 3, np.nan), bfloat16(1.0625, 2.125, 3, np.nan)
    row = compare_numbers(one, other, 11)
    assert (row.status, row.one.dtype, row.differing, row.nan_a) == ("values", "BFloat16", 2, 1)
    assert (row.max_abs, row.max_rel) == (0.125, pytest.approx(0.0625 / 1.0625))


@pytest.mark.parametrize("dtype", ["u1", "<u2", "<u4", "<u8"])
def test_unknown_dtypes_have_no_tolerance(dtype):
    one = np.array([2 ** (8 * np.dtype(dtype).itemsize) - 2], dtype)
    assert compare_numbers(one, one, 12345).status == "equal"
    assert compare_numbers(one, one + one.dtype.type(1), 12345).status == "values"


def test_shapes_dtypes_and_missing_variables_have_their_own_status():
    a = {(1, "x"): ONES, (2, "y"): ONES, (3, "z"): ONES}
    b = {(1, "x"): ONES.T.copy(), (2, "y"): ONES.astype(np.int32), (4, "w"): ONES}
    assert [(row.status, row.one.name) for row in compare_arrays(a, b)] == [
        ("shape", "x"),
        ("dtype", "y"),
        ("only_a", "z"),
        ("only_b", "w"),
    ]


def test_variables_are_matched_by_unique_name_or_by_id():
    a = {(1, "conv"): ONES, (3, "RELU"): ONES, (5, "RELU"): 2 * ONES}
    b = {(11, "conv"): ONES, (3, "RELU"): ONES, (5, "RELU"): 2 * ONES}
    assert {(row.a.id, row.b.id, row.status) for row in compare_arrays(a, b)} == {
        (1, 11, "equal"),
        (3, 3, "equal"),
        (5, 5, "equal"),
    }


def profile(steps: dict[str, int], order: list[str]) -> bytes:
    operator = {
        key: {"name": f"op{key}", "type": "Elemwise", "output": [str(variable)]}
        for key, variable in steps.items()
    }
    return json.dumps({"graph_exec": {"comp_seq": order, "operator": operator}}).encode()


def test_rows_follow_the_order_of_execution():
    arrays = {(1, "a"): ONES, (3, "b"): ONES, (5, "c"): ONES, (9, "d"): ONES}
    order = makers(profile({"0": 1, "2": 3, "4": 5}, ["4", "0", "2"]))
    rows = compare_arrays(arrays, arrays, order=order)
    assert [(row.one.name, row.step) for row in rows] == [
        ("c", 0),
        ("a", 1),
        ("b", 2),
        ("d", None),
    ]
    assert (rows[0].operator, rows[3].operator) == ("op4", "op[7]")


def test_a_variable_of_b_does_not_take_the_place_of_one_of_a_with_its_id():
    a = {(1, "in"): ONES, (3, "out"): ONES, (5, "end"): ONES}
    b = {(11, "in"): ONES, (1, "new"): ONES, (3, "out"): 2 * ONES, (5, "end"): ONES}
    order = makers(profile({"0": 1, "2": 3}, ["0", "2"]))
    rows = compare_arrays(a, b, order=order)
    assert [(row.one.name, row.step, row.operator) for row in rows] == [
        ("in", 0, "op0"),
        ("out", 1, "op2"),
        ("end", None, "op[7]"),
        ("new", None, "op[7]"),
    ]
    first = next(row for row in rows if row.differs)
    assert (first.one.name, first.status) == ("out", "values")


def test_steps_have_no_gaps():
    order = makers(profile({"0": 1, "2": 3}, ["7", "0", "0", "2"]))
    assert [order[variable].step for variable in (1, 3)] == [0, 1]


@pytest.mark.parametrize("data", [b"", b"{}", b"[" * 100_000, profile({"0": 1}, [1])])
def test_an_unreadable_profile_is_refused(data):
    with pytest.raises(ProfileFormatError):
        makers(data)


def test_index_of_equals_unravel_index():
    shape = (2, 3, 4)
    assert all(index_of(n, shape) == np.unravel_index(n, shape) for n in range(24))
    assert index_of(7, ()) == (7,)


def test_large_tensors_are_compared_in_blocks():
    big = np.zeros(8 * BLOCK, np.float32)
    data = zip_bytes(make_files({(1, "x"): big}))
    other = zip_bytes(make_files({(1, "x"): set_value(big, -1, 1.0)}))
    tracemalloc.start()
    (row,) = compare(open_zip(io.BytesIO(data)), open_zip(io.BytesIO(other)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (row.differing, row.first) == (1, big.size - 1)
    assert peak < big.nbytes


GOOD = make_files({(1, "x"): ONES})["000001"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        GOOD[:20],
        GOOD[:-1],
        GOOD + b"x",
        struct.pack("<3I", 2**32 - 1, 0, 7) + bytes(100),
        struct.pack("<3I", 4, 0, 2**31) + bytes(100),
        struct.pack("<10I", 4, 0, 7, *[2**32 - 1] * 7) + b"name",
    ],
)
def test_a_damaged_file_is_refused(tmp_path, data):
    folder = open_folder(write_folder(tmp_path / "a", {"000001": data}))
    with pytest.raises(DumpError) as caught:
        list(compare(folder, folder))
    assert "000001" in str(caught.value)


def archive(write) -> io.BytesIO:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about duplicate names
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zip_file:
            write(zip_file)
    return file


def corrupt(data: bytes) -> bytes:
    position = data.index(b"000001") + 40
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["../../etc/passwd"], "empty"),
        ([f"{n:06x}.txt" for n in range(20_001)], "too_many"),
        (["000001", "d/000001"], "twice"),
    ],
    ids=["path", "many", "twice"],
)
def test_a_zip_that_is_not_a_dump_is_refused(names, code):
    with pytest.raises(DumpError) as caught:
        open_zip(archive(lambda z: [z.writestr(name, "") for name in names]))
    assert caught.value.code == code


def test_a_file_that_is_no_zip_is_refused():
    with pytest.raises(DumpError) as caught:
        open_zip(io.BytesIO(b"no zip"))
    assert caught.value.code == "not_zip"


def test_a_zip_that_unpacks_to_too_much_is_refused():
    file = archive(lambda z: z.writestr("000001", bytes(10 << 20)))
    with pytest.raises(DumpError, match="bytes"):
        open_zip(file, most_bytes=1 << 20)


def test_a_damaged_file_inside_a_zip_is_refused():
    file = io.BytesIO(corrupt(zip_bytes({"000001": GOOD})))
    with pytest.raises(DumpError, match="000001"):
        list(compare(open_zip(file), open_zip(file)))


def test_flipped_bits_in_a_zip_raise_no_other_error():
    """zipfile raises many kinds of errors after a single bit is flipped, as fuzzing has shown."""
    data = zip_bytes({"000001": GOOD})
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with contextlib.suppress(DumpError):
                dump = open_zip(io.BytesIO(flipped))
                for header in dump.headers().values():
                    list(dump.blocks(header, 4096))


def test_symbolic_links_in_a_folder_are_ignored(tmp_path):
    folder = write_folder(tmp_path / "a", {"000001": GOOD})
    (folder / "000002").symlink_to("/etc/hostname")
    assert set(open_folder(folder).sizes) == {"000001"}


def run_and_dump(python: str, data: Path, inputs: Path, out: Path) -> None:
    """Run a real model with load_and_run of the wheel; write a dump and a profile."""
    out.mkdir()
    input_option = ";".join(f"{path.stem}:{path}" for path in sorted(inputs.glob("*.npy")))
    subprocess.run(
        [python, ROOT / "agent" / "load_and_run", data / "models" / "two_inputs.mge", "--iter=1",
         f"--input={input_option}", f"--bin_io_dump={out}", f"--profile={out}.json"],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


@pytest.mark.exhaustive
def test_the_comparison_of_real_dumps_equals_that_of_megengine(
    testdata, megengine_python, tmp_path
):
    original = testdata / "inputs" / "two_inputs"
    other = tmp_path / "inputs"
    other.mkdir()
    np.save(other / "mask.npy", np.load(original / "mask.npy"))
    np.save(other / "data.npy", np.load(original / "data.npy") * np.float32(1.01))
    for name, inputs in (("a", original), ("b", original), ("c", other)):
        run_and_dump(megengine_python, testdata, inputs, tmp_path / name)
    order = makers((tmp_path / "a.json").read_bytes())
    a, b, c = (open_folder(tmp_path / name) for name in "abc")
    rows = list(compare(a, b, order=order))
    assert len(rows) > 10
    assert {row.status for row in rows} == {"equal"}
    rows = list(compare(a, c, order=order))
    assert all(row.step is not None for row in rows)
    assert [row.step for row in rows] == sorted(row.step for row in rows)
    first = next(row for row in rows if row.differs)
    assert (first.operator_type, first.one.name) == ("Host2DeviceCopy", "data")
    output = subprocess.run(
        [megengine_python, "-m", "megengine.tools.compare_binary_iodump",
         str(tmp_path / "a"), str(tmp_path / "c")],
        check=True, capture_output=True, text=True, timeout=120,
    ).stdout  # fmt: skip
    assert {row.one.file for row in rows if f"a/{row.one.file}:" in output} == {
        row.one.file for row in rows if row.differs
    }


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_differs_from_a_number_by_infinity(value):
    (row,) = compare_arrays({(1, "x"): ONES}, {(1, "x"): set_value(ONES, (0, 0), value)})
    assert (row.status, row.max_abs, row.max_rel) == ("values", np.inf, np.inf)
    (row,) = compare_arrays({(1, "x"): ONES}, {(1, "x"): set_value(ONES, (0, 0), np.nan)})
    assert (row.status, row.max_abs, row.nan_b) == ("values", 0.0, 1)


def test_the_directory_of_a_zip_with_too_many_files_is_not_read(monkeypatch):
    entries = archive(lambda z: [z.writestr(f"{n:06x}.txt", "") for n in range(1000)])
    monkeypatch.setattr("profiles.formats.tensor_dump._MOST_LIST_BYTES", 30_000)
    calls = []
    monkeypatch.setattr(zipfile.ZipInfo, "_decodeExtra", lambda *_: calls.append(1))
    with pytest.raises(DumpError) as caught:
        open_zip(entries)
    assert caught.value.code == "too_many"
    assert not calls


TEXT = "var={id:7, layout:{1(3),3(1)}, Float32, owner:%s{%s}, name:%s, slot:%s, CompNode"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (TEXT % ("conv[7]", "mgb::Convolution", "x", 3), ("x", 3, "conv[7]", "mgb::Convolution")),
        (TEXT % ("a, b", "Elemwise", "x, y", 0), ("x, y", 0, "a, b", "Elemwise")),
        (TEXT % ("a{b}, name:c", "Elemwise", "x", 0), ("c{Elemwise}, name:x", 0, "a", "b")),
        (TEXT % ("a", "no type", "x", 0), None),
        (TEXT % ("a", "Elemwise", "x, slot:y", 5), ("x, slot:y", 5, "a", "Elemwise")),
        ("var={id:7, layout:" * 90_000, None),
        ("var={id:1, owner:" + ", owner:}, name:, slot:" * 90_000, None),
        ("var={id:1, owner:" + ", owner:{a}, name:" * 90_000, None),
        ("var={id:1, layout:" + ", owner:" + "a{" * 900_000 + "}, name:, slot:", None),
    ],
)
def test_names_of_a_variable_are_parsed_in_linear_time(text, names):
    begin_s = time.process_time()
    assert _names(text) == (names or (text[:1000], 0, "", ""))
    # linear time takes 0.1 s, quadratic time takes minutes
    assert time.process_time() - begin_s < 20
