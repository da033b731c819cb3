"""Test helpers: a Redis server, parsed metrics, captured log lines."""

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
from prometheus_client.parser import text_string_to_metric_families

from webprofile.observability.logging import configure_logging
from webprofile.operations.devserver.parts import redis_program


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a Redis server; yield its URL and process."""
    path = folder / "r.sock"
    command = [redis_program(), "--port", "0", "--unixsocket", str(path), "--dir", str(folder)]
    server = subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
                break
            time.sleep(0.05)
        yield f"unix://{path}?db=0", server
    finally:
        server.kill()
        server.wait(10)


def samples(text: str) -> dict[str, float]:
    """Parse metrics in text format into values by name and labels: `mgw_workers{beat="lost"}`."""
    values = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            values[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return values


class Lines(logging.Handler):
    """Handler that captures log lines in the format of the root handler."""

    def __init__(self, written: logging.Handler) -> None:
        super().__init__()
        self.setFormatter(written.formatter)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    @property
    def facts(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.texts]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.facts if line["event"] == event]


@contextlib.contextmanager
def json_lines(level: str = "INFO") -> Iterator[Lines]:
    """Log in JSON format and capture all lines."""
    root = logging.getLogger()
    before, was = list(root.handlers), root.level
    configure_logging(level, "json")
    (written,) = root.handlers
    captured = Lines(written)
    root.handlers = [captured]
    try:
        yield captured
    finally:
        structlog.contextvars.clear_contextvars()
        configure_logging(logging.getLevelName(was))
        root.handlers = before
