"""One attempt's life on the device: accept, download, run, end. What follows is in `delivery`."""

import asyncio
import logging
import shlex
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from agent.delivery import Delivery
from agent.feed import Feed
from agent.inventory import Runtime
from agent.outbox import Outbox
from agent.processes import mark_process
from agent.protocol import AttemptAccepted, AttemptFinished, AttemptStarted, EndReason, Start
from agent.protocol.options import OptionError, build_arguments
from agent.results import PROFILE_NAME, check_files, keep_log, keep_profile
from agent.retry import Policies
from agent.runner import Limits, Run, RunResult, signal_name, start_run
from agent.sandbox import Sandbox
from agent.spool import Folder, Spool
from agent.tail import LogTail
from agent.transfer import Transfer, TransferError
from agent.warm import WarmPool, WarmProcess

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Tools:
    """What every attempt shares. `stop_grace_s` is a process's grace when the agent goes down."""

    outbox: Outbox
    spool: Spool
    transfer: Transfer
    policies: Policies
    runtimes: dict[str, Runtime]
    warm: WarmPool
    limits: Limits = field(default_factory=Limits)
    sandbox: Sandbox = field(default_factory=Sandbox)
    log_limit_bytes: int = 1 << 20
    stop_grace_s: float = 5.0


class Ending(Exception):
    """The attempt ends here, for a reason the server can explain."""

    def __init__(self, reason: EndReason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason.value)


class Stopped(Exception):
    """The agent goes down; the next one finds the attempt in the spool."""


class Attempt:
    """From the server's order to the acknowledged end. `cancel` and `stop` may come at any time."""

    def __init__(self, order: Start, tools: Tools) -> None:
        self.id: UUID = order.attempt
        self._order, self._tools = order, tools
        #: set by `cancel` and by `stop`: the process must end
        self._halted = asyncio.Event()
        #: set by `cancel` once the process has ended: its files are not wanted any more
        self._abandoned = asyncio.Event()
        self._stopping = False
        self._folder: Folder | None = None
        self._on_disk = False
        self.delivering = False

    def cancel(self) -> None:
        """The server does not want it any more."""
        if self.delivering:
            self._abandoned.set()
        self._halted.set()

    def stop(self) -> None:
        """The agent goes down: end the process, leave the rest to the next agent."""
        self._stopping = True
        self._halted.set()

    def announce(self) -> None:
        """Tell the server that the order is on disk, again if it asks again."""
        if self._on_disk:
            self._tools.outbox.ask(AttemptAccepted(attempt=self.id))

    async def live(self) -> None:
        """Do everything. Returns when the server has acknowledged the end, or after `stop`."""
        try:
            end = await self._end_of_run()
        except Stopped:
            return
        log.info("attempt_ended attempt=%s reason=%s detail=%r", self.id, end.reason, end.detail)
        folder = self._folder
        if folder is None or not self._on_disk:
            self.delivering = True
            # never accepted, so nothing can be lost: the server would repeat its order
            await self._tools.outbox.deliver(end)
            if folder is not None:
                await asyncio.to_thread(folder.remove)
            return
        await asyncio.to_thread(folder.remove_work)
        if self._stopping:
            await asyncio.to_thread(lambda: folder.write(ended=end))
            return
        self.delivering = True
        delivery = Delivery(folder, self._tools.outbox, self._tools.transfer)
        await delivery.run(end, self._tools.policies, self._abandoned)

    async def _end_of_run(self) -> AttemptFinished:
        try:
            return await self._run()
        except Ending as end:
            return self._finished(end.reason, detail=end.detail)
        except Stopped:
            raise
        except Exception as exc:
            # one of the agent's broad catches: a bug in one attempt must not silence the device
            log.exception("attempt_broke attempt=%s", self.id)
            # without an OSError's path: how a device is laid out is no user's business
            text = exc.strerror if isinstance(exc, OSError) else str(exc)
            return self._finished(EndReason.AGENT_ERROR, detail=f"{type(exc).__name__}: {text}")

    async def _run(self) -> AttemptFinished:
        warm = self._tools.warm.take(self._order.runtime)
        try:
            return await self._run_with(warm)
        finally:
            if warm is not None:
                await warm.end()

    async def _run_with(self, warm: WarmProcess | None) -> AttemptFinished:
        folder = self._folder = self._make_folder(warm)
        opening = asyncio.create_task(self._open(folder))
        try:
            command = self._command()
            # the disk and the network at the same time: the device's queue waits for both
            download_s = await self._unless_halted(self._download(folder.work))
        finally:
            await opening
        run = await self._start(folder, command, warm)
        started = AttemptStarted(
            attempt=self.id,
            at=time.time(),
            download_s=download_s,
            command=shlex.join(command)[:8000],
        )
        tail = LogTail(folder.output, self._tools.log_limit_bytes)
        feed = Feed(started, tail, self._tools.outbox)
        log.info("attempt_started attempt=%s pid=%d", self.id, run.pid)
        result = await self._watch(run, feed)
        keep_log(folder, tail)
        return self._judge(result, has_profile=keep_profile(folder))

    def _make_folder(self, warm: WarmProcess | None) -> Folder:
        spool = self._tools.spool
        return spool.adopt_folder(warm.folder, self.id) if warm else spool.make_folder(self.id)

    async def _start(self, folder: Folder, command: list[str], warm: WarmProcess | None) -> Run:
        """Hand the arguments to the process that waits in the folder, or start one."""
        tools = self._tools
        await tools.warm.cleared()
        if warm is not None and warm.alive:
            # first the record: as soon as the process has its arguments it outlives this agent
            folder.write(durable=False, process=mark_process(warm.pid), mark=warm.mark)
            return warm.hand_over(command)
        folder.output.unlink(missing_ok=True)
        boxed = tools.sandbox.wrap(command, folder.work)
        run = await start_run(boxed, folder.work, folder.output, tools.limits, self.id)
        folder.write(durable=False, process=mark_process(run.pid))
        return run

    async def _open(self, folder: Folder) -> None:
        await asyncio.to_thread(self._tools.spool.open_attempt, folder)
        self._on_disk = True
        self.announce()

    async def _download(self, work: Path) -> float:
        files = (self._order.model, *self._order.data)
        try:
            return await self._tools.transfer.fetch_all(files, work)
        except TransferError as exc:
            raise Ending(EndReason.DOWNLOAD_FAILED, str(exc)) from exc

    def _command(self) -> list[str]:
        """The whole command line. Raises Ending if the order cannot or must not be run."""
        order = self._order
        runtime = self._tools.runtimes.get(order.runtime)
        if runtime is None or not runtime.command:
            why = runtime.info.problem if runtime else "not configured on this device"
            raise Ending(EndReason.NO_RUNTIME, f"MegEngine {order.runtime}: {why}")
        try:
            check_files(order)
            inputs = {file.input: file.name for file in order.data}
            arguments = build_arguments(order.model.name, inputs, order.options, PROFILE_NAME)
        except (OptionError, ValueError) as exc:
            raise Ending(EndReason.REFUSED, str(exc)) from exc
        return [*runtime.command, *arguments]

    async def _watch(self, run: Run, feed: Feed) -> RunResult:
        following = asyncio.create_task(feed.follow())
        try:
            result = await run.wait(self._order.timeout_s, self._grace_s, self._halted)
        finally:
            following.cancel()
        if self._stopping and result.reason is EndReason.CANCELLED:
            raise Stopped
        await feed.finish()
        return result

    def _grace_s(self) -> float:
        return self._tools.stop_grace_s if self._stopping else self._order.grace_s

    def _judge(self, result: RunResult, *, has_profile: bool) -> AttemptFinished:
        """Success is exit code 0 and a profile: load_and_run may report its end and then abort."""
        reason, detail = result.reason, signal_name(result.exit_code)
        if reason is EndReason.TIMED_OUT:
            detail = f"stopped after {self._order.timeout_s:g} s"
        elif reason is EndReason.EXITED and result.exit_code == 0 and not has_profile:
            reason, detail = EndReason.NO_PROFILE, "load_and_run wrote no profile"
        return self._finished(reason, detail=detail, exit_code=result.exit_code, run_s=result.run_s)

    async def _unless_halted(self, work: Coroutine[Any, Any, T]) -> T:
        """Raises Stopped, or Ending as cancelled, if that comes before the work is done."""
        working, halting = asyncio.create_task(work), asyncio.create_task(self._halted.wait())
        try:
            await asyncio.wait({working, halting}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise Stopped if self._stopping else Ending(EndReason.CANCELLED, "before its start")
        finally:
            halting.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    def _finished(
        self,
        reason: EndReason,
        *,
        detail: str = "",
        exit_code: int | None = None,
        run_s: float | None = None,
    ) -> AttemptFinished:
        return AttemptFinished(
            attempt=self.id,
            at=time.time(),
            reason=reason,
            detail=detail[:1000],
            exit_code=exit_code,
            run_s=run_s,
        )
