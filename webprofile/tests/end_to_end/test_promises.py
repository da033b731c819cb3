"""The invariants of docs/architecture/integrity.md hold after runs of all outcomes."""

import json
import socket

import httpx2
import pytest

from webprofile.operations.devserver.layout import BUCKET
from webprofile.tests.end_to_end.runs import send, watch

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]


def test_invariants_hold_after_runs_of_all_outcomes(site, visitor, testdata):
    model = testdata / "models" / "two_inputs.mge"
    folder = testdata / "inputs" / "two_inputs"
    data = {"data": folder / "data.npy", "mask": folder / "mask.npy"}
    good = send(visitor, model, data)
    bad = send(visitor, testdata / "bad" / "models" / "truncated_half.mge", {})
    gone = send(visitor, model, data)
    visitor.post(f"/api/v1/tasks/{gone}/cancel/", {})
    outcomes = [watch(visitor, task)[0][-1] for task in (good, bad, gone)]
    assert outcomes == ["succeeded", "failed", "cancelled"]
    assert site.manage("verify", "--grace-hours", "0") == "Every promise holds."


def test_redis_has_no_port_and_storage_requires_signatures(site):
    running = json.loads((site.home / "running.json").read_text())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(running["redis"])
        connection.sendall(b"CONFIG GET port\r\n")
        assert connection.recv(200).splitlines()[-1] == b"0"
    bucket = f"http://127.0.0.1:{running['storage']}/{BUCKET}"
    with httpx2.Client(trust_env=False) as stranger:
        assert stranger.get(f"{bucket}/").status_code >= 400
        assert stranger.get(f"{bucket}/tasks/1/model.mge").status_code >= 400
        assert stranger.put(f"{bucket}/new", content=b"x").status_code >= 400
