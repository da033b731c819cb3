"""The sandbox of scripts: nothing is there but what is put in.

A model's sandbox takes away from the device's system what must not be seen. A script looks for what
was forgotten, so here only the system's programs and libraries, the runtime and the attempt's own
folder exist: no home, no spool, no token, no service's socket, no `/etc` but a few files, no other
process. Its network has no interfaces. Everything but the folder is read-only, also `/` and `/dev`;
`/tmp` and `/dev/shm` are parts of the folder, so that what is written there counts.
"""

import glob
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.sandbox import DEVICES, Sandbox, needs_of

#: folders of an attempt's work: the program's own, for traces, and what looks like these there
PROGRAM, TRACES = "program", "traces"
_OWN = {"tmp": "/tmp", "shm": "/dev/shm"}
FOLDERS = (PROGRAM, TRACES, *_OWN)

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: how programs find their libraries, and which time it is
_SETTINGS = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/localtime", "/etc/OpenCL", "/nix/store", "/run/opengl-driver",
)  # fmt: skip
_PROCESSORS = ("/sys/devices/system/cpu", "/sys/devices/system/node")
#: tried in this order: a user of its own, who cannot make further namespaces
_USERS: tuple[tuple[str, ...], ...] = (
    ("--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns"),
    ("--unshare-user", "--uid", "1000", "--gid", "1000"),
    (),
)
_TRIAL_S = 10


@dataclass(frozen=True)
class ClosedSandbox:
    """`bwrap` is the program's path, empty for none; `problem` says why there is none.

    `hidden` is not shown even where it lies in what is; `shown` is what the owner names.
    """

    bwrap: str = ""
    problem: str = "it was not looked for"
    user: tuple[str, ...] = ()
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    homes: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """The command inside. `work` holds FOLDERS. Raises OSError without a sandbox.

        Of the command its first two parts are looked at, the interpreter and the program that it
        runs: the others are the user's, and what they name must not come in.
        """
        if not self.bwrap:
            raise FileNotFoundError(f"no sandbox for scripts: {self.problem}")
        prefix = [self.bwrap, *self.user, "--unshare-all", "--hostname", "sandbox"]
        # a session of its own has no terminal that input could be pushed into
        prefix += ["--new-session", "--die-with-parent", "--cap-drop", "ALL"]
        prefix += ["--setenv", "USER", "script", "--setenv", "LOGNAME", "script"]
        prefix += ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/usr", "/usr"]
        for folder in _SYSTEM:
            if os.path.islink(folder):
                prefix += ["--symlink", os.readlink(folder), folder]
            elif os.path.isdir(folder):
                prefix += ["--ro-bind", folder, folder]
        # before all that may lie below them: the attempt's folder, or a runtime below /tmp
        for name, place in _OWN.items():
            prefix += ["--bind", str(work / name), place]
        prefix += self._devices()
        prefix += self._show(command[:2])
        prefix += ["--bind", str(work), str(work), "--chdir", str(work)]
        for place in ("/proc", "/dev", "/"):
            prefix += ["--remount-ro", place]
        return [*prefix, "--", *command]

    def _devices(self) -> list[str]:
        """Those that compute, and with them what libraries read of them below /sys."""
        devices = [each for pattern in DEVICES for each in sorted(glob.glob(pattern))]
        prefix = [part for each in devices for part in ("--dev-bind-try", each, each)]
        for place in ("/sys",) if devices else _PROCESSORS:
            prefix += ["--ro-bind-try", place, place]
        return prefix

    def _show(self, command: Sequence[str]) -> list[str]:
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        named = [Path(part) for part in (*command, *libraries) if part.startswith("/")]
        everywhere = (Path("/"), *self.homes)
        found = [each for path in named for each in needs_of(path, everywhere)]
        places = dict.fromkeys(map(str, (*map(Path, _SETTINGS), *found, *self.shown)))
        prefix: list[str] = []
        # what holds others comes before them, and a folder that is there already stays as it is
        for place in sorted(places):
            if not _lies_in(place, ("/usr", *_SYSTEM)):
                prefix += ["--ro-bind-try", place, place]
        # what is not there needs no hiding, and bubblewrap could not make its place in /usr
        for folder in self.hidden_folders:
            prefix += ["--tmpfs", str(folder)] if _lies_in(str(folder), places) else []
        for file in self.hidden_files:
            hide = _lies_in(str(file), places)
            prefix += ["--ro-bind", "/dev/null", str(file)] if hide else []
        return prefix


def find_closed_sandbox(found: Sandbox) -> ClosedSandbox:
    """Try what the model's sandbox was found with. `problem` says why there is none."""
    if not found.bwrap:
        return ClosedSandbox(problem=found.problem)
    closed = ClosedSandbox(
        found.bwrap,
        "",
        (),
        found.hidden_folders,
        found.hidden_files,
        found.homes,
        found.shown,
    )
    problem = ""
    for user in _USERS:
        tried = replace(closed, user=user)
        problem = _try(tried)
        if not problem:
            return tried
    return ClosedSandbox(problem=problem)


#: a sandbox that shows a secret, or lets the system be written to, is none
_LOOK = """
for path in "$@"; do [ -s "$path" ] && echo "it shows ${path##*/}" >&2 && exit 9; done
for path in / /usr /dev /proc/sys/kernel/core_pattern; do
    [ -w "$path" ] && echo "$path can be written" >&2 && exit 9
done
: > program/file
"""


def _try(closed: ClosedSandbox) -> str:
    """Return what is wrong with it, empty for nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name in FOLDERS:
            (Path(folder) / name).mkdir()
        secrets = [str(file) for file in closed.hidden_files]
        try:
            done = subprocess.run(
                closed.wrap(["/bin/sh", "-c", _LOOK, "look", *secrets], Path(folder)),
                capture_output=True,
                text=True,
                timeout=_TRIAL_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as exc:
            return f"bubblewrap does not start: {type(exc).__name__}"
    words = " ".join(done.stderr.split())[:200]
    return f"bubblewrap makes no closed sandbox here: {words}" if done.returncode else ""


def make_folders(work: Path) -> None:
    """Make what the sandbox asks of an attempt's folder."""
    for name in FOLDERS:
        (work / name).mkdir(mode=0o700)


def _lies_in(place: str, folders: Iterable[str]) -> bool:
    return any(Path(place).is_relative_to(folder) for folder in folders)
