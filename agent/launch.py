"""Starting the processes of one attempt: the one that waits already, or a new one."""

from uuid import UUID

from agent.closed_sandbox import ClosedSandbox
from agent.processes import mark_process
from agent.runner import Limits, Run, limit_cpu, start_run
from agent.sandbox import Sandbox
from agent.spool import Folder
from agent.warm import WarmPool, WarmProcess


class Launcher:
    """One process after the other, all in the same folder; stdout and stderr go to its output."""

    def __init__(
        self,
        folder: Folder,
        attempt: UUID,
        limits: Limits,
        sandbox: Sandbox | ClosedSandbox,
        warm: WarmPool,
    ) -> None:
        self.folder, self._attempt = folder, attempt
        self._limits, self._sandbox, self._pool = limits, sandbox, warm
        self._waiting: WarmProcess | None = None

    def offer(self, process: WarmProcess | None) -> None:
        """A process that waits in the folder: the next `start` takes it, if it still lives then."""
        self._waiting = process

    async def start(self, command: list[str]) -> Run:
        """Hand the arguments to the process that waits, or start one. Raises OSError."""
        await self._pool.cleared()
        waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting.alive:
            # first the record: as soon as the process has its arguments it outlives this agent
            self.folder.write(durable=False, process=mark_process(waiting.pid), mark=waiting.mark)
            if self._limits.cpu_s is not None:
                # it was started before its task was known
                limit_cpu(waiting.pid, self._limits.cpu_s)
            return waiting.hand_over(command)
        boxed = self._sandbox.wrap(command, self.folder.work)
        run = await start_run(
            boxed, self.folder.work, self.folder.output, self._limits, self._attempt
        )
        self.folder.write(durable=False, process=mark_process(run.pid), mark=None)
        return run
