"""Damaged and unsuitable input files of testdata/: read correctly, or rejected as expected."""

import json
from pathlib import Path

import numpy as np
import pytest

from agent.inputs.prepare import prepare_inputs
from agent.protocol.inputs import InputError, RuntimeKind
from agent.protocol.run_log import TensorInfo
from testdata import DATA

CASES = json.loads((DATA / "bad" / "cases.json").read_text())["inputs"]
MODELS = {
    "two_inputs": (
        TensorInfo("INPUT", "data", (2, 3, 32, 32), "float32"),
        TensorInfo("INPUT", "mask", (2, 1, 32, 32), "float32"),
    ),
    "bert_tiny": (
        TensorInfo("INPUT", "input_ids", (2, 48), "int32"),
        TensorInfo("INPUT", "attention_mask", (2, 48), "float32"),
    ),
}
#: file -> error codes: wheel and binary without the inputs of the model, wheel with them
EXPECTED: dict[str, tuple[str, str, str]] = {
    "ok.npy": ("", "", ""),
    "wrong_name.npy": ("", "", "unknown_input"),
    # other shapes are accepted, since the operators of the model may support them
    "more_batch.npy": ("", "", ""),
    "more_pixels.npy": ("", "", ""),
    "channels_4.npy": ("", "", ""),
    "ndim_3.npy": ("", "", ""),
    "scalar.npy": ("axes", "axes", "axes"),
    "empty.npy": ("axes", "axes", "axes"),
    "zero_width.npy": ("axes", "axes", "axes"),
    "dtype_float16.npy": ("", "dtype", "wrong_dtype"),
    "dtype_int32.npy": ("", "", "wrong_dtype"),
    "dtype_uint8.npy": ("", "", "wrong_dtype"),
    "dtype_complex64.npy": ("dtype", "dtype", "dtype"),
    "dtype_uint16.npy": ("", "", "wrong_dtype"),
    "dtype_uint64.npy": ("dtype", "dtype", "dtype"),
    "dtype_text.npy": ("dtype", "dtype", "dtype"),
    "dtype_datetime.npy": ("dtype", "dtype", "dtype"),
    "dtype_struct.npy": ("dtype", "dtype", "dtype"),
    "fortran_order.npy": ("", "", ""),
    "huge_values.npy": ("", "", ""),
    "ids_negative.npy": ("", "", ""),
    "text.npy": ("format", "format", "format"),
    "truncated_body.npy": ("size", "size", "size"),
    "trailing.npy": ("size", "size", "size"),
    "version_9.npy": ("header", "header", "header"),
    "header_huge_shape.npy": ("size", "size", "size"),
    "header_overflow.npy": ("size", "size", "size"),
    "header_many_axes.npy": ("axes", "axes", "axes"),
    "header_long.npy": ("header", "header", "header"),
    "pickle_object_array.npy": ("dtype", "dtype", "dtype"),
    "pickle_dict.pkl": ("format", "format", "format"),
    "ok.npz": ("format", "format", "format"),
    "bomb.npz": ("format", "format", "format"),
    "many_entries.npz": ("format", "format", "format"),
    "traversal.npz": ("format", "format", "format"),
}


def test_every_bad_file_has_an_expected_result() -> None:
    assert {Path(case["file"]).name for case in CASES} == set(EXPECTED)


def prepare_case(
    case: dict, folder: Path, kind: RuntimeKind, expected: tuple[TensorInfo, ...] | None
) -> tuple[str, Path | None]:
    """Return the code of the error, or the file that was written if there is none."""
    folder.mkdir()
    spec = (case["input"], DATA / case["file"])
    try:
        prepared = prepare_inputs([spec], expected, folder, kind=kind)
    except InputError as error:
        assert Path(case["file"]).name in error.text or case["input"] in error.text
        assert str(folder) not in error.text and str(DATA) not in error.text
        assert error.text.endswith(".") and len(error.text) < 500
        assert list(folder.iterdir()) == []  # nothing is left behind
        return error.code, None
    return "", folder / prepared.files[case["input"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: Path(case["file"]).name)
def test_a_bad_file_is_read_or_rejected_as_expected(case: dict, tmp_path: Path) -> None:
    source = DATA / case["file"]
    on_wheel, on_binary, with_model = EXPECTED[source.name]
    wheel_code, wheel_file = prepare_case(case, tmp_path / "wheel", "wheel", None)
    binary_code, binary_file = prepare_case(case, tmp_path / "binary", "binary", None)
    model_code, model_file = prepare_case(case, tmp_path / "model", "wheel", MODELS[case["model"]])
    assert (wheel_code, binary_code, model_code) == (on_wheel, on_binary, with_model)
    for file in (wheel_file, binary_file, model_file):
        if file is not None:
            original = np.load(source, allow_pickle=False)
            result = np.load(file, allow_pickle=False)
            assert result.dtype == original.dtype and np.array_equal(result, original)
            assert result.flags.c_contiguous
            assert b"'fortran_order': False" in file.read_bytes()[:128]
