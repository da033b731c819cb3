"""Bubblewrap around load_and_run, where the machine has it and the kernel lets it work.

Inside there is a read-only system without the homes of its users, without the sockets of its
services, without other processes and without a network; devices are the harmless ones and those
that compute. Only the run's own folder can be written.
"""

import functools
import glob
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.execution.processes import reap_orphans

log = logging.getLogger(__name__)

#: devices that compute: NVIDIA with Jetson's, DRM, Mali, Ascend, Cambricon
DEVICES = (
    "/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/dri", "/dev/mali*", "/dev/davinci*",
    "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/cambricon*",
)  # fmt: skip
#: a file outside its own folder that load_and_run of the wheel reads
_TABLE = Path(__file__).resolve().parents[1] / "protocol" / "options.json"
#: a folder in memory counts for nobody's limit
_MEMORY_FOLDER_BYTES = 256 << 20
#: below a prefix that is shared with other things, what a program may need
_PROGRAM_PARTS = ("bin", "lib", "lib64", "libexec")


@dataclass(frozen=True)
class Sandbox:
    """`bwrap` is the program's path, empty for none; `problem` says why there is none.

    `hidden_folders` (the spool with others' attempts) look empty inside, `hidden_files` (the token)
    look like /dev/null. `homes` look empty but for what a command needs and for `visible`.
    """

    bwrap: str = ""
    problem: str = ""
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    homes: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()
    limits_memory: bool = False

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """The command inside the sandbox: read-only system, no network, only `work` is writable."""
        if not self.bwrap:
            return list(command)
        prefix = [self.bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for pattern in DEVICES:
            for device in sorted(glob.glob(pattern)):
                prefix += ["--dev-bind-try", device, device]
        # services listen there, and a socket is no network; NixOS keeps its drivers there
        prefix += [*self._empty("/run")]
        prefix += ["--ro-bind-try", "/run/opengl-driver", "/run/opengl-driver"]
        # a runtime that lives under /tmp would vanish behind an empty one
        if not any(part.startswith("/tmp/") for part in command):
            prefix += self._empty("/tmp")
        prefix += self._hide_homes(command)
        for folder in self.hidden_folders:
            prefix += self._empty(str(folder))
        for file in self.hidden_files:
            prefix += ["--ro-bind", "/dev/null", str(file)]
        prefix += ["--bind", str(work), str(work), "--chdir", str(work)]
        # of an agent that runs as root, nothing of root's powers may be left inside: without
        # capabilities root still owns the kernel's settings below /proc/sys
        prefix += ["--cap-drop", "ALL", "--die-with-parent", "--remount-ro", "/proc"]
        prefix += ["--unshare-net", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
        return [*prefix, "--", *command]

    def _empty(self, folder: str) -> list[str]:
        size = ["--size", str(_MEMORY_FOLDER_BYTES)] if self.limits_memory else []
        return [*size, "--tmpfs", folder]

    def _hide_homes(self, command: Sequence[str]) -> list[str]:
        prefix: list[str] = []
        for home in self.homes:
            prefix += self._empty(str(home))
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        # the program may stand behind another one that sets it up, such as stdbuf
        programs = [part for part in command[:3] if part.startswith("/")]
        parts = (*command, *libraries, *map(_interpreter, programs))
        needed = [Path(part) for part in parts if part.startswith("/")]
        back: dict[str, None] = {}
        for path in needed:
            back.update(dict.fromkeys(map(str, needs_of(path, self.homes))))
        for name in (*back, *map(str, self.visible), str(_TABLE)):
            if _lies_in(Path(name), self.homes):
                prefix += ["--ro-bind-try", name, name]
        return prefix


def find_sandbox(
    folders: tuple[Path, ...], files: tuple[Path, ...], visible: tuple[Path, ...] = ()
) -> Sandbox:
    """Try bubblewrap once, with all that a run asks of it. `folders` must exist.

    `visible` are what runs may see of a home folder besides their runtime.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return Sandbox(problem="bubblewrap is not installed: install the package `bubblewrap`")
    sandbox = Sandbox(bwrap, "", folders, files, _homes(), visible, _limits_memory(bwrap))
    try:
        done = run_trial(sandbox.wrap(["/bin/sh", "-c", "exit 0"], folders[0]), timeout_s=10)
    except (OSError, subprocess.SubprocessError) as exc:
        return Sandbox(problem=f"bubblewrap does not start: {type(exc).__name__}")
    if done.returncode != 0:
        words = " ".join(done.stderr.split())[:200]
        return Sandbox(problem=f"bubblewrap does not work here: {words}")
    return sandbox


def run_trial(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command that begins with bubblewrap, and leave no process of it behind.

    Raises OSError, subprocess.TimeoutExpired.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    finally:
        reap_orphans()


def _homes() -> tuple[Path, ...]:
    """Where users keep what is theirs. Links are followed: bubblewrap binds folders."""
    candidates = (Path("/home"), Path("/root"), *_own_home())
    homes: dict[Path, None] = {}
    for candidate in candidates:
        home = candidate.resolve()
        inside = any(home.is_relative_to(other) for other in homes)
        if home.is_dir() and home != Path("/") and not inside:
            homes[home] = None
    return tuple(homes)


def _own_home() -> Iterator[Path]:
    """The agent's own, if it is one: a service's may be a part of the system, such as /usr."""
    home = Path.home()
    system = ("/usr", "/etc", "/bin", "/lib", "/opt", "/dev", "/proc", "/sys", "/nonexistent")
    if not any(home.is_relative_to(folder) for folder in system):
        yield home


@functools.cache
def _limits_memory(bwrap: str) -> bool:
    """Older versions know no --size."""
    try:
        done = subprocess.run(
            [bwrap, "--help"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return "--size" in done.stdout + done.stderr


def _interpreter(program: str) -> str:
    """What a script names in its first line; empty for any other program."""
    try:
        with open(program, "rb") as file:
            first = file.read(256).split(b"\n")[0].decode(errors="replace")
    except OSError:
        return ""
    return first[2:].split()[0] if first.startswith("#!") and first[2:].strip() else ""


def needs_of(path: Path, homes: tuple[Path, ...]) -> Iterator[Path]:
    """What to put back for one path of a command: it, what it links to, and what lies beside."""
    seen = 0
    while seen < 16:  # a chain of links that is longer leads nowhere
        seen += 1
        if _lies_in(path, homes):
            yield from _beside(path, homes)
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / os.readlink(path)))
    real = path.resolve()
    if real != path and _lies_in(real, homes):
        yield from _beside(real, homes)


def _beside(path: Path, homes: tuple[Path, ...]) -> Iterator[Path]:
    """A program in `bin` comes with its libraries; a file elsewhere with its folder."""
    people = _people(homes)
    shared = {*people, *(home / ".local" for home in people)}
    if path.is_dir():
        yield from () if path in shared else (path,)
        return
    parent = path.parent
    if parent.name == "bin":
        prefix = parent.parent
        yield from (prefix / part for part in _PROGRAM_PARTS) if prefix in shared else (prefix,)
    elif parent in shared:
        yield path
    else:
        yield parent


def _people(homes: tuple[Path, ...]) -> set[Path]:
    """The homes themselves: below /home they are one level deeper."""
    return {*homes, *(path for path in Path("/home").glob("*") if Path("/home") in homes)}


def _lies_in(path: Path, homes: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(home) and path != home for home in homes)
