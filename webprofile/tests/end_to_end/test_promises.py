"""Tests of what runs leave: the invariants of docs/architecture/integrity.md, files of a run."""

import json
import socket
import time
from pathlib import Path

import httpx2
import psutil
import pytest

from webprofile.operations.devserver.layout import BUCKET
from webprofile.tests.end_to_end.runs import page, send, submit, watch, whole

pytestmark = [pytest.mark.exhaustive, pytest.mark.megengine, pytest.mark.embedded]


def test_invariants_hold_after_runs_of_all_outcomes(site, visitor, testdata):
    model = testdata / "models" / "two_inputs.mge"
    folder = testdata / "inputs" / "two_inputs"
    data = {"data": folder / "data.npy", "mask": folder / "mask.npy"}
    good = send(visitor, model, data)
    bad = send(visitor, testdata / "bad" / "models" / "flipped_64.mge", {})
    gone = send(visitor, model, data)
    visitor.post(f"/api/v1/tasks/{gone}/cancel/", {})
    outcomes = [watch(visitor, task)[0][-1] for task in (good, bad, gone)]
    assert outcomes == ["succeeded", "failed", "cancelled"]
    assert site.manage("verify", "--grace-hours", "0") == "All checks passed."


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


def test_the_web_server_and_redis_of_an_idle_site_seldom_wake(site):
    """Each time one of them wakes, a model that is measured on this machine may wait for it."""

    def sleeps(process: psutil.Process) -> int:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    def wakes_per_s(process: psutil.Process) -> float:
        before, begin = sleeps(process), time.monotonic()
        time.sleep(3)
        return (sleeps(process) - before) / (time.monotonic() - begin)

    running = psutil.Process(site.process.pid).children(recursive=True)
    for part in ("webprofile.web", "unixsocket"):
        (process,) = (each for each in running if part in " ".join(each.cmdline()))
        # by default uvicorn and channels_redis wake the server ten times a second each, and Redis
        # itself, too; the site may still work on what earlier tests have left
        assert any(wakes_per_s(process) < 8 for _ in range(3)), part


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

    text = whole(visitor, first)
    for detail in ("float32 {2,3,32,32}", "profile-2.json", "manifest.json", "bin_io_dump.zip"):
        assert detail in text, detail
    assert 'id="latency"' in text
    assert 'id="overhead"' in text
    passes = json.loads(visitor.artifact(first, "measurement.json"))["passes"]
    assert {record["kind"] for record in passes} >= {"clean", "profiled", "dump"}

    second = int(visitor.post(f"/api/v1/tasks/{first}/retry/", {})["id"])
    assert watch(visitor, second)[0][-1] == "succeeded", page(visitor, second)
    compared = visitor.get(f"/tasks/{first}/compare-io/{second}/").text
    assert "equal within the tolerance" in compared
    assert "Rows are in order of execution." in compared
