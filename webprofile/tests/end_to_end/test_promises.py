"""What the site promises holds after real runs: good ones, bad ones, cancelled ones."""

import pytest

from webprofile.tests.end_to_end.runs import send, watch

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]


def test_a_site_that_ran_models_keeps_its_promises(site, visitor, testdata):
    model = testdata / "models" / "two_inputs.mge"
    folder = testdata / "inputs" / "two_inputs"
    data = {"data": folder / "data.npy", "mask": folder / "mask.npy"}
    good = send(visitor, model, data)
    bad = send(visitor, testdata / "bad" / "models" / "truncated_half.mge", {})
    gone = send(visitor, model, data)
    visitor.post(f"/api/v1/tasks/{gone}/cancel/", {})
    ends = [watch(visitor, task)[0][-1] for task in (good, bad, gone)]
    assert ends == ["succeeded", "failed", "cancelled"]
    assert site.manage("verify", "--grace-hours", "0") == "Every promise holds."
