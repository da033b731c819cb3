"""npy files: what is right is read right, whatever the header says is checked."""

import struct
from pathlib import Path

import numpy as np
import pytest
from load_and_run.errors import InputError
from load_and_run.npy import LONGEST_HEADER, MAGIC, read_header, read_values


def write_npy(path: Path, header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> str:
    text = header.encode()
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    path.write_bytes(MAGIC + bytes(version) + length + text + data)
    return str(path)


def header_of(shape: str, descr: str = "'<f4'", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype="<f4").reshape(2, 3, 4),
        np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4)),
        np.arange(24, dtype=">f4").reshape(2, 3, 4),
        np.asfortranarray(np.arange(24, dtype=">i2").reshape(2, 3, 4)),
        np.arange(6, dtype="u1").reshape(1, 6),
        np.arange(6, dtype="<f2").reshape(3, 2),
    ],
    ids=lambda array: f"{array.dtype.str}{'F' if array.flags.fnc else 'C'}",
)
def test_layout_and_byte_order_do_not_change_the_numbers(array: np.ndarray, tmp_path: Path) -> None:
    path = str(tmp_path / "a.npy")
    np.save(path, array)
    header = read_header(path)
    values = read_values(path, header)
    assert header.shape == array.shape
    assert values.dtype.isnative
    assert values.flags.c_contiguous
    np.testing.assert_array_equal(values, array)


def test_version_2_is_read(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "a.npy", header_of("(2,)"), bytes(8), version=(2, 0))
    assert read_header(path).shape == (2,)


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (header_of("(2,)"), bytes(4), "is cut short: float32 {2} takes"),
        (header_of("(2,)"), bytes(12), "has 4 bytes after its array"),
        (header_of("()"), bytes(4), "has no axes"),
        (header_of("(2, 0)"), b"", "holds no numbers"),
        (header_of("(-2,)"), bytes(8), "impossible shape"),
        (header_of("(True,)"), bytes(4), "impossible shape"),
        (header_of("(2.0,)"), bytes(8), "impossible shape"),
        (header_of("[2]"), bytes(8), "unreadable header"),
        (header_of("(1,1,1,1,1,1,1,1)"), bytes(4), "8 axes; MegEngine knows at most 7"),
        (header_of("(4294967296, 4294967296, 4)"), b"", "is cut short"),
        (header_of("(2,)", fortran="1"), bytes(8), "unreadable header"),
        (header_of("(1,)", descr="'|O'"), b"\x80\x03N.", "never unpickled"),
        (header_of("(1,)", descr="[('a', '<f4')]"), bytes(4), "structured type"),
        (header_of("(1,)", descr="'<U4'"), bytes(16), "inputs are numbers"),
        (header_of("(1,)", descr="'<M8[s]'"), bytes(8), "inputs are numbers"),
        (header_of("(1,)", descr="'nonsense'"), bytes(4), "unknown type"),
        ("__import__('os').getcwd()", b"", "unreadable header"),
        ("(" * 5000, b"", "unreadable header"),
        ("[" * 900 + "]" * 900, b"", "unreadable header"),
        ("{}", b"", "unreadable header"),
    ],
)
def test_a_bad_header_is_refused(header: str, data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_header(write_npy(tmp_path / "a.npy", header, data))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"1 2 3\n", "not an npy file"),
        (b"PK\x03\x04....", "zip archive"),
        (b"\x80\x04....", "looks like a pickle"),
        (MAGIC + b"\x09\x00v\x00", "unknown npy format version 9.0"),
        (MAGIC + b"\x01\x00", "cut short in its header"),
        (MAGIC + b"\x01\x00\xff\x00{", "cut short in its header"),
        (
            MAGIC + b"\x02\x00" + struct.pack("<I", LONGEST_HEADER + 1),
            "has a header of 10001 bytes",
        ),
    ],
)
def test_a_file_that_is_no_npy_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_header(str(path))
    assert message in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_header(str(tmp_path / "none.npy"))
    with pytest.raises(InputError, match="is no file"):
        read_header(str(tmp_path))
