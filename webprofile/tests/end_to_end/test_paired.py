"""A paired comparison with MegEngine, from the submission to its page."""

import re

import pytest

from webprofile.tests.end_to_end.runs import page, submit, watch

pytestmark = [pytest.mark.megengine, pytest.mark.embedded]


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
        pairing={"budget_s": 10, "arms": [{}]},
    )
    states, _ = watch(visitor, task)
    assert states == ["waiting", "assigned", "running", "processing", "succeeded"]
    text = page(visitor, task)
    assert "resnet18_opt.mge" in text
    # a busy machine gives no verdict, but it has measured pairs
    assert re.search(r"pairs? of processes counts?", text)
    assert "cosine similarity 1.000000" in text
