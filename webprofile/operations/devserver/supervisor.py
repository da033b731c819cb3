"""Process supervisor: start parts, restart the ones that die, and stop all of them."""

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from webprofile.operations.devserver import process
from webprofile.operations.devserver.guard import (
    CLOSING,
    COOKIE_NAME,
    SHORT_GRACE_S,
    end_all,
    family_of,
)
from webprofile.operations.devserver.layout import REPOSITORY, Layout, bound_log
from webprofile.terminal.output import complain, say

LOG_LINES = 6
#: readiness check of a part: it returns False or raises OSError until the part responds
Check = Callable[[], bool]


class PartError(Exception):
    """A part cannot be kept alive, or a command failed; the text has the name and the cause."""


@dataclass(frozen=True)
class Restarts:
    """Restart policy: at most `limit` restarts in `within_s`, with pauses that double."""

    limit: int = 5
    within_s: float = 300.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 8.0


@dataclass(frozen=True)
class Part:
    """A process to keep alive.

    ready: readiness check; without one the part is ready after 0.5 s
    grace_s: time between TERM and KILL
    gone_for_good: exit codes after which the part is not restarted
    """

    name: str
    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready: Check | None = None
    ready_within_s: float = 60.0
    grace_s: float = 6.0
    gone_for_good: frozenset[int] = frozenset()


@dataclass
class _Kept:
    part: Part
    up: asyncio.Event = field(default_factory=asyncio.Event)
    process: asyncio.subprocess.Process | None = None
    keeper: asyncio.Task[None] | None = None
    deaths: deque[float] = field(default_factory=deque)


class Supervisor:
    """Keep parts alive until `close`; the future `failure` gets an exception if one cannot be."""

    def __init__(
        self,
        layout: Layout,
        environment: Mapping[str, str],
        lock: int,
        restarts: Restarts | None = None,
    ) -> None:
        """Create a supervisor.

        lock: descriptor of the home folder's lock, which the guard inherits
        """
        self._layout = layout
        self._environment = dict(environment)
        self._groups: list[list[_Kept]] = []
        self._cookie = secrets.token_hex(16)
        self._lock = lock
        self._restarts = restarts or Restarts()
        self._guard: subprocess.Popen[bytes] | None = None
        self._hurry = asyncio.Event()
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def open(self, *folders: Path, guard_grace_s: float = 8.0) -> None:
        """Start the guard, which deletes `folders` at the end.

        guard_grace_s: time between TERM and KILL of all parts if this process is killed
        """
        module = ["-S", "-m", "webprofile.operations.devserver.guard"]
        arguments = [self._cookie, str(guard_grace_s), *map(str, folders)]
        self._guard = subprocess.Popen(
            [sys.executable, *module, *arguments],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[self._lock],
        )

    async def start(self, *parts: Part) -> None:
        """Start parts concurrently and return when all are ready; they are stopped concurrently.

        A part that cannot be kept alive sets `failure`.
        """
        group = [_Kept(part) for part in parts]
        self._groups.append(group)
        for kept in group:
            kept.keeper = asyncio.create_task(self._keep(kept))
        for kept in group:
            await kept.up.wait()

    async def run(
        self,
        name: str,
        command: list[str],
        environment: Mapping[str, str] | None = None,
        *,
        timeout_s: float = 120.0,
    ) -> str:
        """Run a command and return its stdout; stderr goes to its log, and stdout too if it fails.

        Raises PartError if it fails or exceeds the timeout.
        """
        with self._layout.log(name).open("ab") as log:
            part = Part(name, command, environment or {})
            running = await self._spawn(part, stdout=subprocess.PIPE, stderr=log)
        try:
            async with asyncio.timeout(timeout_s):
                output, _ = await running.communicate()
        except TimeoutError:
            raise PartError(f"{name} did not end within {timeout_s:.0f} s.") from None
        finally:
            await self._end(running, grace_s=1.0)
        if running.returncode:
            with self._layout.log(name).open("ab") as log:
                log.write(output)
            raise PartError(f"{name} {self._why(name, running.returncode)}")
        return output.decode()

    async def show(self, command: list[str]) -> int:
        """Run a command with its output on our terminal; return its exit code."""
        running = await self._spawn(Part("demo", command), stdout=None, stderr=None)
        try:
            return await running.wait()
        finally:
            await self._end(running, grace_s=1.0)

    async def close(self) -> None:
        """Stop all parts in reverse order; afterwards no process of this supervisor is alive."""
        for group in reversed(self._groups):
            await asyncio.gather(*map(self._stop, group))
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(f"{CLOSING} -\n".encode())
                self._guard.stdin.close()
            if await asyncio.to_thread(self._guard.wait):  # the guard was killed
                await asyncio.to_thread(end_all, self._cookie, set(), SHORT_GRACE_S)

    def pid(self, name: str) -> int | None:
        """Return the process id of a part; None while it does not run."""
        for kept in (kept for group in self._groups for kept in group):
            if kept.part.name == name and kept.process and kept.process.returncode is None:
                return kept.process.pid
        return None

    def is_up(self, name: str) -> bool:
        """Return whether a part was ready at its last check."""
        named = [kept for group in self._groups for kept in group if kept.part.name == name]
        return any(kept.up.is_set() for kept in named)

    def hurry(self) -> None:
        """Skip the grace periods of parts that are being stopped."""
        self._hurry.set()

    # -- one part -------------------------------------------------------------------------------

    async def _keep(self, kept: _Kept) -> None:
        try:
            while (reason := await self._live_once(kept)) is not None:
                kept.up.clear()
                await self._pause(kept, reason)
            kept.up.set()  # ends the wait in `start`
        except (PartError, OSError) as error:
            if isinstance(error, OSError):  # for example, the folder of logs was deleted
                error = PartError(f"{kept.part.name} cannot be started: {error}")
            if not self.failure.done():
                self.failure.set_exception(error)

    async def _stop(self, kept: _Kept) -> None:
        if kept.keeper is not None:
            kept.keeper.cancel()
            await asyncio.gather(kept.keeper, return_exceptions=True)
        if kept.process is not None:
            await self._end(kept.process, grace_s=kept.part.grace_s)

    async def _live_once(self, kept: _Kept) -> str | None:
        """Start a part and wait for its end; return the cause, None if it must not be restarted."""
        part = kept.part
        with self._layout.log(part.name).open("ab") as log:
            kept.process = await self._spawn(part, stdout=log, stderr=log)
        over = asyncio.create_task(kept.process.wait())
        if await self._comes_up(part, over):
            kept.up.set()
            while not over.done():
                await asyncio.wait({over}, timeout=30)
                # the log may have been deleted, or the disk may be full
                with contextlib.suppress(OSError):
                    bound_log(self._layout.log(part.name))
        if over.done():
            reason = self._why(part.name, over.result())
        else:
            reason = f"did not answer within {part.ready_within_s:.0f} s."
        # also ends its children, which outlive a killed part
        await self._end(kept.process, grace_s=part.grace_s)
        if kept.process.returncode in part.gone_for_good:
            complain(f"{part.name} {reason}\n{part.name} is not started again.")
            return None
        return reason

    async def _comes_up(self, part: Part, over: asyncio.Task[int]) -> bool:
        if part.ready is None:
            await asyncio.wait({over}, timeout=0.5)
            return not over.done()
        deadline = time.monotonic() + part.ready_within_s
        while not over.done() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if await asyncio.to_thread(part.ready):
                    return not over.done()
            await asyncio.wait({over}, timeout=0.05)
        return False

    async def _pause(self, kept: _Kept, reason: str) -> None:
        """Report the end of a part and wait before its restart. Raises PartError after too many."""
        now = time.monotonic()
        kept.deaths.append(now)
        policy = self._restarts
        while kept.deaths[0] < now - policy.within_s:
            kept.deaths.popleft()
        name = kept.part.name
        if len(kept.deaths) > policy.limit:
            raise PartError(f"{name} died {len(kept.deaths)} times; the last time it {reason}")
        pause_s = policy.first_pause_s * 2 ** (len(kept.deaths) - 1)
        pause_s = min(policy.longest_pause_s, pause_s)
        complain(f"{name} {reason}\n{name} starts again in {pause_s:g} s.")
        await asyncio.sleep(pause_s)
        say(f"{name} starts again.")

    async def _spawn(
        self, part: Part, stdout: IO[bytes] | int | None, stderr: IO[bytes] | int | None
    ) -> asyncio.subprocess.Process:
        launcher = [sys.executable, "-I", "-S", process.__file__, str(os.getpid())]
        spawned = await asyncio.create_subprocess_exec(
            *launcher,
            *part.command,
            cwd=REPOSITORY,
            env={**self._environment, **part.environment, COOKIE_NAME: self._cookie},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        self._report_to_guard(spawned.pid)
        return spawned

    def _report_to_guard(self, pid: int) -> None:
        """Report a process and its current descendants to the guard, which will end them."""
        if self._guard is not None and self._guard.stdin is not None:
            lines = "".join(f"{member} {started}\n" for member, started in family_of(pid))
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.write(lines.encode())
                self._guard.stdin.flush()

    async def _end(self, running: asyncio.subprocess.Process, *, grace_s: float) -> None:
        """End a process, then the rest of its process group: TERM, grace period, KILL.

        TERM is sent to the process alone first, so that it can end its children.
        """
        if running.returncode is None:
            self._report_to_guard(running.pid)  # later its orphans could not be recognised
            running.terminate()
            await self._wait_while(lambda: running.returncode is None, grace_s)
        if _signal_group(running.pid, signal.SIGTERM):
            await self._wait_while(lambda: _signal_group(running.pid, None), 1.0)
            _signal_group(running.pid, signal.SIGKILL)
            await running.wait()

    async def _wait_while(self, is_there: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while is_there() and time.monotonic() < deadline and not self._hurry.is_set():  # noqa: ASYNC110
            # the end of a process group cannot be awaited
            await asyncio.sleep(0.02)

    def _why(self, name: str, code: int) -> str:
        """Return a text on how a process ended, with the last lines of its log."""
        ending = f"exited with code {code}."
        if code < 0:
            ending = f"was killed by {signal.Signals(-code).name}."
        log = self._layout.log(name)
        lines: list[str] = []
        with contextlib.suppress(FileNotFoundError):  # the user deleted it
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        tail = (f"    {line}" for line in lines)
        return "\n".join([f"{ending} Its log, {log}, ends with:", *tail])


def _signal_group(group: int, number: signal.Signals | None) -> bool:
    """Send a signal (None: only test) to a process group; return False if the group is empty."""
    try:
        os.killpg(group, number or 0)
    except ProcessLookupError:
        return False
    return True
