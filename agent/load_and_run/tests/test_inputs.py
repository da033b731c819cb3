"""--input: the grammar, and whether the model can take what was given."""

import json
from pathlib import Path

import numpy as np
import pytest
from load_and_run.errors import InputError
from load_and_run.inputs import Wanted, match, not_finite, parse_input

FLOAT = np.dtype("float32")


def values(text: str) -> np.ndarray:
    (given,) = parse_input(text)
    array = given.read(FLOAT)
    assert array.shape == given.shape
    return array


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("5", (1,), "int32"),
        ("1,2,3", (3,), "int32"),
        ("1,2.5,3", (3,), "float32"),
        ("[1,2,3]", (1, 3), "int32"),
        ("[[1,2,3],[4,5,6]]", (1, 2, 3), "int32"),
        (" [ 1.0 , -2e-3 ] ", (1, 2), "float32"),
        ("1e2", (1,), "int32"),
        ("007", (1,), "int32"),
    ],
)
def test_literals_have_load_and_runs_shapes_and_types(
    text: str, shape: tuple[int, ...], dtype: str
) -> None:
    array = values(f"x:{text}")
    assert (array.shape, array.dtype.name) == (shape, dtype)


def test_literals_keep_their_order() -> None:
    assert values("[[1,2],[3,4]]").ravel().tolist() == [1, 2, 3, 4]
    assert values("1e2,007,-3").tolist() == [100, 7, -3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:1.", "nor numbers"),
        ("x:.5", "nor numbers"),
        ("x:nan", "nor numbers"),
        ("x:file.npz", "nor numbers"),
        ("x:[1,[2]]", "different lengths"),
        ("x:[[1,2],[3]]", "different lengths"),
        ("x:[1,2", "not well formed"),
        ("x:1,,2", "not well formed"),
        ("x:[]", "holds no numbers"),
        ("x:[[[[[[[1]]]]]]]", "brackets deep"),
        ("x:" + "[" * 100_000, "brackets deep"),
        ("x:1e-1", "not whole"),
        ("x:3000000000", "out of the range of int32"),
        ("x:1e999", "out of the range of int32"),
        ("x:" + "9" * 400, "too large"),
        ("x:{2,a}", "is no shape"),
        ("x:{}", "is no shape"),
        ("x:{2,0}", "holds no numbers"),
        ("x:{99999999,99999999}", "too large"),
        ("x:", "empty item"),
        ("x:1;", "empty item"),
        ("x:no_such.ppm", "failed to open"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_cause(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_input(text)
    assert message in str(caught.value)


def test_an_item_is_split_at_the_first_colon_and_unnamed_means_data() -> None:
    assert [(item.name, item.shape) for item in parse_input("{2};a:{3}")] == [
        ("data", (2,)),
        ("a", (3,)),
    ]
    assert parse_input("") == []


def test_a_shape_takes_the_models_type_and_fills_every_byte_with_1() -> None:
    (given,) = parse_input("x:{2, 3}")
    assert given.dtype is None
    assert given.read(np.dtype("int32")).tolist() == [[0x01010101] * 3] * 2


def test_several_npy_files(tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        np.save(tmp_path / f"{name}.npy", np.full((2, 2), number, np.float32))
    given = parse_input(f"x:{tmp_path}/a.npy;y:{tmp_path}/b.npy")
    assert [item.name for item in given] == ["x", "y"]
    assert [item.read(FLOAT)[0, 0] for item in given] == [1, 2]


def write_json(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def test_json_names_its_inputs_itself(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "a.json",
        {
            "x": {"shape": [1, 2], "type": "float32", "raw": [1, 2.5]},
            "y": {"shape": [2], "type": "uint8", "raw": [0, 255]},
        },
    )
    given = parse_input("ignored:" + path)
    assert [(item.name, item.dtype, item.shape) for item in given] == [
        ("x", "float32", (1, 2)),
        ("y", "uint8", (2,)),
    ]
    assert given[1].read(FLOAT).tolist() == [0, 255]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must be an object"),
        ({}, "must be an object"),
        ({"x": 1}, "must have shape, type and raw"),
        ({"x": {"shape": [2], "type": "int8", "raw": [1]}}, "takes 2 numbers, raw has 1"),
        ({"x": {"shape": [1], "type": "int8", "raw": [300]}}, "out of the range of int8"),
        ({"x": {"shape": [1], "type": "float64", "raw": [1]}}, "has a type other than"),
        ({"x": {"shape": [1], "type": ["int8"], "raw": [1]}}, "has a type other than"),
        ({"x": {"shape": [True], "type": "int8", "raw": [1]}}, "positive integers"),
        ({"x": {"shape": [1], "type": "int8", "raw": "1"}}, "flat list"),
        ({"x": {"shape": [1], "type": "int8", "raw": [[1]]}}, "other than numbers"),
        ({"x": {"shape": [1], "type": "int8", "raw": [True]}}, "other than numbers"),
        ({"x": {"shape": [1], "type": "float", "raw": [float("nan")]}}, "not valid JSON"),
    ],
)
def test_bad_json_is_refused(content: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        parse_input(write_json(tmp_path / "a.json", content))
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 200_000])
def test_broken_json_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not valid JSON"):
        parse_input(str(path))


MODEL = [Wanted("data", "float32", [2, 3]), Wanted("mask", "float32", [2, 1])]


def test_what_fits_gives_no_warning() -> None:
    pairs, warnings = match(parse_input("mask:{2,1};data:{2,3}"), MODEL)
    assert [want.name for _, want in pairs] == ["mask", "data"]
    assert warnings == []


def test_an_unknown_name_is_answered_with_what_the_model_wants() -> None:
    with pytest.raises(InputError) as caught:
        match(parse_input("image:{2,3}"), MODEL)
    assert str(caught.value) == (
        'input "image" is not an input of the model; '
        "its inputs are: data float32 {2,3}, mask float32 {2,1}"
    )
    with pytest.raises(InputError, match="the model has no inputs"):
        match(parse_input("image:{2,3}"), [])


def test_another_type_is_refused_and_both_are_named() -> None:
    with pytest.raises(InputError) as caught:
        match(parse_input("data:[[1,2,3],[4,5,6]]"), MODEL)
    assert str(caught.value) == (
        'input "data" is given as int32 {1,2,3}, but the model wants float32 {2,3}'
    )


def test_another_shape_a_missing_and_a_repeated_input_are_warned_of() -> None:
    pairs, warnings = match(parse_input("data:{4,3};data:{1}"), MODEL)
    assert [given.shape for given, _ in pairs] == [(4, 3)]
    assert warnings == [
        'input "data" is {4,3}, the model was made for {2,3}',
        'input "data" is given twice; the first counts',
        'input "mask" (float32 {2,1}) is not given: the run takes what its memory holds',
    ]


def test_not_finite_numbers_are_counted() -> None:
    assert not_finite(np.array([1, np.nan, np.inf, -np.inf], np.float32)) == (1, 2)
    assert not_finite(np.array([1, 2], np.int32)) == (0, 0)
