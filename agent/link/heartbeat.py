"""Start, control and stop the heartbeat process (`agent.link.heartbeat_process`)."""

import asyncio
import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from uuid import UUID

from agent.link import heartbeat_process

log = logging.getLogger(__name__)

_PROGRAM = str(Path(heartbeat_process.__file__).resolve())
_RESTART_S = 1.0
_PATIENCE_S = 2.0


class HeartbeatProcess:
    """The heartbeat process of the agent. If it dies, it is restarted with the same order.

    No method blocks: `renew_leases` and `pause` write one line to a pipe. In between, the process
    sends heartbeats whatever the agent does.
    """

    def __init__(self, server: str, token: str, cores: Iterable[int] = ()) -> None:
        self._first: dict[str, object] = {"server": server, "token": token, "cores": sorted(cores)}
        self._order: dict[str, object] = {"rest": True}
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        #: whether its heartbeats arrive and the server has no orders, which it sends on the socket
        #: only; False before the first heartbeat, and for good if the server refuses the token
        self.is_well = False

    @classmethod
    async def start(cls, server: str, token: str, cores: Iterable[int] = ()) -> "HeartbeatProcess":
        """Start the process, bound to `cores` (all if empty). Raises OSError."""
        process = cls(server, token, cores)
        await process._launch()
        process._supervisor = asyncio.create_task(process._supervise())
        return process

    @property
    def pid(self) -> int | None:
        """Process id, None while no process runs."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    def renew_leases(self, running: frozenset[UUID], every_s: float) -> None:
        """Renew the leases of these attempts every `every_s` seconds; at once if they are new."""
        self._order = {"running": sorted(map(str, running)), "every_s": every_s}
        self._send(self._order)

    def pause(self) -> None:
        """Pause the heartbeats until the next call of `renew_leases`."""
        self._order = {"rest": True}
        self._send(self._order)

    async def close(self) -> None:
        """End the process."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await process.wait()
        except TimeoutError:
            # it is waiting for a server that does not answer
            process.kill()
            await process.wait()

    async def _launch(self) -> None:
        # started by its path, so that the working folder does not matter; isolated (-I), because
        # it needs the standard library only
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            _PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._send(self._first)
        self._send(self._order)

    async def _supervise(self) -> None:
        """Follow the process, and restart it when it ends, unless the server refused the token."""
        while self._process is not None:
            await self._listen(self._process)
            status = await self._process.wait()
            if status == heartbeat_process.REFUSED:
                # the agent sends heartbeats itself from now on; its socket reports the refusal
                log.error("heartbeat_process_refused")
                return
            log.warning("heartbeat_process_ended status=%s", status)
            await asyncio.sleep(_RESTART_S)
            try:
                await self._launch()
            except OSError as exc:
                log.warning("heartbeat_process_not_started cause=%r", str(exc))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Update `is_well` from the status lines of the process until it ends."""
        if process.stdout is not None:
            async for line in process.stdout:
                self.is_well = line.strip() == b"well"
        self.is_well = False

    def _send(self, order: dict[str, object]) -> None:
        """Write an order to the process; one that has ended gets it when it is restarted."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError, RuntimeError) as exc:
            log.warning("heartbeat_process_not_informed cause=%s", type(exc).__name__)
