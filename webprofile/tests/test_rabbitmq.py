"""Tests with RabbitMQ as the broker: no work is lost when it fails."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dramatiq
import pika
import pytest
import redis

from testdata import DATA
from webprofile.operations.devserver import parts
from webprofile.operations.devserver.demo import Visitor
from webprofile.operations.devserver.layout import free_ports
from webprofile.rabbitmq import OneConnectionBroker
from webprofile.settings.environment import broker_of
from webprofile.tests.cluster import (
    Cluster,
    submit_tiny,
    until,
    with_parent_death_signal,
    write_replayer,
)
from webprofile.tests.end_to_end.runs import watch
from webprofile.tests.machine import RABBITMQ
from webprofile.tests.needs import need

pytestmark = pytest.mark.production


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


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    with RabbitServer(tmp_path_factory.mktemp("rabbit") / "server") as rabbit:
        yield rabbit


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, rabbit: RabbitServer) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, BROKER_URL=rabbit.url) as cluster:
        cluster.start("actors", parts.actors())
        cluster.start("sweep", parts.sweep())
        cluster.start_agent(write_replayer(folder, DATA / "profiles" / "tiny.json"))
        yield cluster


@pytest.fixture(scope="module")
def visitor(cluster: Cluster) -> Iterator[Visitor]:
    with cluster.login() as visitor:
        visitor.device()  # online
        yield visitor


def test_task_is_profiled_over_rabbitmq(rabbit, cluster, visitor):
    states, log = watch(visitor, submit_tiny(visitor))
    assert states[-1] == "succeeded", log
    with redis.Redis(unix_socket_path=str(cluster.site.redis_socket)) as client:
        assert client.keys("*dramatiq*") == [], "the message went over Redis"
    output = cluster.try_manage("doctor").stdout
    assert "RabbitMQ accepts and delivers messages." in output
    assert "A test message was answered." in output


def test_sweep_recovers_messages_lost_while_rabbitmq_is_down(rabbit, cluster, visitor):
    rabbit.kill()
    task = submit_tiny(visitor)
    assert cluster.state_of(task) == "waiting"
    rabbit.start()
    states, log = watch(visitor, task)
    assert states[-1] == "succeeded", log
    output = cluster.manage("verify", "--grace-hours", "0").stdout
    assert output.strip() == "All checks passed."


def test_sending_threads_share_one_connection(rabbit):
    options = broker_of(rabbit.url)["OPTIONS"]
    broker = OneConnectionBroker(middleware=[], **options)
    try:
        broker.declare_queue("many")
        for _ in range(20):
            message = dramatiq.Message("many", "nobody", (), {}, {})
            with ThreadPoolExecutor(1) as thread:
                thread.submit(broker.enqueue, message).result()
        assert len(broker.connections) == 1
        assert broker.get_queue_message_counts("many")[0] == 20
    finally:
        broker.flush("many")
        broker.close()
