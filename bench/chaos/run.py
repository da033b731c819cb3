"""One run: start the site, create load, inject faults, end them, wait, and verify the site."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from bench.chaos.acts import ActError, Acts
from bench.chaos.disks import DiskError
from bench.chaos.load import Load
from bench.chaos.plan import AGENTS, MOST_AT_ONCE, SERVERS, Fault, draw_faults
from bench.chaos.report import Done, Verdict, tell
from bench.chaos.rows import Rows
from bench.chaos.settling import Watch
from bench.chaos.world import World
from webprofile.operations.devserver.layout import Layout
from webprofile.operations.devserver.lock import HomeLock
from webprofile.operations.devserver.parts import FOLDERS_KEPT_S
from webprofile.operations.devserver.supervisor import PartError

#: after the last fault: everything that was asked for must have ended by then
END_WITHIN_S = 300.0
ONLINE_WITHIN_S = 120.0


@dataclass(frozen=True)
class Wishes:
    """What the command line asks for. `only`: kinds, all if empty."""

    faults: int
    seed: int
    tasks: int
    only: frozenset[str] = frozenset()
    home: Path | None = None


async def run(layout: Layout, lock: HomeLock, megengine: str, wishes: Wishes) -> Verdict:
    """Do all of it. Raises PartError, DiskError, ClockError if the world cannot be brought up."""
    world = World(layout, lock, megengine)
    try:
        await world.bring_up()
        await _all_online(Rows(layout.database))
        return await _Run(world, wishes).run()
    finally:
        await world.close()


async def _all_online(rows: Rows) -> None:
    """Wait until every agent has introduced itself. Raises PartError."""
    deadline = time.monotonic() + ONLINE_WITHIN_S
    while (count := rows.introduced()) < len(AGENTS):
        if time.monotonic() > deadline:
            raise PartError(f"{count} of {len(AGENTS)} agents are online.")
        await asyncio.sleep(0.5)


class _Run:
    def __init__(self, world: World, wishes: Wishes) -> None:
        self._world, self._wishes = world, wishes
        self._rows = Rows(world.layout.database)
        self._watch = Watch(self._rows)
        self._load = Load(world, wishes.seed, self._watch)
        self._acts = Acts(world, self._note)
        self._done: list[Done] = []
        self._broken: list[str] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._begin = time.monotonic()

    async def run(self) -> Verdict:
        self._begin = time.monotonic()
        watching = asyncio.create_task(self._watch.run())
        loading = asyncio.create_task(self._load.run(self._wishes.tasks))
        try:
            await asyncio.sleep(3)
            await self._let_loose()
            self._world.heal()
            self._load.ending.set()
            tell(f"{self._at()} all faults are over; {len(self._load.requested)} tasks so far")
            await asyncio.wait({loading}, timeout=END_WITHIN_S)
            await asyncio.gather(*self._settling)
            if loading.done():
                loading.result()
            return await self._judge()
        finally:
            for task in (watching, loading, *self._settling):
                task.cancel()
            await asyncio.gather(watching, loading, *self._settling, return_exceptions=True)

    async def _let_loose(self) -> None:
        """Begin each fault when it is due and there is room; come back when all parts are back."""
        busy: dict[str, asyncio.Task[None]] = {}
        begin, late_s = time.monotonic(), 0.0
        for fault in draw_faults(self._wishes.seed, self._wishes.faults):
            if self._wishes.only and fault.kind not in self._wishes.only:
                continue
            await asyncio.sleep(begin + fault.begin_s + late_s - time.monotonic())
            while len(busy) >= MOST_AT_ONCE or fault.concerns in busy:
                await asyncio.wait(busy.values(), return_when=asyncio.FIRST_COMPLETED)
                busy = {name: task for name, task in busy.items() if not task.done()}
            late_s = max(late_s, time.monotonic() - begin - fault.begin_s)
            busy[fault.concerns] = asyncio.create_task(self._one(fault))
            busy = {name: task for name, task in busy.items() if not task.done()}
        if busy:
            await asyncio.wait(busy.values())

    async def _one(self, fault: Fault) -> None:
        done = Done(fault, fault.target, set(self._watch.live))
        title = f"fault {fault.number}: {fault.kind} {fault.target}"
        tell(f"{self._at()} {title}{f' for {fault.lasts_s:.1f} s' if fault.lasts_s else ''}")
        try:
            done.whom = await self._acts.do(fault)
        except (ActError, DiskError, OSError) as error:
            self._broken.append(f"fault {fault.number}, {fault.kind} of {fault.target}: {error}")
            return
        self._done.append(done)
        settling = asyncio.create_task(self._settle(done))
        self._settling.add(settling)

    async def _settle(self, done: Done) -> None:
        done.tasks |= set(self._watch.live)
        done.settle_s = await self._watch.settled_s()
        if done.settle_s > 30:
            tell(f"{self._at()} fault {done.fault.number} settled after {done.settle_s:.1f} s")

    async def _judge(self) -> Verdict:
        rows = self._rows.tasks()
        lost = {}
        for requested in self._load.requested.values():
            row = rows[requested.id]
            if row.is_live:
                lost[row.id] = f"asked for as {requested.wish}, is still {row.state}"
            elif not requested.deserves(row):
                end = f"{row.outcome} {row.reason} {row.detail!r}"
                lost[row.id] = f"asked for as {requested.wish}, ended as {end}"
        for part in (*SERVERS, *AGENTS):
            if self._world.supervisor.pid(part) is None:
                self._broken.append(f"{part} does not run")
        await self._verify()
        self._sum_up(len(rows))
        return Verdict(self._done, lost, self._rows.doubles(), self._broken)

    async def _verify(self) -> None:
        """The promises of docs/architecture/integrity.md, by the site's own program."""
        await asyncio.sleep(FOLDERS_KEPT_S + 1)  # then storage lists what is there
        try:
            output = await self._world.manage("verify", "--patience-s", "60", "--grace-hours", "0")
        except PartError as error:
            self._broken.append(f"verify: {error}")
        else:
            tell(f"verify: {output.strip()}")

    def _sum_up(self, tasks: int) -> None:
        attempts, ends = self._rows.attempts()
        counts = ", ".join(f"{reason or 'live'} {count}" for reason, count in sorted(ends.items()))
        seconds = time.monotonic() - self._begin
        tell(f"{tasks} tasks and {attempts} attempts in {seconds:.0f} s: {counts}")

    def _note(self, text: str) -> None:
        self._broken.append(text)
        tell(f"{self._at()} {text}")

    def _at(self) -> str:
        return f"{time.monotonic() - self._begin:7.1f} s"
