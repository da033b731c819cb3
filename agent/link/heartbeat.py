"""Start, inform and end the heartbeat process (`agent.link.heartbeat_process`)."""

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


class Heart:
    """One process for the agent's whole life; one that dies is started again and told the same.

    Nothing here waits: `beat` and `rest` write one line to a pipe. Between them the process goes on
    whatever this one does.
    """

    def __init__(self, server: str, token: str, cores: Iterable[int] = ()) -> None:
        self._first: dict[str, object] = {"server": server, "token": token, "cores": sorted(cores)}
        self._order: dict[str, object] = {"rest": True}
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        #: its beats arrive; False until the first one did, and for good if the token is refused
        self.is_well = False

    @classmethod
    async def start(cls, server: str, token: str, cores: Iterable[int] = ()) -> "Heart":
        """Start the process; `cores` are what it is bound to, all if empty. Raises OSError."""
        made = cls(server, token, cores)
        await made._launch()
        made._keeping = asyncio.create_task(made._keep())
        return made

    @property
    def pid(self) -> int | None:
        """None while none runs."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    def beat(self, running: frozenset[UUID], every_s: float) -> None:
        """Renew the leases of these attempts: now, if they are new, and then again and again."""
        self._order = {"running": sorted(map(str, running)), "every_s": every_s}
        self._tell(self._order)

    def rest(self) -> None:
        """Do not beat until told again."""
        self._order = {"rest": True}
        self._tell(self._order)

    async def close(self) -> None:
        """End the process."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await process.wait()
        except TimeoutError:
            # it waits for a server that does not answer
            process.kill()
            await process.wait()

    async def _launch(self) -> None:
        # by its path: whatever the working folder is; isolated: it needs nothing but the library
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            _PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._tell(self._first)
        self._tell(self._order)

    async def _keep(self) -> None:
        while self._process is not None:
            await self._listen(self._process)
            status = await self._process.wait()
            if status == heartbeat_process.REFUSED:
                # the agent beats by itself from now on, and its socket says what to do
                log.error("heart_refused")
                return
            log.warning("heart_ended status=%s", status)
            await asyncio.sleep(_RESTART_S)
            try:
                await self._launch()
            except OSError as exc:
                log.warning("heart_not_started cause=%r", str(exc))

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Follow how it is until it ends."""
        if process.stdout is not None:
            async for line in process.stdout:
                self.is_well = line.strip() == b"well"
        self.is_well = False

    def _tell(self, order: dict[str, object]) -> None:
        """A process that is gone is told when it is there again."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError, RuntimeError) as exc:
            log.warning("heart_not_told cause=%s", type(exc).__name__)
