"""Run the Python script of docs/api.md, and the example of the Python interface."""

import csv
import os
import re
import shutil
import subprocess
import sys

import pytest

from webprofile.tests.site import ROOT

pytestmark = [pytest.mark.megengine, pytest.mark.embedded]


def test_documented_script_profiles_a_model(site, visitor, testdata, tmp_path):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "api.md").read_text("utf-8"), re.S | re.M
    )
    shutil.copy(testdata / "models" / "resnet18.mge", tmp_path / "model.mge")
    shutil.copy(testdata / "inputs" / "resnet18" / "data.npy", tmp_path / "data.npy")
    token = visitor.post("/api/v1/auth/token/", site.account)["access"]

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env=os.environ | {"WEBPROFILE_SITE": site.address, "WEBPROFILE_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    total = re.match(r"(\d+) operators, ([\d.]+) ms on the device\n", result.stdout)
    assert total and float(total[2]) > 0
    assert len(re.findall(r"^ *[\d.]+ ms +[\d.]+%  \w+$", result.stdout, re.M)) == 5
    assert "ConvolutionForward" in result.stdout
    with (tmp_path / "operators.csv").open(encoding="utf-8", newline="") as file:
        assert len([*csv.DictReader(file)]) == int(total[1])


@pytest.mark.exhaustive
def test_example_of_the_python_interface_compares_two_option_sets(
    site, visitor, testdata, tmp_path
):
    token = visitor.post("/api/v1/auth/token/", site.account)["access"]
    result = subprocess.run(
        [
            sys.executable, "-W", "error", ROOT / "examples" / "compare_options.py",
            testdata / "models" / "resnet18.mge", "local",
        ],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "WEBPROFILE_SITE": site.address, "WEBPROFILE_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(re.findall(r"^#\d+ succeeded", result.stdout, re.M)) == 2
    assert re.search(r"^device [\d.e-]+ [\d.e-]+", result.stdout, re.M)
    assert len(re.findall(r"^.+ [\d.]+ ms$", result.stdout, re.M)) == 5
    assert (tmp_path / "measurement.json").stat().st_size > 0
    assert result.stderr == ""
