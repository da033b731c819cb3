"""Checks of model files before the library loads them."""

import struct

import pytest
from load_and_run.errors import ModelError
from load_and_run.files import check_model

V2 = struct.pack("<I", 28) + b"\x1c\0\0\0mgv2" + bytes(20)


@pytest.mark.parametrize(
    "content",
    [V2, V2 + b"more", b"MGBC" + bytes(30), b"mgb0001 " + bytes(30), b"packed_model" + bytes(9)],
)
def test_possible_model_files_pass(content, tmp_path):
    path = tmp_path / "m.mge"
    path.write_bytes(content)
    check_model(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty (0 bytes)"),
        (V2[:16], "is truncated: it has 16 of 32 bytes"),
        (V2[:-1], "is truncated: it has 31 of 32 bytes"),
        (b"MGBC", "is truncated: it has only 4 bytes"),
        (b"\x89PNG\r\n", "looks like a PNG picture"),
        (b"PK\x03\x04", "looks like a zip archive"),
        (b"\x80\x04\x95", "looks like a Python pickle"),
        (b"\x01\x02 whatever this is", "begins with the bytes 01 02 20"),
        (b"mgbtest0\x01\0\0\0" + V2[:-1], "is truncated: it has 31 of 32 bytes"),
        (b"mgbtest0\x01\0\0\0" + V2 + b"y:expect", "compares its outputs with the values"),
    ],
)
def test_the_error_names_the_kind_of_an_invalid_file(content, message, tmp_path):
    path = tmp_path / "m.mge"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        check_model(str(path))
    assert message in str(caught.value)


def test_a_missing_model_or_a_folder_is_rejected(tmp_path):
    with pytest.raises(ModelError, match="No such file"):
        check_model(str(tmp_path / "none.mge"))
    with pytest.raises(ModelError, match="is not a file"):
        check_model(str(tmp_path))
