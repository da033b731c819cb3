"""Manage the attempts that this agent holds, each in its own asyncio task.

The server decides their number.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from agent import logs
from agent.execution.artifacts import keep_log
from agent.execution.attempt import KEPT_S, Attempt, Tools
from agent.execution.delivery import Delivery
from agent.execution.processes import end_leftovers
from agent.execution.script_rules import ScriptRules
from agent.execution.spool import Folder
from agent.link.log_tail import LogTail
from agent.protocol.messages import (
    Ack,
    AttemptAccepted,
    AttemptFinished,
    Cancel,
    EndReason,
    Enough,
    ServerMessage,
    Start,
    Uploads,
)
from agent.protocol.notes import Note

log = logging.getLogger(__name__)


class InterruptedAttempt:
    """An attempt that an earlier agent process left in the spool. It is not run again.

    It has the interface of `Attempt`. Its remaining processes are killed, and its end is delivered.
    """

    delivering = True

    def __init__(self, folder: Folder, tools: Tools) -> None:
        self.id: UUID = folder.record.attempt
        self.task, self.trace = folder.record.task, ""
        self._folder, self._tools = folder, tools
        self._abandoned = asyncio.Event()
        self._began_at = time.monotonic()

    def cancel(self) -> None:
        """Cancel the delivery, except of a run that was cancelled before and keeps its files."""
        end = self._folder.record.ended
        keeps_files = end is not None and end.reason is EndReason.CANCELLED
        if not keeps_files or time.monotonic() - self._began_at > KEPT_S:
            self._abandoned.set()

    def enough(self) -> None:
        """Do nothing: nothing is being measured."""

    def stop(self) -> None:
        """Do nothing: no process is running, and the caller cancels `live`."""

    def announce(self) -> None:
        self._tools.outbox.ask(AttemptAccepted(attempt=self.id))

    async def live(self) -> None:
        """Deliver the end in the spool, or `agent_restarted` if there is none."""
        end = self._folder.record.ended
        if end is None:
            end = await self._interrupt()
        tools = self._tools
        delivery = Delivery(self._folder, tools.outbox, tools.transfer, tools.policies)
        await delivery.run(end, self._abandoned)

    async def _interrupt(self) -> AttemptFinished:
        record = self._folder.record
        await end_leftovers(record.process, record.mark or self.id)
        # first, because it may have filled the disk
        await asyncio.to_thread(self._folder.remove_work)
        tail = LogTail(self._folder.output, self._tools.log_limit_bytes)
        if self._folder.output.exists():
            await asyncio.to_thread(tail.finish)
            keep_log(self._folder, tail)
        log.warning("attempt_interrupted attempt=%s", self.id)
        return AttemptFinished(attempt=self.id, at=time.time(), reason=EndReason.AGENT_RESTARTED)


class AttemptManager:
    """Creates, cancels and tracks attempts by the server's messages, across connections."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._held: dict[UUID, Attempt | InterruptedAttempt] = {}
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._denials: set[asyncio.Task[object]] = set()
        #: whether an order is left to the agent that replaces this one
        self.leaves_order: Callable[[], bool] = lambda: False

    def held(self) -> frozenset[UUID]:
        """Ids of all attempts whose end the server has not acknowledged."""
        return frozenset(self._held)

    @property
    def scripts(self) -> ScriptRules:
        """Rules for scripts that are ordered from now on; running scripts keep their rules."""
        return self._tools.scripts

    @scripts.setter
    def scripts(self, rules: ScriptRules) -> None:
        self._tools = replace(self._tools, scripts=rules)

    def recover(self) -> None:
        """Take over the attempts that an earlier agent process left in the spool."""
        self._tools.warm.remove_leftovers()
        for folder in self._tools.spool.folders():
            self._take(InterruptedAttempt(folder, self._tools))
        self.rest()

    def handle(self, message: ServerMessage) -> None:
        """Handle a message of the server, without blocking."""
        match message:
            case Start():
                self._start(message)
            case Cancel():
                self._cancel(message.attempt)
            case Enough():
                self._end_early(message.attempt)
            case Ack():
                self._tools.outbox.answer(message.of, message.attempt)
                if message.of == "attempt.finished":
                    self._let_go(message.attempt)
            case Uploads():
                self._tools.outbox.answer("attempt.uploads", message.attempt, message)
            case _:
                log.warning("message_out_of_place type=%s", message.type)

    async def stop(self) -> None:
        """End all processes after their grace period; undelivered results stay in the spool."""
        running = [self._tasks[a.id] for a in self._held.values() if not a.delivering]
        for attempt in self._held.values():
            attempt.stop()
        if running:
            # attempts wait for the grace period themselves; 5 s are for SIGKILL and the disk
            await asyncio.wait(running, timeout=self._tools.stop_grace_s + 5)
        everything = [*self._tasks.values(), *self._denials]
        for task in everything:
            task.cancel()
        await asyncio.gather(*everything, return_exceptions=True)

    def _start(self, order: Start) -> None:
        attempt = self._held.get(order.attempt)
        if attempt is not None:
            attempt.announce()
            return
        if not self._held and self.leaves_order():
            # on a device whose queue is never empty, no other moment would come; the server repeats
            # the order, also to the new agent
            log.info("order_left_to_the_next_agent attempt=%s", order.attempt)
            return
        log.info(
            "attempt_ordered attempt=%s task=%s runtime=%s",
            order.attempt,
            order.task,
            order.runtime,
        )
        self._take(Attempt(order, self._tools))

    def _cancel(self, attempt_id: UUID) -> None:
        attempt = self._held.get(attempt_id)
        if attempt is not None:
            log.info("attempt_cancelled attempt=%s", attempt_id)
            attempt.cancel()
            return
        # the order never arrived, or the end was acknowledged: nothing is running here
        end = AttemptFinished(
            attempt=attempt_id,
            at=time.time(),
            reason=EndReason.CANCELLED,
            notes=(Note.of("attempt_unknown"),),
        )
        denial: asyncio.Task[object] = asyncio.create_task(self._tools.outbox.deliver(end))
        self._denials.add(denial)
        denial.add_done_callback(self._denials.discard)

    def _end_early(self, attempt_id: UUID) -> None:
        # without the attempt, its end was acknowledged while the order was on its way
        if (attempt := self._held.get(attempt_id)) is not None:
            log.info("attempt_has_enough attempt=%s", attempt_id)
            attempt.enough()

    def _let_go(self, attempt_id: UUID) -> None:
        """Stop holding a delivered attempt, before the order that follows its end arrives."""
        attempt = self._held.get(attempt_id)
        if attempt is not None and attempt.delivering:
            del self._held[attempt_id]

    def _take(self, attempt: Attempt | InterruptedAttempt) -> None:
        self._held[attempt.id] = attempt
        self._tools.quiet_mode.renew()
        self._tasks[attempt.id] = asyncio.create_task(self._live(attempt))

    async def _live(self, attempt: Attempt | InterruptedAttempt) -> None:
        logs.bind(attempt=attempt.id, task=attempt.task, trace=attempt.trace)
        try:
            await attempt.live()
        except Exception:
            # a full disk or a bug: the record stays in the spool for the next start of the agent
            log.exception("attempt_stuck attempt=%s", attempt.id)
        finally:
            self._held.pop(attempt.id, None)
            self._tasks.pop(attempt.id, None)
            self._tools.quiet_mode.renew()
            self.rest()

    def rest(self) -> None:
        """Pre-start processes if no attempt is held."""
        if not self._held:
            self._tools.warm.rest()
