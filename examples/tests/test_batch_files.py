"""Test of the example batch files."""

import shutil
from pathlib import Path

import pytest

from webprofile.client.batchfile.matrix import cells_of, read_batch

EXAMPLES = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["nightly.toml", "nightly.yaml"])
def test_example_batch_file_describes_its_tasks(name, tmp_path):
    shutil.copy(EXAMPLES / name, tmp_path)
    for model in ("resnet18.mge", "mobilenet.mge"):
        (tmp_path / model).write_bytes(b"model")
    cells = cells_of(read_batch(tmp_path / name), {"local": ["1.13.0"]})
    assert len(cells) == 2 * 1 * 2 * 2
    assert [cell.title for cell in cells[:4:2]] == [
        "nightly resnet18 plain", "nightly resnet18 fast"
    ]  # fmt: skip
    assert cells[2].options == {"fast_run": True}
