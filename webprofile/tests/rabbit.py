"""Run a RabbitMQ server for a test, with all its files in one folder."""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pika

from webprofile.operations.devserver.layout import free_ports
from webprofile.tests.cluster import until, with_parent_death_signal
from webprofile.tests.machine import RABBITMQ
from webprofile.tests.needs import need


class RabbitServer:
    """A RabbitMQ server that can be killed and restarted with the same data."""

    def __init__(self, folder: Path) -> None:
        need("rabbitmq")
        folder.mkdir()
        self._program = str(RABBITMQ)
        self.port, self._distribution_port, self._epmd_port = free_ports(3)
        (folder / "plugins").write_text("[].\n")
        self._environment = {
            **os.environ,
            "HOME": str(folder),  # Erlang's cookie
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RABBITMQ_NODENAME": f"mgw{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(folder / "rows"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def __enter__(self) -> "RabbitServer":
        # RabbitMQ would start an epmd that outlives it
        self._start([shutil.which("epmd") or "epmd", "-port", str(self._epmd_port)])
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        while self._running:
            self.kill()

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._start([self._program])
        until(self._accepts_connections, what="RabbitMQ accepts connections")

    def kill(self) -> None:
        """Kill the server with SIGKILL, as a power failure does."""
        process = self._running.pop()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def _start(self, command: list[str]) -> None:
        with (self._folder / "output").open("ab") as log:
            self._running.append(
                subprocess.Popen(
                    with_parent_death_signal(command),
                    env=self._environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def _accepts_connections(self) -> bool:
        assert self._running[-1].poll() is None, (self._folder / "output").read_text()
        try:
            pika.BlockingConnection(pika.URLParameters(self.url)).close()
        except pika.exceptions.AMQPConnectionError:
            return False
        return True
