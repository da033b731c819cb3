"""Make input files, and prepare them."""

from pathlib import Path

import numpy as np
import pytest

from agent.inputs.prepare import PreparedInputs, Source, prepare_inputs
from agent.protocol.inputs import InputError


def save_npy(folder: Path, name: str, array: np.ndarray) -> Path:
    np.save(folder / name, array)
    return folder / name


def load_prepared(prepared: PreparedInputs, folder: Path, name: str = "data") -> np.ndarray:
    return np.load(folder / prepared.files[name], allow_pickle=False)


def prepare_one(folder: Path, source: Source, **options: object) -> np.ndarray:
    """Prepare one input for a compiled load_and_run and read it back."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    options = {"kind": "binary"} | options
    return load_prepared(prepare_inputs([("data", source)], None, out, **options), out)


def expect_error(folder: Path, source: Source, **options: object) -> InputError:
    with pytest.raises(InputError) as caught:
        prepare_one(folder, source, **options)
    return caught.value
