"""Pool of pre-started interpreters, which save the half second that importing MegEngine takes.

While the device is idle, the pool keeps one interpreter per wheel that has imported the library and
waits for its arguments, in the sandbox, with the limits and in the folder that the attempt will
use. Each process serves one attempt. None runs during a measurement: when an attempt starts, all
processes except the one that it uses are ended. A process exits when its stdin is closed, i.e. when
its agent dies.
"""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

from agent.execution.processes import (
    ChildProcess,
    end_group,
    end_marked,
    mark_process,
    reap_orphans,
)
from agent.execution.runner import Limits, Run, limit_cpu, start_process, start_run
from agent.execution.sandbox import Sandbox
from agent.execution.spool import Folder, Spool, remove_tree
from agent.inventory import LocalRuntime

log = logging.getLogger(__name__)

#: idle time before processes are started; a queued task arrives earlier than that
REST_S = 1.0
#: argument that agent/load_and_run recognizes
WAIT = "--wait-for-arguments"


class WarmProcess:
    """A pre-started process that waits in `folder` for the arguments of one attempt.

    `mark` is its value of ATTEMPT_VARIABLE; `command` is the command line without arguments.
    """

    def __init__(
        self,
        process: ChildProcess,
        folder: Folder,
        command: Sequence[str],
    ) -> None:
        self.pid, self.folder, self.mark = process.pid, folder, folder.record.attempt
        self._process, self._command = process, command

    @property
    def alive(self) -> bool:
        """Whether the process is running; False for a zombie."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def hand_over(self, command: Sequence[str]) -> Run:
        """Send the arguments of `command` to the process, which then runs it. Call it once only."""
        stdin = self._process.stdin
        if stdin is None:
            raise RuntimeError("a process that waits has a pipe for stdin")
        arguments = list(command[len(self._command) :])
        # if it has just ended, the run reports it
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(arguments).encode() + b"\n")
        stdin.close()
        return Run(self._process, self.mark, is_prestarted=True)

    async def end(self) -> None:
        """End the process and its descendants. Its folder stays."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.returncode is None:
            await asyncio.shield(end_group(self.pid, self.mark))
            await self._process.wait()
        else:
            await asyncio.to_thread(reap_orphans)


class WarmPool:
    """At most one process for each usable wheel in `runtimes`."""

    def __init__(
        self,
        spool: Spool,
        runtimes: dict[str, LocalRuntime],
        limits: Limits,
        sandbox: Sandbox,
    ) -> None:
        self._spool, self._limits, self._sandbox = spool, limits, sandbox
        #: the agent adds those that were too slow when it started
        self._runtimes = runtimes
        self._waiting: dict[str, WarmProcess] = {}
        self._warming: asyncio.Task[None] | None = None
        #: tasks that must finish before an attempt starts
        self._ending: set[asyncio.Task[None]] = set()

    def remove_leftovers(self) -> None:
        """End the processes and remove the folders of an agent that was killed."""
        for path in self._spool.warm_folders():
            try:
                end_marked(UUID(path.name))
            except ValueError:
                log.warning("spool_litter_removed folder=%s", path.name)
            remove_tree(path)

    def rest(self) -> None:
        """Start missing processes if the device stays idle for REST_S."""
        if self._runtimes and (self._warming is None or self._warming.done()):
            self._warming = asyncio.create_task(self._warm())

    def take(self, version: str) -> WarmProcess | None:
        """Return the process for an attempt with this runtime, and begin to end all others."""
        if self._warming is not None:
            self._warming.cancel()
            self._end_later(self._warming)
            self._warming = None
        taken = self._waiting.pop(version, None)
        if taken is not None and not taken.alive:
            self._end_later(asyncio.create_task(_discard(taken)))
            taken = None
        for other in self._waiting.values():
            self._end_later(asyncio.create_task(_discard(other)))
        self._waiting.clear()
        return taken

    async def cleared(self) -> None:
        """Wait until all processes that `take` did not return have ended."""
        if self._ending:
            await asyncio.wait(self._ending)

    async def close(self) -> None:
        """End all processes and start no more."""
        self._runtimes = {}
        self.take("")
        await self.cleared()

    def _end_later(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _warm(self) -> None:
        await asyncio.sleep(REST_S)
        for version, runtime in list(self._runtimes.items()):
            if not runtime.is_usable_wheel:
                continue
            process = self._waiting.get(version)
            if process is not None and process.alive:
                continue
            if process is not None:
                await _discard(process)
            try:
                self._waiting[version] = await self._start(runtime.command)
            except OSError as exc:
                log.warning("warming_failed runtime=%s cause=%r", version, str(exc))

    async def _start(self, command: Sequence[str]) -> WarmProcess:
        mark = uuid4()
        folder = self._spool.make_warm_folder(mark)
        try:
            process = await start_process(
                self._sandbox.wrap([*command, WAIT], folder.work),
                folder.work,
                folder.output,
                self._limits,
                mark,
                stdin=subprocess.PIPE,
            )
        except BaseException:
            remove_tree(folder.path)
            raise
        log.info("process_warmed pid=%d", process.pid)
        return WarmProcess(process, folder, command)


async def _discard(process: WarmProcess) -> None:
    await process.end()
    await asyncio.to_thread(process.folder.remove)


class Launcher:
    """Starts the processes of an attempt one after the other.

    The first one is the pre-started process `waiting`, if it is still alive.
    """

    def __init__(
        self,
        folder: Folder,
        attempt: UUID,
        limits: Limits,
        sandbox: Sandbox,
        pool: WarmPool,
        waiting: WarmProcess | None,
    ) -> None:
        self.folder, self._attempt = folder, attempt
        self._limits, self._sandbox, self._pool = limits, sandbox, pool
        self._waiting = waiting

    async def start(self, command: list[str], work: Path) -> Run:
        """Use the pre-started process, or start a new one in the folder `work`. Raises OSError."""
        await self._pool.cleared()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.alive:
            # write the record first: once it has its arguments, the process outlives this agent
            self._note(waiting.pid, waiting.mark)
            if self._limits.cpu_s is not None:
                # it was started before its task was known
                limit_cpu(waiting.pid, self._limits.cpu_s)
            return waiting.hand_over(command)
        boxed = self._sandbox.wrap(command, work)
        run = await start_run(boxed, work, self.folder.output, self._limits, self._attempt)
        try:
            self._note(run.pid, None)
        except BaseException:
            # no watchdog would end it
            await asyncio.shield(end_group(run.pid, self._attempt))
            raise
        return run

    def _note(self, pid: int, mark: UUID | None) -> None:
        """Record a process for the next agent; if the disk is full, it runs without a record."""
        try:
            self.folder.write(durable=False, process=mark_process(pid), mark=mark)
        except OSError as exc:
            log.warning("process_not_recorded pid=%d cause=%r", pid, exc.strerror)
