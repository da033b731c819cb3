"""Bubblewrap around load_and_run, where the machine has it and the kernel lets it work."""

import logging
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sandbox:
    """`bwrap` is the program's path, empty for none; `problem` says why there is none.

    `hidden_folders` (the spool with others' attempts) look empty inside, `hidden_files` (the token)
    look like /dev/null.
    """

    bwrap: str = ""
    problem: str = ""
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """The command inside the sandbox: read-only system, no network, only `work` is writable."""
        if not self.bwrap:
            return list(command)
        prefix = [self.bwrap, "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev"]
        prefix += ["--proc", "/proc"]
        # a runtime that lives under /tmp would vanish behind an empty one
        if not any(part.startswith("/tmp/") for part in command):
            prefix += ["--tmpfs", "/tmp"]
        for folder in self.hidden_folders:
            prefix += ["--tmpfs", str(folder)]
        for file in self.hidden_files:
            prefix += ["--ro-bind", "/dev/null", str(file)]
        prefix += ["--bind", str(work), str(work), "--chdir", str(work)]
        prefix += ["--unshare-net", "--unshare-ipc", "--unshare-pid", "--die-with-parent"]
        return [*prefix, "--", *command]


def find_sandbox(folders: tuple[Path, ...], files: tuple[Path, ...]) -> Sandbox:
    """Try bubblewrap once, with all that a run asks of it. `folders` must exist."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return Sandbox(problem="bubblewrap is not installed: install the package `bubblewrap`")
    sandbox = Sandbox(bwrap, "", folders, files)
    try:
        done = subprocess.run(
            sandbox.wrap(["/bin/sh", "-c", "exit 0"], folders[0]),
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return Sandbox(problem=f"bubblewrap does not start: {type(exc).__name__}")
    if done.returncode != 0:
        words = " ".join(done.stderr.split())[:200]
        return Sandbox(problem=f"bubblewrap does not work here: {words}")
    return sandbox
