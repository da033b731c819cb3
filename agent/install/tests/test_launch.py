"""The launcher: restart of the agent after an update, and return to the previous version."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.install import launch

#: An agent that connects and works until it is stopped. It blocks the signal: a handler in Python
#: does not interrupt a sleep that begins just after the signal arrived.
WORKING_AGENT = """
import os, pathlib, signal
home = pathlib.Path(os.environ["MGW_AGENT_HOME"])
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
(home / "trial").unlink(missing_ok=True)
(home / "seen").open("a").write("%s\\n")
signal.sigtimedwait({signal.SIGTERM}, 60)
"""
NOTE = "import os; open(os.environ['MGW_AGENT_HOME'] + '/seen', 'a').write('%s\\n')\n"


class Home:
    """The agent's folder of a device. Its agents are scripts, as Python runs any text file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copy(launch.__file__, path / "launch.py")
        (path / "agent.toml").touch()

    def put(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def start(self, trial_s: float = 30) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-I", str(self.path / "launch.py")],
            env={**os.environ, "MGW_AGENT_TRIAL_S": str(trial_s)},
            stderr=subprocess.DEVNULL,
        )

    def seen(self) -> list[str]:
        path = self.path / "seen"
        return path.read_text().split() if path.exists() else []

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 20
        while len(self.seen()) < count:
            assert time.monotonic() < deadline, self.seen()
            time.sleep(0.02)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def stop(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(20)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_launcher_exits_with_the_exit_code_of_the_agent(home: Home, code: int):
    home.put("agent.pyz", NOTE % "one" + f"raise SystemExit({code})")
    assert home.start().wait(20) == code
    assert home.seen() == ["one"]


def test_sigterm_ends_the_launcher_and_the_agent(home: Home):
    home.put("agent.pyz", WORKING_AGENT % "one")
    process = home.start()
    home.wait_for(1)
    assert stop(process) == 0


def test_a_new_agent_that_connects_is_kept(home: Home):
    home.put("agent.before.pyz", WORKING_AGENT % "old")
    home.put("agent.pyz", WORKING_AGENT % "new")
    home.put("trial", "")
    process = home.start()
    home.wait_for(1)
    time.sleep(0.5)
    assert home.seen() == ["new"]
    assert stop(process) == 0
    assert not (home.path / "refused.json").exists()


@pytest.mark.parametrize(
    "broken",
    ["raise SystemExit(1)", "not python at all", "import time\ntime.sleep(60)", ""],
    ids=["fails", "unreadable", "hangs", "ends"],
)
def test_a_broken_new_agent_is_replaced_by_the_previous_one(home: Home, broken: str):
    home.put("agent.before.pyz", WORKING_AGENT % "old")
    home.put("agent.pyz", broken)
    home.put("trial", "")
    process = home.start(trial_s=0.5)
    home.wait_for(1)
    assert home.seen() == ["old"]
    assert stop(process) == 0
    assert (home.path / "agent.pyz").read_text() == WORKING_AGENT % "old"
    refused = json.loads((home.path / "refused.json").read_text())
    assert refused["times"] == 1
    assert 3500 < refused["until"] - time.time() < 3700


def test_the_previous_agent_is_restored_although_nothing_can_be_recorded(home: Home):
    home.put("agent.before.pyz", WORKING_AGENT % "old")
    home.put("agent.pyz", "raise SystemExit(1)")
    home.put("trial", "")
    (home.path / "refused.json").mkdir()
    process = home.start()
    home.wait_for(1)
    assert home.seen() == ["old"]
    assert stop(process) == 0


def test_each_failure_of_a_version_prolongs_its_pause(home: Home):
    home.put("agent.before.pyz", "")
    for times in (1, 2, 3):
        home.put("agent.pyz", "raise SystemExit(1)")
        home.put("agent.before.pyz", "")
        home.put("trial", "")
        assert home.start().wait(20) == 0
        refused = json.loads((home.path / "refused.json").read_text())
        assert refused["times"] == times
    assert refused["until"] - time.time() > 3 * 3600


def test_an_updated_agent_is_started(home: Home):
    replace = (
        NOTE % "old"
        + "home = os.environ['MGW_AGENT_HOME']\n"
        + "os.replace(home + '/agent.pyz', home + '/agent.before.pyz')\n"
        + "os.replace(home + '/next', home + '/agent.pyz')\n"
        + "open(home + '/trial', 'w').close()\n"
        + f"raise SystemExit({launch.REPLACED})\n"
    )
    home.put("agent.pyz", replace)
    home.put("next", WORKING_AGENT % "new")
    process = home.start()
    home.wait_for(2)
    assert home.seen() == ["old", "new"]
    assert stop(process) == 0
