"""Pictures, JSON files and literals are read as load_and_run reads them."""

import json
from pathlib import Path

import numpy as np
import pytest

from agent.inputs.prepare import prepare_inputs
from agent.inputs.tests.make import expect_error, load_prepared, prepare_one
from agent.protocol.inputs.json_inputs import LONGEST_JSON
from agent.protocol.notes import Note

# pictures


@pytest.mark.parametrize(
    "header",
    [
        b"P5\n4 3\n255\n",
        b"P5\n4 3 255\n",
        b"P5 4 3 255 ",
        b"P5\n# made by hand\n4 3\n# and again\n255\n",
        b"P5 #c\n4 #w\n3#h\n255\t",
        b"P5\r\n4\v3\f255\n",
    ],
)
def test_all_valid_headers_give_the_same_pixels(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.pgm").write_bytes(header + bytes(range(12)))
    array = prepare_one(tmp_path, tmp_path / "a.pgm")
    assert array.shape == (1, 3, 4, 1) and array.dtype == np.uint8
    assert array.mean() == 5.5  # the reader of load_and_run yields 16.17 for the usual header
    assert np.array_equal(array.ravel(), np.arange(12))


def test_a_colour_picture_keeps_its_channels_last(tmp_path: Path) -> None:
    # the first pixel begins with the byte that begins a comment
    pixels = b"#" + bytes(range(1, 18))
    (tmp_path / "a.PPM").write_bytes(b"P6\n3 2\n255\n" + pixels)
    array = prepare_one(tmp_path, tmp_path / "a.PPM")
    assert array.shape == (1, 2, 3, 3) and array.tobytes() == pixels


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "format"),
        (b"P3\n1 1\n255\n1 2 3\n", "format"),
        (b"\x89PNG\r\n", "format"),
        (b"P5\n4 3\n", "header"),
        (b"P5\nx 3\n255\n", "header"),
        (b"P5\n# no end", "header"),
        (b"P5\n4 3\n65535\n" + bytes(24), "header"),
        (b"P5\n4 3\n0\n" + bytes(12), "header"),
        (b"P5\n0 3\n255\n", "axes"),
        (b"P5\n4 3\n255\n" + bytes(11), "size"),
        (b"P5\n4 3\n255\n" + bytes(13), "size"),
        (b"P5\n999999999 999999999\n255\n" + bytes(13), "size"),
        (b"P5" + b"#\n" * 100_000, "header"),
    ],
)
def test_an_invalid_picture_is_rejected(content: bytes, code: str, tmp_path: Path) -> None:
    (tmp_path / "a.pgm").write_bytes(content)
    assert expect_error(tmp_path, tmp_path / "a.pgm").code == code


# JSON


def test_a_json_file_defines_several_inputs(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps(
            {
                "x": {"shape": [2, 2], "type": "float", "raw": [1, 2.5, -3, 4e3]},
                "y": {"shape": [3], "type": "uint8", "raw": [0, 128, 255]},
                "z": {"shape": [1], "type": "float32", "raw": [-3.4028235e38]},
            }
        )
    )
    spec = ("ignored", tmp_path / "a.json")
    prepared = prepare_inputs([spec], None, tmp_path, kind="binary")
    assert list(prepared.files) == ["x", "y", "z"]
    assert np.array_equal(
        load_prepared(prepared, tmp_path, "x"), np.float32([[1, 2.5], [-3, 4000]])
    )
    array = load_prepared(prepared, tmp_path, "y")
    assert array.dtype == np.uint8 and array.tolist() == [0, 128, 255]
    # as numpy prints the smallest float32
    assert load_prepared(prepared, tmp_path, "z")[0] == np.finfo(np.float32).min


def test_the_numbers_of_a_long_json_list_keep_their_order(tmp_path: Path) -> None:
    numbers = np.arange(200_000, dtype=np.int32).reshape(2, -1)
    entry = {"shape": numbers.shape, "type": "int32", "raw": numbers.ravel().tolist()}
    (tmp_path / "a.json").write_text(json.dumps({"data": entry}))
    assert np.array_equal(prepare_one(tmp_path, tmp_path / "a.json"), numbers)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "{",
        '{"x": 1}',
        '{"x": {"shape": [1], "type": "float32"}}',
        '{"x": {"shape": [2], "type": "float32", "raw": [1]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [1, 2]}}',  # buffer overrun
        '{"x": {"shape": [1], "type": "float16", "raw": [1]}}',
        '{"x": {"shape": [1], "type": ["float32"], "raw": [1]}}',
        '{"x": {"shape": [-1], "type": "float32", "raw": []}}',
        '{"x": {"shape": [1.0], "type": "float32", "raw": [1]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [[1]]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [true]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [null]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [NaN]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [3.4028236e38]}}',
        '{"x": {"shape": [1], "type": "float32", "raw": [1e999]}}',
        '{"x": {"shape": [1], "type": "int32", "raw": [1.5]}}',
        '{"x": {"shape": [1], "type": "int8", "raw": [128]}}',
        '{"x": {"shape": [1], "type": "uint8", "raw": [-1]}}',
        '{"x": {"shape": [1], "type": "int32", "raw": [' + "9" * 400 + "]}}",
        '{"x": {"shape": [1], "type": "int32", "raw": [' + "9" * 5000 + "]}}",
        '{"x": {"shape": [1], "type": "int32", "raw": [1]}, "x": {}}',
        "[" * 100_000,
        '{"\xff": 1}',  # not UTF-8
    ],
)
def test_an_invalid_json_file_is_rejected(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(content.encode("latin-1"))
    assert expect_error(tmp_path, tmp_path / "a.json").code == "json"


def test_an_error_of_json_names_the_file_and_the_input(tmp_path: Path) -> None:
    (tmp_path / "input-3.json").write_text('{"x": {"shape": [1], "type": "int8", "raw": [128]}}')
    error = expect_error(tmp_path, tmp_path / "input-3.json")
    names = {"name": "input-3.json", "input": "x", "dtype": "int8"}
    assert error.note() == Note.of("input_json_range", **names)


@pytest.mark.parametrize(
    ("shape", "raw"), [("[]", "[1]"), ("[0]", "[]"), ("[1,1,1,1,1,1,1,1]", "[1]")]
)
def test_json_with_an_unsupported_shape_is_rejected(shape: str, raw: str, tmp_path: Path) -> None:
    content = f'{{"x": {{"shape": {shape}, "type": "int32", "raw": {raw}}}}}'
    (tmp_path / "a.json").write_text(content)
    assert expect_error(tmp_path, tmp_path / "a.json").code == "axes"


# literals


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("5", "int32", [5]),
        ("1,2,3", "int32", [1, 2, 3]),
        ("[1,2,3]", "int32", [[1, 2, 3]]),
        ("[[1,2,3],[4,5,6]]", "int32", [[[1, 2, 3], [4, 5, 6]]]),
        ("1e2", "int32", [100]),
        ("1.0,2", "float32", [1, 2]),
        ("[ -1.5 , 2e-1 ]", "float32", [[-1.5, 0.2]]),
        ("007,1e05", "int32", [7, 100000]),
        (" [ [1, 2] ,\n[3.0,4] ] ", "float32", [[[1, 2], [3, 4]]]),
        ("-1.5e-3", "float32", [-0.0015]),
        ("2147483647,-2147483648", "int32", [2**31 - 1, -(2**31)]),
        ("[[[[[[1.0]]]]]]", "float32", [[[[[[[1]]]]]]]),
        # as numpy prints the largest float32, which is a little less
        ("3.4028235e38", "float32", [np.finfo(np.float32).max]),
    ],
)
def test_a_literal_has_the_type_and_shape_of_load_and_run(
    text: str, dtype: str, values: list, tmp_path: Path
) -> None:
    array = prepare_one(tmp_path, text)
    assert array.dtype == dtype and np.array_equal(array, np.array(values, dtype))


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "a", "1.", ".5", "+1", "1,", "[1", "1]", "[[1],[1,2]]", "[1,[2]]", "1;2", "nan"),
        *("[]", "{1,3}", "3000000000", "1e-1", "1.5e400", "9" * 500, "[" * 6 + "]" * 5, "1e99999"),
        "3.4028236e38",
    ],
)
def test_an_invalid_literal_is_rejected(text: str, tmp_path: Path) -> None:
    error = expect_error(tmp_path, text)
    assert error.code == "literal" and '"data"' in error.text


def test_the_error_for_a_large_literal_contains_it_as_typed(tmp_path: Path) -> None:
    error = expect_error(tmp_path, "1,-1.50e999")
    assert "-1.50e999 is out of the range of float32" in error.text


def test_a_literal_with_too_many_axes_is_rejected(tmp_path: Path) -> None:
    assert expect_error(tmp_path, "[" * 7 + "1" + "]" * 7).code == "axes"


def test_large_json_is_rejected_in_favour_of_npy(tmp_path: Path) -> None:
    count = LONGEST_JSON // 2 + 1
    raw = "0," * (count - 1) + "0"
    content = f'{{"a": {{"shape": [{count}], "type": "int8", "raw": [{raw}]}}}}'
    (tmp_path / "a.json").write_text(content)
    error = expect_error(tmp_path, tmp_path / "a.json")
    assert error.code == "too_large"
    assert error.text == '"a.json" is larger than 8 MiB; use npy files for large inputs.'
