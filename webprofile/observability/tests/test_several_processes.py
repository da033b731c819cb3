"""Tests of metrics of processes that share a folder, and of processes without a web server."""

import os
import subprocess
import sys
import urllib.request

import pytest
from django.conf import settings

from webprofile.observability import exposition
from webprofile.observability.tests.parts import samples
from webprofile.operations.devserver.layout import free_ports

COUNT = """
from webprofile.observability import counters
from webprofile.observability import exposition
exposition.forget_at_exit()
counters.LOG_PIECES.labels("kept").inc(3)
counters.SOCKETS_OPEN.labels("agent").inc()
counters.SWEEP_LAST.set(1000)
counters.DISPATCH_SECONDS.labels("started").observe(0.2)
"""
SERVE = """
from webprofile.observability import counters
from webprofile.observability import exposition
counters.LOG_PIECES.labels("kept").inc(5)
exposition.serve()
exposition.serve()  # the port is taken: logged, and the process continues
print("up", flush=True)
input()
"""


def start(code, **environment):
    variables = os.environ | {"DJANGO_SETTINGS_MODULE": "webprofile.settings.test", **environment}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=settings.BASE_DIR,
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


@pytest.mark.exhaustive
def test_metrics_of_processes_with_a_shared_folder_are_added(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    for _ in range(2):
        finish(start(COUNT))
    text = exposition.text_of(exposition.registry(), exposition.build_registry())
    values = samples(text.decode())
    assert values['mgw_log_pieces_total{fate="kept"}'] == 6
    assert values['mgw_dispatch_seconds_count{stage="started"}'] == 2
    assert values["mgw_sweep_last_round_timestamp_seconds"] == 1000
    # gauges of ended processes do not count
    assert values.get('mgw_sockets_open{kind="agent"}', 0) == 0
    assert any(name.startswith("mgw_build_info") for name in values)


def test_process_without_pages_serves_metrics_on_its_own_port():
    (port,) = free_ports(1)
    process = start(SERVE, METRICS_PORT=str(port))
    try:
        assert process.stdout.readline() == "up\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            values = samples(response.read().decode())
    finally:
        _, errors = process.communicate("\n", timeout=60)
    assert values['mgw_log_pieces_total{fate="kept"}'] == 5
    assert "metrics_not_served" in errors
