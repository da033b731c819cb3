"""The sandbox of load_and_run: bubblewrap, if the machine has it and the kernel permits it.

Inside, the system is read-only and has no home folders, no service sockets, no other processes and
no network. Only harmless devices and compute devices exist. Only the run's own folder is writable.
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
from agent.protocol.notes import Note

log = logging.getLogger(__name__)

#: compute devices: NVIDIA including Jetson, DRM, Mali, Ascend, Cambricon
DEVICES = (
    "/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/dri", "/dev/mali*", "/dev/davinci*",
    "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/cambricon*",
)  # fmt: skip
#: the option table, which the wheel's load_and_run reads from outside its own folder
_TABLE = Path(__file__).resolve().parents[1] / "protocol" / "options.json"
#: size of tmpfs folders, which no limit of the run covers
_MEMORY_FOLDER_BYTES = 256 << 20
#: folders that a program may need below a shared prefix
_PROGRAM_PARTS = ("bin", "lib", "lib64", "libexec")
_UNTESTED = Note.of("sandbox_untested")


@dataclass(frozen=True)
class Sandbox:
    """Configuration of the sandbox. `bwrap` is the path of bubblewrap, empty if it is unusable.

    `problem` is the reason why it is unusable, None if it works. `hidden_folders` (the spool with
    other attempts) are empty inside, `hidden_files` (the token) are replaced by /dev/null. `homes`
    are empty except for the files that a command needs and for `visible`.
    """

    bwrap: str = ""
    problem: Note | None = _UNTESTED
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    homes: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()
    limits_memory: bool = False

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """Return the command line that runs `command` in the sandbox; only `work` is writable."""
        if not self.bwrap:
            return list(command)
        prefix = [self.bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for pattern in DEVICES:
            for device in sorted(glob.glob(pattern)):
                prefix += ["--dev-bind-try", device, device]
        # hide the sockets of services, which --unshare-net does not; NixOS has its drivers there
        prefix += [*self._empty("/run")]
        prefix += ["--ro-bind-try", "/run/opengl-driver", "/run/opengl-driver"]
        # an empty /tmp would hide a runtime below it
        if not any(part.startswith("/tmp/") for part in command):
            prefix += self._empty("/tmp")
        prefix += self._hide_homes(command)
        for folder in self.hidden_folders:
            prefix += self._empty(str(folder))
        for file in self.hidden_files:
            prefix += ["--ro-bind", "/dev/null", str(file)]
        prefix += ["--bind", str(work), str(work), "--chdir", str(work)]
        # if the agent runs as root, drop all its privileges: even without capabilities, root owns
        # the kernel settings below /proc/sys
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
        # the program may follow a wrapper such as stdbuf
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
    """Return the sandbox of this device, after a trial run. `folders` must exist.

    `visible` are the paths in home folders that runs may read in addition to their runtime.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return Sandbox(problem=Note.of("bwrap_missing"))
    sandbox = Sandbox(bwrap, None, folders, files, _homes(), visible, _limits_memory(bwrap))
    try:
        done = run_trial(sandbox.wrap(["/bin/sh", "-c", "exit 0"], folders[0]), timeout_s=10)
    except (OSError, subprocess.SubprocessError) as exc:
        return Sandbox(problem=Note.of("bwrap_not_started", cause=type(exc).__name__))
    if done.returncode != 0:
        cause = " ".join(done.stderr.split())[:200]
        return Sandbox(problem=Note.of("bwrap_failed", cause=cause))
    return sandbox


def run_trial(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a bubblewrap command and reap all its processes.

    Raises OSError, subprocess.TimeoutExpired.
    """
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    finally:
        reap_orphans()


def _homes() -> tuple[Path, ...]:
    """Return the folders of home folders, with links resolved, since bubblewrap binds folders."""
    candidates = (Path("/home"), Path("/root"), *_own_home())
    homes: dict[Path, None] = {}
    for candidate in candidates:
        home = candidate.resolve()
        inside = any(home.is_relative_to(other) for other in homes)
        if home.is_dir() and home != Path("/") and not inside:
            homes[home] = None
    return tuple(homes)


def _own_home() -> Iterator[Path]:
    """Yield the agent's home, unless it is a system folder such as /usr, as for some services."""
    home = Path.home()
    system = ("/usr", "/etc", "/bin", "/lib", "/opt", "/dev", "/proc", "/sys", "/nonexistent")
    if not any(home.is_relative_to(folder) for folder in system):
        yield home


@functools.cache
def _limits_memory(bwrap: str) -> bool:
    """Return whether this version of bubblewrap supports --size."""
    try:
        done = subprocess.run(
            [bwrap, "--help"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return "--size" in done.stdout + done.stderr


def _interpreter(program: str) -> str:
    """Return the interpreter in the shebang line of a script, empty for other programs."""
    try:
        with open(program, "rb") as file:
            first = file.read(256).split(b"\n")[0].decode(errors="replace")
    except OSError:
        return ""
    return first[2:].split()[0] if first.startswith("#!") and first[2:].strip() else ""


def needs_of(path: Path, homes: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the paths below `homes` that a path of a command needs, with the targets of links."""
    seen = 0
    while seen < 16:  # limit for chains of links
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
    """Yield a program in `bin` with its prefix, or any other file with its folder."""
    # the home folders of users, including those below /home
    people = {*homes, *(path for path in Path("/home").glob("*") if Path("/home") in homes)}
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


def _lies_in(path: Path, homes: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(home) and path != home for home in homes)
