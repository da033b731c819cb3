"""Run the bench: start a site, create load, inject faults, wait, and verify the site."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from bench.chaos.chaos_site import ChaosSite
from bench.chaos.disks import DiskError
from bench.chaos.injection import FaultInjector, InjectionError
from bench.chaos.load import LoadGenerator
from bench.chaos.plan import AGENTS, MOST_AT_ONCE, SERVERS, Fault, draw_faults
from bench.chaos.report import FaultResult, Verdict, log_line
from bench.chaos.rows import SiteDatabase
from bench.chaos.settling import TaskMonitor
from webprofile.operations.devserver.layout import Layout
from webprofile.operations.devserver.lock import HomeLock
from webprofile.operations.devserver.parts import FOLDERS_KEPT_S
from webprofile.operations.devserver.supervisor import PartError

#: all tasks must have ended so long after the last fault
END_WITHIN_S = 300.0
ONLINE_WITHIN_S = 120.0


@dataclass(frozen=True)
class ChaosOptions:
    """Options of the command line. `only`: kinds of faults; all kinds if empty."""

    faults: int
    seed: int
    tasks: int
    only: frozenset[str] = frozenset()
    home: Path | None = None


async def run(layout: Layout, lock: HomeLock, megengine: str, options: ChaosOptions) -> Verdict:
    """Run with a new site. Raises PartError, DiskError or ClockError if it cannot be started."""
    chaos_site = ChaosSite(layout, lock, megengine)
    try:
        await chaos_site.bring_up()
        await _all_online(SiteDatabase(layout.database))
        return await _Run(chaos_site, options).run()
    finally:
        await chaos_site.close()


async def _all_online(rows: SiteDatabase) -> None:
    """Wait until every agent has reported its runtimes. Raises PartError."""
    deadline = time.monotonic() + ONLINE_WITHIN_S
    while (count := rows.devices_with_runtimes()) < len(AGENTS):
        if time.monotonic() > deadline:
            raise PartError(f"{count} of {len(AGENTS)} agents are online.")
        await asyncio.sleep(0.5)


class _Run:
    def __init__(self, chaos_site: ChaosSite, options: ChaosOptions) -> None:
        self._chaos_site, self._options = chaos_site, options
        self._rows = SiteDatabase(chaos_site.layout.database)
        self._monitor = TaskMonitor(self._rows)
        self._load = LoadGenerator(chaos_site, options.seed, self._monitor)
        self._injector = FaultInjector(chaos_site, self._note)
        self._results: list[FaultResult] = []
        self._broken: list[str] = []
        self._settling: set[asyncio.Task[None]] = set()
        self._begin = time.monotonic()

    async def run(self) -> Verdict:
        self._begin = time.monotonic()
        watching = asyncio.create_task(self._monitor.run())
        loading = asyncio.create_task(self._load.run(self._options.tasks))
        try:
            await asyncio.sleep(3)
            await self._inject_all()
            self._chaos_site.heal()
            self._load.ending.set()
            log_line(f"{self._at()} all faults are over; {len(self._load.requested)} tasks so far")
            await asyncio.wait({loading}, timeout=END_WITHIN_S)
            await asyncio.gather(*self._settling)
            if loading.done():
                loading.result()
            return await self._judge()
        finally:
            for task in (watching, loading, *self._settling):
                task.cancel()
            await asyncio.gather(watching, loading, *self._settling, return_exceptions=True)

    async def _inject_all(self) -> None:
        """Start each fault when it is due and few enough are active; return when all have ended."""
        busy: dict[str, asyncio.Task[None]] = {}
        begin, late_s = time.monotonic(), 0.0
        for fault in draw_faults(self._options.seed, self._options.faults):
            if self._options.only and fault.kind not in self._options.only:
                continue
            await asyncio.sleep(begin + fault.begin_s + late_s - time.monotonic())
            while len(busy) >= MOST_AT_ONCE or fault.conflict_key in busy:
                await asyncio.wait(busy.values(), return_when=asyncio.FIRST_COMPLETED)
                busy = {name: task for name, task in busy.items() if not task.done()}
            late_s = max(late_s, time.monotonic() - begin - fault.begin_s)
            busy[fault.conflict_key] = asyncio.create_task(self._one(fault))
            busy = {name: task for name, task in busy.items() if not task.done()}
        if busy:
            await asyncio.wait(busy.values())

    async def _one(self, fault: Fault) -> None:
        result = FaultResult(fault, fault.target, set(self._monitor.live))
        title = f"fault {fault.number}: {fault.kind} {fault.target}"
        log_line(f"{self._at()} {title}{f' for {fault.lasts_s:.1f} s' if fault.lasts_s else ''}")
        try:
            result.whom = await self._injector.do(fault)
        except (InjectionError, DiskError, OSError) as error:
            self._broken.append(f"fault {fault.number}, {fault.kind} of {fault.target}: {error}")
            return
        self._results.append(result)
        settling = asyncio.create_task(self._settle(result))
        self._settling.add(settling)

    async def _settle(self, result: FaultResult) -> None:
        result.tasks |= set(self._monitor.live)
        result.settle_s = await self._monitor.settled_s()
        if result.settle_s > 30:
            log_line(
                f"{self._at()} fault {result.fault.number} settled after {result.settle_s:.1f} s"
            )

    async def _judge(self) -> Verdict:
        rows = self._rows.tasks()
        lost = {}
        for requested in self._load.requested.values():
            row = rows[requested.id]
            if row.is_live:
                lost[row.id] = f"asked for as {requested.scenario}, is still {row.state}"
            elif not requested.has_expected_end(row):
                end = f"{row.outcome} {row.reason} {row.detail!r}"
                lost[row.id] = f"asked for as {requested.scenario}, ended as {end}"
        for part in (*SERVERS, *AGENTS):
            if self._chaos_site.supervisor.pid(part) is None:
                self._broken.append(f"{part} does not run")
        await self._verify()
        self._sum_up(len(rows))
        return Verdict(self._results, lost, self._rows.doubles(), self._broken)

    async def _verify(self) -> None:
        """Check the invariants of docs/architecture/integrity.md with `manage.py verify`."""
        await asyncio.sleep(FOLDERS_KEPT_S + 1)  # storage caches its listings for so long
        try:
            output = await self._chaos_site.manage(
                "verify", "--patience-s", "60", "--grace-hours", "0"
            )
        except PartError as error:
            self._broken.append(f"verify: {error}")
        else:
            log_line(f"verify: {output.strip()}")

    def _sum_up(self, tasks: int) -> None:
        attempts, ends = self._rows.attempts()
        counts = ", ".join(f"{reason or 'live'} {count}" for reason, count in sorted(ends.items()))
        seconds = time.monotonic() - self._begin
        log_line(f"{tasks} tasks and {attempts} attempts in {seconds:.0f} s: {counts}")

    def _note(self, text: str) -> None:
        self._broken.append(text)
        log_line(f"{self._at()} {text}")

    def _at(self) -> str:
        return f"{time.monotonic() - self._begin:7.1f} s"
