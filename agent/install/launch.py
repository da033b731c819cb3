"""Stays while the agent is replaced: starts it, and the one before if a new one does not work.

Lies beside `agent.pyz`, which it runs. Only the standard library: it must work when the agent does
not. Files of the folder that it shares with `agent.install.update`:

    agent.pyz, agent.before.pyz   the agent, and the one that it replaced
    trial                         exists from a replacement until the new agent was welcomed
    refused.json                  {"sha256", "times", "until"} of one that was not; until: epoch s
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

#: the agent's exit code for "start me again, I am a new file"
REPLACED = 75
#: a new agent unpacks itself, looks at each runtime and connects: a slow board takes a minute
TRIAL_S = float(os.environ.get("MGW_AGENT_TRIAL_S", "300"))
#: how long a refused version is left alone; twice as long each time
_PAUSE_S = 3600.0
_LONGEST_PAUSE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
#: the agent ends its runs first
_GRACE_S = 45.0

HOME = Path(__file__).resolve().parent
AGENT, BEFORE = HOME / "agent.pyz", HOME / "agent.before.pyz"
TRIAL, REFUSED = HOME / "trial", HOME / "refused.json"


class Launcher:
    """One agent after the other, until one ends for another reason than a replacement."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            code = self._run_one()
            if self._stopping or code is None:
                return 0
            if code != REPLACED:
                return code if code >= 0 else 128 - code

    def _run_one(self) -> int | None:
        """Run the agent to its end. A trial that fails ends as `REPLACED`."""
        if self._stopping:
            return None
        command = [sys.executable, "-I", str(AGENT), "run", "--config", str(HOME / "agent.toml")]
        self._child = subprocess.Popen(command, env={**os.environ, "MGW_AGENT_HOME": str(HOME)})
        if self._stopping:
            self._child.terminate()
        if TRIAL.exists() and not self._passes(self._child):
            if not self._stopping:
                return _go_back()
            return None
        return self._child.wait()

    def _passes(self, child: "subprocess.Popen[bytes]") -> bool:
        """Wait until the agent on trial was welcomed; end one that is not."""
        deadline = time.monotonic() + TRIAL_S
        while TRIAL.exists():
            if child.poll() is not None:
                return False
            if time.monotonic() > deadline:
                _end(child)
                return False
            time.sleep(_POLL_S)
        return True

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _go_back() -> int:
    """Put the agent from before into its place, and remember which one did not work."""
    TRIAL.unlink(missing_ok=True)
    digest = hashlib.sha256(AGENT.read_bytes()).hexdigest()
    times = 1
    try:
        known = json.loads(REFUSED.read_bytes())
        times += known["times"] if known["sha256"] == digest else 0
    except (OSError, ValueError, KeyError, TypeError):
        pass
    pause_s = min(_PAUSE_S * 2 ** (times - 1), _LONGEST_PAUSE_S)
    row = {"sha256": digest, "times": times, "until": time.time() + pause_s}
    REFUSED.write_text(json.dumps(row), encoding="utf-8")
    sys.stderr.write("launch: the new agent was not welcomed: back to the one before\n")
    if not BEFORE.exists():
        return 1
    BEFORE.replace(AGENT)
    return REPLACED


if __name__ == "__main__":
    sys.exit(Launcher().run())
