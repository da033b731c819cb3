"""A paired comparison with MegEngine, from the submission to its page."""

import json
import os
import re
import subprocess
import sys

import pytest

from webprofile.tests.end_to_end.runs import page, submit, watch
from webprofile.tests.site import ROOT

pytestmark = [pytest.mark.megengine, pytest.mark.embedded]


@pytest.mark.exhaustive
def test_two_models_are_compared_in_pairs_on_the_device(visitor, testdata):
    model, data = (testdata / part for part in ("models/resnet18.mge", "inputs/resnet18/data.npy"))
    other = testdata / "models" / "resnet18_opt.mge"
    task = submit(
        visitor,
        {
            model: {"kind": "model"},
            data: {"kind": "data", "input": "data"},
            other: {"kind": "model", "arm": 1},
        },
        pairing={"budget_s": 5, "arms": [{}]},
    )
    states, _ = watch(visitor, task)
    assert states == ["waiting", "assigned", "running", "processing", "succeeded"]
    text = page(visitor, task)
    assert "resnet18_opt.mge" in text
    # a busy machine gives no verdict, but it has measured pairs
    assert re.search(r"pairs? of processes counts?", text)
    assert "cosine similarity 1.000000" in text


@pytest.mark.exhaustive
def test_the_client_compares_a_model_with_itself_under_another_option(
    site, visitor, testdata, tmp_path
):
    model, data = (testdata / part for part in ("models/resnet18.mge", "inputs/resnet18/data.npy"))
    token = visitor.post("/api/v1/auth/token/", site.account)["access"]
    result = subprocess.run(
        [
            sys.executable, "-m", "webprofile.client", "ab", model, model, "-w", "local",
            "-d", f"data={data}", "--arm-option", "B:fast_run", "--budget", "5s", "--json",
        ],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "WEBPROFILE_SITE": site.address, "WEBPROFILE_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert result.returncode in (0, 1, 5), result.stdout + result.stderr
    details = json.loads(result.stdout)
    assert [file["arm"] for file in details["task"]["files"]] == [0, 0]
    assert [arm["options"] for arm in details["pairs"]["arms"]] == [{}, {"fast_run": True}]
    assert details["pairs"]["differing"] == []
    assert len(details["pairs"]["pairs"]) >= 1
