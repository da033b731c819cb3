"""Test helpers: a Redis server, values of metrics, captured log lines."""

import contextlib
import json
import logging
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from webprofile.observability.logging import configure_logging
from webprofile.operations.devserver.parts import redis_program
from webprofile.settings.environment import patient


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Redis server; yield its URL and process."""
    path = folder / "r.sock"
    command = [redis_program(), "--port", "0", "--unixsocket", str(path), "--dir", str(folder)]
    server = subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
                break
            time.sleep(0.05)
        yield f"unix://{path}?db=0", server
    finally:
        server.kill()
        server.wait(10)


def redis_layers(url: str) -> dict[str, Any]:
    """Return the setting CHANNEL_LAYERS of a site with this Redis."""
    hosts = [{"address": patient(url)}]
    backend = "webprofile.realtime.layer.PatientLayer"
    return {"default": {"BACKEND": backend, "CONFIG": {"hosts": hosts}}}


def samples(text: str) -> dict[str, float]:
    """Parse metrics in text format into values by name and labels: `mgw_workers{beat="lost"}`."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            values[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return values


def metric_value(name: str, **labels: str) -> float:
    """Return the value of a metric of this process, 0 if it has none yet."""
    return REGISTRY.get_sample_value(name, labels) or 0


class CapturedLines(logging.Handler):
    """Handler that captures log lines in the format of another handler."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self.setFormatter(handler.formatter)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.texts]

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the lines with this event."""
        return [line for line in self.records if line["event"] == event]


@contextlib.contextmanager
def json_lines() -> Iterator[CapturedLines]:
    """Log in JSON format and capture all lines."""
    root = logging.getLogger()
    handlers, root_level = list(root.handlers), root.level
    configure_logging("INFO", "json")
    (handler,) = root.handlers
    captured = CapturedLines(handler)
    root.handlers = [captured]
    try:
        yield captured
    finally:
        structlog.contextvars.clear_contextvars()
        configure_logging(logging.getLevelName(root_level))
        root.handlers = handlers
