"""Parent process of the agent: restart it after an update, and undo an update that does not work.

The file is in the folder of `agent.pyz`, which it runs. It uses only the standard library, because
it must work if the agent does not. It shares these files of its folder with `agent.install.update`:

    agent.pyz, agent.before.pyz   the agent, and its previous version
    trial                         exists from an update until the server accepts the new agent
    refused.json                  {"sha256", "times", "until"} of an agent that was not accepted;
                                  until: seconds since the epoch
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

#: the agent's exit code after it replaced its file
REPLACED = 75
#: environment variable with the launcher's folder, for the agent
HOME_VARIABLE = "MGW_AGENT_HOME"
#: time for a new agent to unpack itself, probe the runtimes and connect; a slow board needs 60 s
TRIAL_S = float(os.environ.get("MGW_AGENT_TRIAL_S", "300"))
#: pause before a failed version is tried again, doubled each time
_PAUSE_S = 3600.0
_LONGEST_PAUSE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
#: time for the agent to stop its runs
_GRACE_S = 45.0

HOME = Path(__file__).resolve().parent
AGENT, BEFORE = HOME / "agent.pyz", HOME / "agent.before.pyz"
TRIAL, REFUSED = HOME / "trial", HOME / "refused.json"


class AgentLauncher:
    """Runs the agent, and runs it again after each update."""

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
        """Run the agent until it ends; return its exit code, None if the launcher is stopping.

        After a failed trial, return `REPLACED` if there is a previous version to run.
        """
        if self._stopping:
            return None
        command = [sys.executable, "-I", str(AGENT), "run", "--config", str(HOME / "agent.toml")]
        self._child = subprocess.Popen(command, env={**os.environ, HOME_VARIABLE: str(HOME)})
        if self._stopping:
            self._child.terminate()
        if TRIAL.exists() and not self._passes(self._child):
            if not self._stopping:
                return _restore_previous()
            return None
        return self._child.wait()

    def _passes(self, child: "subprocess.Popen[bytes]") -> bool:
        """Wait until the server accepts the agent on trial; stop an agent that takes too long."""
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


def _restore_previous() -> int:
    """Restore the previous agent, and record the one that did not work; return the exit code.

    After each step the agent that the launcher would start next is the previous one. The record
    comes last, because the disk may be full.
    """
    digest = hashlib.sha256(AGENT.read_bytes()).hexdigest()
    is_restored = BEFORE.exists()
    if is_restored:
        BEFORE.replace(AGENT)
    TRIAL.unlink(missing_ok=True)
    outcome = "restored the previous one" if is_restored else "there is no previous one to restore"
    sys.stderr.write(f"launch: the server did not accept the new agent: {outcome}\n")
    try:
        _record_refused(digest)
    except OSError as exc:
        sys.stderr.write(f"launch: {REFUSED} cannot be written: {exc.strerror}\n")
    return REPLACED if is_restored else 1


def _record_refused(digest: str) -> None:
    """Record that an agent did not work, so that it is not installed again before a pause."""
    times = 1
    try:
        previous = json.loads(REFUSED.read_bytes())
        times += previous["times"] if previous["sha256"] == digest else 0
    except (OSError, ValueError, KeyError, TypeError):
        pass
    pause_s = min(_PAUSE_S * 2 ** (times - 1), _LONGEST_PAUSE_S)
    record = {"sha256": digest, "times": times, "until": time.time() + pause_s}
    REFUSED.write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(AgentLauncher().run())
