"""The invariants of docs/architecture/integrity.md hold after runs of all outcomes."""

import json
import socket

import httpx2
import pytest

from webprofile.operations.devserver.layout import BUCKET
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


def test_nobody_reaches_redis_by_a_port_or_storage_without_a_signature(site):
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
