"""An attempt that an earlier agent left in the spool: never run again, only brought to its end."""

import asyncio
import logging
import time
from uuid import UUID

from agent.attempt import Tools
from agent.delivery import Delivery
from agent.processes import end_leftovers
from agent.protocol import AttemptAccepted, AttemptFinished, EndReason
from agent.results import keep_log
from agent.spool import Folder
from agent.tail import LogTail

log = logging.getLogger(__name__)


class LeftAttempt:
    """Has the face of an `Attempt`; whatever still runs of it is killed first."""

    delivering = True

    def __init__(self, folder: Folder, tools: Tools) -> None:
        self.id: UUID = folder.record.attempt
        self.task, self.trace = folder.record.task, ""
        self._folder, self._tools = folder, tools
        self._abandoned = asyncio.Event()

    def cancel(self) -> None:
        self._abandoned.set()

    def stop(self) -> None:
        """Nothing runs; the caller cancels `live`."""

    def announce(self) -> None:
        self._tools.outbox.ask(AttemptAccepted(attempt=self.id))

    async def live(self) -> None:
        """Deliver the end it had, or `agent_restarted` if it had none."""
        end = self._folder.record.ended
        if end is None:
            end = await self._interrupt()
        delivery = Delivery(self._folder, self._tools.outbox, self._tools.transfer)
        await delivery.run(end, self._tools.policies, self._abandoned)

    async def _interrupt(self) -> AttemptFinished:
        record = self._folder.record
        await end_leftovers(record.process, record.mark or self.id)
        tail = LogTail(self._folder.output, self._tools.log_limit_bytes)
        if self._folder.output.exists():
            await asyncio.to_thread(tail.finish)
            keep_log(self._folder, tail)
        await asyncio.to_thread(self._folder.remove_work)
        log.warning("attempt_interrupted attempt=%s", self.id)
        return AttemptFinished(attempt=self.id, at=time.time(), reason=EndReason.AGENT_RESTARTED)
