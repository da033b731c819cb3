"""Test of the example that makes a model."""

import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
LOAD_AND_RUN = REPOSITORY / "agent" / "load_and_run"


@pytest.mark.megengine
def test_example_model_is_small_and_runs(megengine_python: str, tmp_path: Path) -> None:
    command = [megengine_python, str(REPOSITORY / "examples" / "make_resnet.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    model, data = tmp_path / "resnet.mge", tmp_path / "data.npy"
    assert 100_000 < model.stat().st_size < 4_000_000
    result = subprocess.run(
        [megengine_python, str(LOAD_AND_RUN), str(model), f"--input=data:{data}", "--iter=2"],
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "WARN" not in result.stderr
