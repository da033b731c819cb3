"""Run a production site on this machine, and the helper programs of the benchmark."""

import contextlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webprofile.operations.devserver import parts
from webprofile.operations.devserver.layout import REPOSITORY
from webprofile.tests.cluster import Cluster, with_parent_death_signal
from webprofile.tests.postgres import postgres_server

#: disables rate limits and quotas, since a few users submit all tasks, and health checks
ENVIRONMENT = {
    "API_RATE_USER": "",
    "API_RATE_SESSION": "",
    "TASKS_PER_USER": "1000000",
    "HEALTH_CHECK_EVERY_S": "0",
    "HEALTH_CHECK_AFTER_FAILURES": "0",
    "SCATTER_RUNS": "0",
    "AA_RUN_S": "0",
    "LOG_LEVEL": "WARNING",
    "DATABASE_POOL": "20",
}


@dataclass
class BenchSite:
    """A running site: the ports of its web processes and the pids of its parts.

    socket_ports: ports for agents; the same as `ports` without separate web processes for them
    """

    ports: list[int]
    socket_ports: list[int]
    pids: dict[str, list[int]]


@contextlib.contextmanager
def running_bench_site(
    folder: Path, *, webs: int, sockets: int, heartbeat_s: float
) -> Iterator[BenchSite]:
    """Run a site below `folder` for the duration of the block, which has its environment.

    webs: number of web processes
    sockets: number of additional web processes, which serve only the agents' sockets
    """
    intervals = {"HEARTBEAT_S": str(heartbeat_s), "LEASE_S": str(max(60.0, 4 * heartbeat_s))}
    with postgres_server(folder / "postgres") as address:
        os.environ["DATABASE_URL"] = address
        with Cluster(folder, webs=webs + sockets, **ENVIRONMENT, **intervals) as cluster:
            cluster.start("actors", parts.actors())
            cluster.start("sweep", parts.sweep())
            os.environ.update(cluster.environment)
            pids = defaultdict(list, postgres=[_postmaster(folder / "postgres")])
            for name, process in cluster.processes.items():
                pids[name.rstrip("0123456789")].append(process.pid)
            yield BenchSite(cluster.ports[:webs], cluster.ports[webs:] or cluster.ports, pids)


def _postmaster(folder: Path) -> int:
    return int((folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])


class HelperProcess:
    """A program of the benchmark that reads commands and writes answers as lines of JSON."""

    def __init__(self, module: str, first: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            with_parent_death_signal([sys.executable, "-m", module]),
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tell(first)

    def tell(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """Read the next answer. Raises SystemExit if the program has ended."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a part of the benchmark ended with code {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
