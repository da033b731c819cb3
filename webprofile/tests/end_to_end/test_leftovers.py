"""What a real run leaves behind: measurement, manifest, dumps, and the way to run it again."""

import json

import httpx2
import pytest

from webprofile.tests.end_to_end.runs import described, page, watch

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]


def test_a_measured_run_with_a_dump_can_be_repeated_and_compared(visitor, testdata):
    folder = testdata / "inputs" / "two_inputs"
    paths = [testdata / "models" / "two_inputs.mge", folder / "data.npy", folder / "mask.npy"]
    body = {
        "worker": visitor.device()["id"],
        "runtime_version": "1.13.0",
        "options": {"iter": 3, "bin_io_dump": True},
        "plan": {"preset": "custom", "clean": True, "clean_min_s": 0.05, "profiled": 2},
        "files": [
            described("model", paths[0]),
            described("data", paths[1], input="data"),
            described("data", paths[2], input="mask"),
        ],
    }
    made = visitor.post("/api/v1/tasks/", body)
    for target, path in zip(made["uploads"], paths, strict=True):
        visitor.put(target["url"], target["headers"], path)
    visitor.post(f"/api/v1/tasks/{made['id']}/submit/", {})
    first = int(made["id"])
    assert watch(visitor, first)[0][-1] == "succeeded", page(visitor, first)

    text = page(visitor, first)
    for shown in ("float32 {2,3,32,32}", "profile-2.json", "manifest.json", "bin_io_dump.zip"):
        assert shown in text, shown
    result = visitor.get(f"/tasks/{first}/result/").text
    assert 'id="latency"' in result
    assert 'id="overhead"' in result
    kept = visitor._client.get(f"/tasks/{first}/artifacts/measurement.json")
    passes = json.loads(httpx2.get(kept.headers["Location"]).text)["passes"]
    assert {each["kind"] for each in passes} >= {"clean", "profiled", "dump"}

    second = int(visitor.post(f"/api/v1/tasks/{first}/retry/", {})["id"])
    assert watch(visitor, second)[0][-1] == "succeeded", page(visitor, second)
    compared = visitor.get(f"/tasks/{first}/compare-io/{second}/").text
    assert "equal within the limit" in compared
    assert "Rows are in order of execution." in compared
