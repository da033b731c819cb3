"""Rules that decide whether this device runs scripts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent.execution.sandbox import Sandbox
from agent.execution.script_runs import check_script
from agent.execution.script_sandbox import ClosedSandbox, find_closed_sandbox
from agent.inventory import LocalRuntime
from agent.protocol.messages import EndReason, Start
from agent.protocol.notes import Note

NOT_ALLOWED = Note.of("scripts_forbidden")


@dataclass(frozen=True)
class ScriptRules:
    """`allowed` is the owner's choice; `sandbox` is the only sandbox that scripts run in."""

    allowed: bool = False
    sandbox: ClosedSandbox = field(default_factory=ClosedSandbox)

    @classmethod
    def determine(
        cls, sandbox: Sandbox, runtimes: Iterable[LocalRuntime], folder: Path
    ) -> "ScriptRules":
        """Determine the rules if scripts are allowed, with a trial of the sandbox (one second).

        The files that the sandbox needs are written to `folder`; a failure is a problem of the
        sandbox.
        """
        pythons = [runtime.path for runtime in runtimes if runtime.is_usable_wheel]
        try:
            closed = find_closed_sandbox(sandbox, folder, pythons)
        except OSError as exc:
            # a full disk: the agent must start, because it then removes files of earlier attempts
            cause = exc.strerror or type(exc).__name__
            closed = ClosedSandbox(problem=Note.of("closed_sandbox_failed", cause=cause))
        return cls(True, closed)

    def problem(self, runtimes: Iterable[LocalRuntime]) -> Note | None:
        """Return the reason why this device runs no scripts; None if it does."""
        if not self.allowed:
            return NOT_ALLOWED
        if problem := self.sandbox.problem:
            return Note.of("scripts_need_sandbox", problem=problem)
        if not any(runtime.is_usable_wheel for runtime in runtimes):
            return Note.of("scripts_need_package")
        return None

    def refusal(self, order: Start, runtime: LocalRuntime) -> tuple[EndReason, Note] | None:
        """Return the reason why the order's script must not run with a usable `runtime`, if any."""
        if runtime.info.kind != "wheel":
            return EndReason.REFUSED, Note.of("script_runtime", version=order.runtime)
        if problem := self.sandbox.problem:
            return EndReason.NO_SANDBOX, problem
        try:
            check_script(order)
        except ValueError as exc:
            return EndReason.REFUSED, Note.of("order_invalid", cause=str(exc))
        return None
