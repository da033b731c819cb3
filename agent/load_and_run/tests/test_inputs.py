"""--input: npy files, and their match with the inputs of the model."""

import numpy as np
import pytest
from load_and_run.errors import InputError
from load_and_run.inputs import InputEntry, TensorSpec, match, not_finite, parse_input

from agent.protocol.input_rules import escaped
from testdata import DATA


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
def test_layout_and_byte_order_do_not_change_the_numbers(array, tmp_path):
    np.save(tmp_path / "a.npy", array)
    (entry,) = parse_input(f"x:{tmp_path}/a.npy")
    values = entry.read()
    assert (entry.name, entry.shape, entry.dtype) == ("x", array.shape, array.dtype.name)
    assert values.dtype.isnative
    assert values.flags.c_contiguous
    np.testing.assert_array_equal(values, array)


def test_several_npy_files_are_parsed(tmp_path):
    for name, number in (("a", 1), ("b", 2)):
        np.save(tmp_path / f"{name}.npy", np.full((2, 2), number, np.float32))
    entries = parse_input(f"x:{tmp_path}/a.npy;y:{tmp_path}/b.npy")
    assert [item.name for item in entries] == ["x", "y"]
    assert [item.read()[0, 0] for item in entries] == [1, 2]
    assert parse_input("") == []


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("pickle_object_array", "Python objects"),
        ("truncated_body", "not an npy file of numbers"),
        ("text", "not an npy file of numbers"),
        ("version_9", "not an npy file of numbers"),
        ("header_many_axes", "not an npy file of numbers"),
        ("header_huge_shape", "not an npy file of numbers"),
        ("no_such_file", "No such file"),
    ],
)
def test_an_invalid_npy_file_is_rejected(file, message):
    with pytest.raises(InputError) as caught:
        parse_input(f"x:{DATA}/bad/inputs/{file}.npy")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["a:b", "a;b", "a\\:b;", "\\", ":", "x:y.npy;z"])
def test_a_name_may_contain_the_separators_if_it_is_escaped(name):
    path = f"{DATA}/inputs/two_inputs/data.npy"
    entries = parse_input(f"{escaped(name)}:{path};mask:{path}")
    assert [entry.name for entry in entries] == [name, "mask"]


def make_entry(name: str, *shape: int, dtype: str = "float32") -> InputEntry:
    return InputEntry(name, np.zeros(shape, dtype))


MODEL = [TensorSpec("data", "float32", [2, 3]), TensorSpec("mask", "float32", [2, 1])]


def test_matching_inputs_cause_no_warning():
    pairs, warnings = match([make_entry("mask", 2, 1), make_entry("data", 2, 3)], MODEL)
    assert [want.name for _, want in pairs] == ["mask", "data"]
    assert warnings == []


def test_an_unknown_name_is_rejected_with_the_inputs_of_the_model():
    with pytest.raises(InputError) as caught:
        match([make_entry("image", 2, 3)], MODEL)
    assert str(caught.value) == (
        'input "image" is not an input of the model; '
        "its inputs are: data float32 {2,3}, mask float32 {2,1}"
    )
    with pytest.raises(InputError, match="the model has no inputs"):
        match([make_entry("image", 2, 3)], [])


def test_a_wrong_type_is_rejected_with_both_types():
    with pytest.raises(InputError) as caught:
        match([make_entry("data", 1, 2, 3, dtype="int32")], MODEL)
    assert str(caught.value) == (
        'input "data" is given as int32 {1,2,3}, but the model wants float32 {2,3}'
    )


def test_wrong_shapes_and_missing_inputs_cause_warnings():
    pairs, warnings = match([make_entry("data", 4, 3)], MODEL)
    assert [entry.shape for entry, _ in pairs] == [(4, 3)]
    assert warnings == [
        'input "data" is {4,3}, the model was made for {2,3}',
        'input "mask" (float32 {2,1}) is not given: the run uses whatever its memory contains',
    ]


def test_not_finite_numbers_are_counted():
    assert not_finite(np.array([1, np.nan, np.inf, -np.inf], np.float32)) == (1, 2)
    assert not_finite(np.array([1, 2], np.int32)) == (0, 0)
