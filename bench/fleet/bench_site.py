"""Run the parts of a production site on this machine, each as a separate process."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from webprofile.operations.devserver import parts
from webprofile.operations.devserver.layout import REPOSITORY, free_ports, load_keys, open_home
from webprofile.operations.devserver.supervisor import Part
from webprofile.tests.cluster import with_parent_death_signal
from webprofile.tests.postgres import postgres_server

READY_WITHIN_S = 60.0
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
    environment: dict[str, str]


@contextlib.contextmanager
def running_bench_site(
    folder: Path, *, webs: int, heartbeat_s: float, sockets: int = 0
) -> Iterator[BenchSite]:
    """Run a site below `folder`, with a migrated database, for the duration of the block.

    webs: number of web processes; with 0 only database, Redis and storage run
    sockets: number of additional web processes, which serve only the agents' sockets
    """
    layout = open_home(folder / "home")
    layout.make_folders()
    # one port is for storage, which needs an origin of its own, also with webs=0
    ports = free_ports(max(webs, 1) + sockets + 1)
    with contextlib.ExitStack() as stack:
        # the path of a Unix socket has at most 107 bytes
        short = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = stack.enter_context(postgres_server(folder / "postgres"))
        site = parts.SiteConfig(
            layout, load_keys(layout), short / "redis.sock", ports[0], ports[-1]
        )
        environment = parts.environment(site, os.environ) | ENVIRONMENT
        environment |= {"DATABASE_URL": address, "HEARTBEAT_S": str(heartbeat_s)}
        environment["LEASE_S"] = str(max(60.0, 4 * heartbeat_s))
        os.environ.update(environment)
        subprocess.run(
            parts.manage("migrate", "-v", "0"), cwd=REPOSITORY, env=environment, check=True
        )
        parts_to_run = [parts.redis(site), parts.storage(site)]
        parts_to_run += [
            replace(parts.web(replace(site, port=port)), name="web")
            for port in ports[: webs + sockets]
        ]
        parts_to_run += [parts.dispatch(), parts.actors(), parts.sweep()] if webs else []
        pids: dict[str, list[int]] = {"postgres": [_postmaster(folder / "postgres")]}
        for number, part in enumerate(parts_to_run):
            log = stack.enter_context((folder / f"{number}-{part.name}.log").open("wb"))
            process = stack.enter_context(_running(part, environment, log))
            pids.setdefault(part.name, []).append(process.pid)
        yield BenchSite(ports[:webs], ports[webs:-1] or ports[:webs], pids, environment)


def _postmaster(folder: Path) -> int:
    return int((folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])


@contextlib.contextmanager
def _running(
    part: Part, environment: dict[str, str], log: IO[bytes]
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a part for the duration of the block, which starts when the part is ready."""
    process = subprocess.Popen(
        with_parent_death_signal(part.command),
        cwd=REPOSITORY,
        env={**environment, **part.environment},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    try:
        _wait_until_ready(part, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(part.grace_s + 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(part: Part, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while part.ready is not None and time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"{part.name} ended at once with code {process.returncode}")
        with contextlib.suppress(OSError):
            if part.ready():
                return
        time.sleep(0.1)
    if part.ready is not None:
        raise SystemExit(f"{part.name} did not answer within {READY_WITHIN_S:.0f} s")


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
