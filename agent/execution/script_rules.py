"""Rules that decide whether this device runs scripts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent.execution.sandbox import Sandbox
from agent.execution.script_runs import check_script
from agent.execution.script_sandbox import ClosedSandbox, find_closed_sandbox
from agent.inventory import LocalRuntime
from agent.protocol.messages import EndReason, Start

NOT_ALLOWED = (
    "scripts are not allowed on this device: its owner can allow them with `allow = true` below "
    "[scripts] in the agent's configuration, which a running agent takes up by itself"
)


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

        The files that the sandbox needs are written to `folder`.
        """
        pythons = [runtime.path for runtime in runtimes if _is_wheel(runtime)]
        return cls(True, find_closed_sandbox(sandbox, folder, pythons))

    def problem(self, runtimes: Iterable[LocalRuntime]) -> str:
        """Return the reason why this device runs no scripts; empty if it does."""
        if not self.allowed:
            return NOT_ALLOWED
        if not self.sandbox.bwrap:
            return f"scripts run in a sandbox only: {self.sandbox.problem}"
        if not any(map(_is_wheel, runtimes)):
            return "scripts need a MegEngine that was installed as a wheel: there is none"
        return ""

    def refusal(self, order: Start, runtime: LocalRuntime) -> tuple[EndReason, str] | None:
        """Return the reason why the order's script must not run with a usable `runtime`, if any."""
        if runtime.info.kind != "wheel":
            text = (
                f"MegEngine {order.runtime} is a compiled load_and_run here, without the Python "
                "that a script needs: choose a version that is installed as a wheel"
            )
            return EndReason.REFUSED, text
        if not self.sandbox.bwrap:
            return EndReason.NO_SANDBOX, self.sandbox.problem
        try:
            check_script(order)
        except ValueError as exc:
            return EndReason.REFUSED, str(exc)
        return None


def _is_wheel(runtime: LocalRuntime) -> bool:
    return bool(runtime.command) and runtime.info.kind == "wheel"
