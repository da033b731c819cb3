"""The sandbox of scripts, in all variants that a machine may support."""

import os
import shutil
import subprocess

import pytest

from agent.execution import script_sandbox
from agent.execution.sandbox import Sandbox
from agent.execution.script_sandbox import find_closed_sandbox, make_folders
from agent.protocol.notes import Note
from agent.tests.fakes import require_sandbox


@pytest.fixture
def base_sandbox(tmp_path):
    """A sandbox that hides a spool with an attempt and a token, and shows a folder of the owner."""
    (tmp_path / "spool" / "attempts" / "another").mkdir(parents=True)
    (tmp_path / "agent.token").write_text("mgw_secret")
    (tmp_path / "library").write_text("shown")
    # if the agent is root, scripts run as another user
    tmp_path.chmod(0o755)
    return require_sandbox((tmp_path / "spool",), (tmp_path / "agent.token",), (tmp_path,))


def run_in_sandbox(closed, folder, script: str) -> str:
    work = folder / "spool" / "work"
    work.mkdir()
    make_folders(work)
    closed.hand_over(work, folder / "output")
    command = closed.wrap(["/bin/sh", "-c", script, "sh", str(folder), "/etc/shadow"], work)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
    return done.stdout


PROBE = """
cd "$1"; cat library; cat agent.token 2>/dev/null; echo " spool: $(ls spool)"
for place in . spool / /usr /tmp/here spool/work/here; do
    touch $place/x 2>/dev/null && echo "wrote $place"
done
mkdir -p /tmp/in /dev/shm/in && echo wrote both; cat "$2" 2>/dev/null; true
"""


@pytest.mark.parametrize("kind", ["best", "namespace"])
def test_secrets_stay_hidden_below_a_visible_folder(base_sandbox, tmp_path, monkeypatch, kind):
    which = shutil.which
    if kind == "namespace":
        monkeypatch.setattr(
            shutil, "which", lambda name: None if name == "setpriv" else which(name)
        )
    closed = find_closed_sandbox(base_sandbox, tmp_path / "spool")
    assert closed.problem is None
    is_root = os.geteuid() == 0
    assert (closed.owner is not None) == (kind == "best" and is_root and bool(which("setpriv")))
    lines = run_in_sandbox(closed, tmp_path, PROBE).splitlines()
    assert lines == ["shown spool: work", "wrote both"]


def test_a_sandbox_that_shows_a_secret_is_rejected(base_sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr(script_sandbox.ClosedSandbox, "_must_cover", lambda *_: False)
    problem = find_closed_sandbox(base_sandbox, tmp_path / "spool").problem
    assert "it shows agent.token" in str(problem)


def test_without_bubblewrap_there_is_no_sandbox(tmp_path):
    none = Sandbox(problem=Note.of("bwrap_missing"))
    closed = find_closed_sandbox(none, tmp_path)
    assert (closed.bwrap, closed.problem) == ("", Note.of("bwrap_missing"))
    with pytest.raises(FileNotFoundError, match="no sandbox for scripts"):
        closed.wrap(["/bin/true"], tmp_path)


@pytest.mark.megengine
def test_a_runtime_that_only_root_can_read_runs_in_a_user_namespace(
    base_sandbox, tmp_path, monkeypatch, megengine_python
):
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("about an agent that runs as root")
    assert find_closed_sandbox(base_sandbox, tmp_path, [megengine_python]).owner is not None
    private = tmp_path / "private"
    shutil.copytree(script_sandbox.RUNNER, private)
    for path in (private, *private.iterdir()):
        path.chmod(0o700)
    monkeypatch.setattr(script_sandbox, "RUNNER", private)
    closed = find_closed_sandbox(base_sandbox, tmp_path, [megengine_python])
    assert (closed.problem, closed.owner) == (None, None)
    assert "--unshare-user" in closed.user
