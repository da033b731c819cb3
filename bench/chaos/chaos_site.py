"""A development site with ten real agents, and a proxy between each pair of parts."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.chaos.clocks import Clock
from bench.chaos.disks import Disk
from bench.chaos.links import Link, to_port, to_socket
from bench.chaos.plan import AGENTS, REAL, SMALL_DISKS
from webprofile.operations.devserver import parts
from webprofile.operations.devserver.layout import Layout, free_ports, load_keys, write_private
from webprofile.operations.devserver.lock import HomeLock
from webprofile.operations.devserver.supervisor import Part, Restarts, Supervisor

VERSION = "1.13.0"
REPLAY = Path(__file__).resolve().parent / "replay.py"
STORAGE_BYTES, SPOOL_BYTES = 4 << 30, 256 << 20
#: settings that differ from the defaults
SETTINGS = {
    # parts die often here, and an attempt must not fail because of this limit
    "MAX_ATTEMPTS": "50",
    # production pauses a minute and more, for a storage that stays down; here none does
    "RETRY_PAUSE_S": "1",
    "RETRY_PAUSE_MOST_S": "8",
    # each simulated user sends as many requests as many real ones
    "API_RATE_USER": "",
    "API_RATE_SESSION": "",
    # devices fail often here, and must not be quarantined for it
    "HEALTH_CHECK_EVERY_S": "0",
    "HEALTH_CHECK_AFTER_FAILURES": "0",
    "SCATTER_RUNS": "0",
    "AA_RUN_S": "0",
}


class ChaosSite:
    """All processes of the bench. The keys of `links`, `disks` and `clocks` come from plan.py."""

    def __init__(self, layout: Layout, lock: HomeLock, megengine: str) -> None:
        self.layout, self._megengine = layout, megengine
        port, storage_port = free_ports(2)
        keys = load_keys(layout)
        self.site = parts.SiteConfig(layout, keys, layout.home / "redis.sock", port, storage_port)
        self.links: dict[str, Link] = {}
        self.disks: dict[str, Disk] = {}
        self.clocks: dict[str, Clock] = {}
        self.users: list[str] = []
        environment = {**parts.environment(self.site, os.environ), **SETTINGS}
        restarts = Restarts(limit=1_000_000, first_pause_s=0.3, longest_pause_s=1.0)
        self.supervisor = Supervisor(layout, environment, lock.descriptor, restarts)
        self.supervisor.open(layout.temporary)

    async def bring_up(self) -> None:
        """Start all parts and wait until they are up. Raises PartError, DiskError, ClockError."""
        self.disks["storage-disk"] = Disk(self.layout.storage, STORAGE_BYTES)
        self.layout.make_folders()
        site, start = self.site, self.supervisor.start
        self._files = await self._http("files", site.storage_port)
        prepare = self._prepare()
        stores = start(parts.redis(site), parts.storage(site))
        made, _ = await asyncio.gather(prepare, stores)
        self.users = made["users"]
        await start(await self._linked(parts.web(site)))
        behind = (parts.dispatch(), parts.actors(), parts.sweep())
        await start(*[await self._linked(part) for part in behind])
        agents = [await self._agent(name, made["agents"][name]) for name in AGENTS]
        await start(*agents)

    async def close(self) -> None:
        await self.supervisor.close()
        for link in self.links.values():
            await link.close()
        # they would also vanish with the mount namespace of this process
        for disk in self.disks.values():
            disk.remove()

    def heal(self) -> None:
        """Remove all faults of links, disks and clocks."""
        for link in self.links.values():
            link.heal()
        for disk in self.disks.values():
            disk.empty()
        for clock in self.clocks.values():
            clock.step(0)

    async def manage(self, *arguments: str, timeout_s: float = 300.0) -> str:
        """Run a manage.py command, which bypasses all links. Raises PartError."""
        return await self.supervisor.run("manage", parts.manage(*arguments), timeout_s=timeout_s)

    # -- parts ----------------------------------------------------------------------------------

    async def _prepare(self) -> dict[str, Any]:
        command = parts.manage("embedded_prepare", "--admin-email", "admin@example.com")
        await self.supervisor.run("prepare", [*command, "--worker", "unused"])
        code = "from bench.chaos.people import make; make()"
        made = await self.manage("shell", "--no-imports", "-c", code)
        people: dict[str, Any] = json.loads(made.splitlines()[-1])
        return people

    async def _linked(self, part: Part) -> Part:
        """Return a server part that reaches Redis and storage over links of its own."""
        socket = self.layout.home / f"{part.name}-redis.sock"
        link = self._link(f"{part.name}-redis", to_socket(self.site.redis_socket))
        await link.listen_at_socket(socket)
        storage = await self._http(f"{part.name}-storage", self.site.storage_port)
        changed = {
            "REDIS_URL": f"unix://{socket}?db=0",
            "S3_ENDPOINT_URL": storage,
            "S3_PUBLIC_ENDPOINT_URL": self._files,
        }
        return replace(part, environment={**part.environment, **changed})

    async def _http(self, name: str, port: int, *, frames: bool = False) -> str:
        link = self._link(name, to_port(port), frames=frames)
        return f"http://127.0.0.1:{await link.listen_at_port()}"

    def _link(self, name: str, upstream: Any, *, frames: bool = False) -> Link:
        self.links[name] = Link(name, upstream, frames=frames)
        return self.links[name]

    async def _agent(self, name: str, token: str) -> Part:
        folder = self.layout.home / "agents" / name
        folder.mkdir(parents=True)
        if name in SMALL_DISKS:
            self.disks[f"{name}-disk"] = Disk(folder / "spool", SPOOL_BYTES)
        server = await self._http(f"{name}-web", self.site.port, frames=True)
        is_real = name in REAL
        runtime = self._megengine if is_real else str(REPLAY)
        lines = [
            f"server = {json.dumps(server)}",
            f"token = {json.dumps(token)}",
            'spool = "spool"',
            "grace_s = 2.0",
            "[labels]",
            f'chaos = "{"real" if is_real else "simulated"}"',
            "[cache]",
            f"size_bytes = {16 << 20}",
            "[[runtime]]",
            f'version = "{VERSION}"',
            f'kind = "{"wheel" if is_real else "binary"}"',
            f"path = {json.dumps(runtime)}",
        ]
        config = folder / "agent.toml"
        write_private(config, "\n".join(lines) + "\n")
        part = replace(parts.agent(config), name=name)
        clock = self.clocks[name] = Clock(folder / "clock")
        return replace(part, environment=clock.environment())
