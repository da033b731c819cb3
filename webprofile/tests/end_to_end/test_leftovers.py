"""Tests of the files that a run leaves: measurement, manifest, dumps, command to repeat it."""

import json

import httpx2
import pytest

from webprofile.tests.end_to_end.runs import page, submit, watch

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]


def test_measured_run_with_a_dump_is_repeated_and_compared(visitor, testdata):
    folder = testdata / "inputs" / "two_inputs"
    files = {
        testdata / "models" / "two_inputs.mge": {"kind": "model"},
        folder / "data.npy": {"kind": "data", "input": "data"},
        folder / "mask.npy": {"kind": "data", "input": "mask"},
    }
    plan = {"preset": "custom", "clean": True, "clean_min_s": 0.05, "profiled": 2}
    first = submit(visitor, files, options={"iter": 3, "bin_io_dump": True}, plan=plan)
    assert watch(visitor, first)[0][-1] == "succeeded", page(visitor, first)

    text = page(visitor, first)
    for detail in ("float32 {2,3,32,32}", "profile-2.json", "manifest.json", "bin_io_dump.zip"):
        assert detail in text, detail
    result = visitor.get(f"/tasks/{first}/result/").text
    assert 'id="latency"' in result
    assert 'id="overhead"' in result
    response = visitor._client.get(f"/tasks/{first}/artifacts/measurement.json")
    passes = json.loads(httpx2.get(response.headers["Location"]).text)["passes"]
    assert {record["kind"] for record in passes} >= {"clean", "profiled", "dump"}

    second = int(visitor.post(f"/api/v1/tasks/{first}/retry/", {})["id"])
    assert watch(visitor, second)[0][-1] == "succeeded", page(visitor, second)
    compared = visitor.get(f"/tasks/{first}/compare-io/{second}/").text
    assert "equal within the limit" in compared
    assert "Rows are in order of execution." in compared
