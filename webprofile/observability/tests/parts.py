"""Test helpers: a Redis server, values of metrics, captured log lines."""

import contextlib
import json
import logging
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from redis import ConnectionError, Redis

from webprofile.observability.logging import configure_logging
from webprofile.operations.devserver.parts import redis_program
from webprofile.settings.environment import patient


class RedisServer:
    """A Redis server that can be killed and started again, on a Unix socket or on a port.

    options: arguments of the server; without any it stores nothing
    """

    process: subprocess.Popen[bytes]

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        path = folder / "r.sock"
        self.url = f"redis://127.0.0.1:{port}/0" if port else f"unix://{path}?db=0"
        command = [redis_program(), "--port", str(port), "--unixsocket", str(path)]
        self._command = [*command, "--dir", str(folder), *(options or ("--save", ""))]

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        for _ in range(1200):
            with contextlib.suppress(ConnectionError), Redis.from_url(self.url) as client:
                client.ping()
                return
            time.sleep(0.05)
        raise AssertionError("Redis does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Redis server; yield its URL and process."""
    server = RedisServer(folder)
    server.start()
    try:
        yield server.url, server.process
    finally:
        server.kill()


def redis_layers(url: str) -> dict[str, Any]:
    """Return the setting CHANNEL_LAYERS of a site with this Redis."""
    backend = "webprofile.realtime.layer.PatientLayer"
    return {"default": {"BACKEND": backend, "CONFIG": {"address": patient(url)}}}


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
def json_lines(level: str = "INFO") -> Iterator[CapturedLines]:
    """Log in JSON format and capture all lines."""
    root = logging.getLogger()
    handlers, root_level = list(root.handlers), root.level
    configure_logging(level, "json")
    (handler,) = root.handlers
    captured = CapturedLines(handler)
    root.handlers = [captured]
    try:
        yield captured
    finally:
        structlog.contextvars.clear_contextvars()
        configure_logging(logging.getLevelName(root_level))
        root.handlers = handlers
