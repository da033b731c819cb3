"""The sandbox of scripts: nothing is there but what is put in.

A model's sandbox takes away from the device's system what must not be seen. A script looks for what
was forgotten, so here only the system's programs and libraries, the runtime and the attempt's own
folder exist: no home, no spool, no token, no service's socket, no `/etc` but a few files, no other
process. Its network has no interfaces. Everything but the folder is read-only, also `/` and `/dev`;
`/tmp` and `/dev/shm` are parts of the folder, so that what is written there counts.

Below an agent that runs as root a script is another user, to whom limits of processes apply, if
setpriv is there and every user may read the runtimes' folders; else, and below any other agent, it
is the agent's user, in a namespace where it cannot make further ones.
"""

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.execution.sandbox import DEVICES, Sandbox, needs_of, run_trial
from agent.execution.seccomp import build_filter
from agent.runtimes.config_file import replace_file

#: runs a program under the Profiler; a folder that a runtime's Python runs by its path
RUNNER = Path(__file__).resolve().parents[1] / "script_runner"
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
_SPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
#: below an agent that is root: nobody's number, also not systemd's (up to 65,519)
_STRANGER = 65531
_NAMESPACE = ("--unshare-user", "--uid", "1000", "--gid", "1000")
#: what changing the user takes; it goes with it
_TO_CHANGE = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
#: a busy board takes its time, and what fails now is off for as long as the agent runs
_TRIAL_S = 60
#: bubblewrap reads the filter of system calls from a descriptor
_WITH_FILTER = ("/bin/sh", "-c", 'exec "$@" 9<"$0"')


@dataclass(frozen=True)
class ClosedSandbox:
    """`bwrap` is the program's path, empty for none; `problem` says why there is none.

    What is hidden is not shown even where it lies in what is; `visible` is what the owner names.
    `user` are bubblewrap's flags, `setpriv` the program that changes to the user `owner`, if any;
    `filter` is the file of refused system calls.
    """

    bwrap: str = ""
    problem: str = "it was not looked for"
    user: tuple[str, ...] = ()
    setpriv: str = ""
    filter: Path | None = None
    hidden_folders: tuple[Path, ...] = ()
    hidden_files: tuple[Path, ...] = ()
    homes: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """The command inside. `work` holds FOLDERS. Raises OSError without a sandbox.

        Of the command its first two parts are looked at, the interpreter and the program that it
        runs: the others are the user's, and what they name must not come in.
        """
        if not self.bwrap:
            raise FileNotFoundError(f"no sandbox for scripts: {self.problem}")
        places = self._places(command[:2])
        hidden = [str(folder) for folder in self.hidden_folders if self._hides(folder, places)]
        prefix = self._begin(work)
        for place in places:
            prefix += [*_way_to(Path(place)), "--ro-bind", place, place]
        for folder in hidden:
            prefix += ["--tmpfs", folder]
        for file in self.hidden_files:
            prefix += ["--ro-bind", "/dev/null", str(file)] if self._hides(file, places) else []
        prefix += [*_way_to(work), "--bind", str(work), str(work), "--chdir", str(work)]
        for place in (*hidden, "/proc", "/dev", "/"):
            prefix += ["--remount-ro", place]
        return [*prefix, "--", *self._change_user(), *command]

    def _hides(self, path: Path, places: Iterable[str]) -> bool:
        """What does not come in needs no hiding, and its place could not be made."""
        return _lies_in(str(path), places)

    def _begin(self, work: Path) -> list[str]:
        """Everything that is the same for each command."""
        prefix = [*_WITH_FILTER, str(self.filter)] if self.filter else []
        prefix += [self.bwrap, *(("--seccomp", "9") if self.filter else ())]
        prefix += [*self.user, *_SPACES, "--unshare-cgroup-try", "--hostname", "sandbox"]
        # a session of its own has no terminal that input could be pushed into
        prefix += ["--new-session", "--die-with-parent", "--cap-drop", "ALL"]
        if self.owner is not None:
            prefix += [part for power in _TO_CHANGE for part in ("--cap-add", power)]
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
        return prefix

    @property
    def owner(self) -> int | None:
        """Whom its files must belong to; None: to the agent's own user, as they do."""
        return _STRANGER if self.setpriv else None

    def whom(self) -> str:
        """Say as whom scripts run; where that is root, what to do about it."""
        if self.owner is not None:
            return "as a user of their own"
        kept = "in a namespace of their own" if self.user else "without its powers"
        if os.geteuid() != 0:
            return f"as the agent's user, {kept}"
        return (
            f"as root, {kept}: for a user of their own, install setpriv (util-linux) and let "
            "every user read the folders of MegEngine and of the agent"
        )

    def hand_over(self, work: Path, output: Path) -> None:
        """Give the files of a run to whom it runs as. Raises OSError."""
        output.touch(mode=0o600)
        if self.owner is None:
            return
        for parent, _, files in os.walk(work):
            for path in (parent, *(os.path.join(parent, name) for name in files)):
                os.lchown(path, self.owner, self.owner)
        # bubblewrap goes there before it is that user, and without root's powers; /tmp may be
        # on the way
        for folder in (work, *(work / name for name in _OWN)):
            folder.chmod(0o711)
        os.lchown(output, self.owner, self.owner)

    def _change_user(self) -> list[str]:
        if self.owner is None:
            return []
        user = ["--reuid", str(self.owner), "--regid", str(self.owner), "--clear-groups"]
        return [self.setpriv, *user, "--bounding-set=-all", "--inh-caps=-all", "--"]

    def _devices(self) -> list[str]:
        """Those that compute, and with them what libraries read of them below /sys."""
        devices = [device for pattern in DEVICES for device in sorted(glob.glob(pattern))]
        prefix = [part for device in devices for part in ("--dev-bind-try", device, device)]
        for place in ("/sys",) if devices else _PROCESSORS:
            prefix += [*_way_to(Path(place)), "--ro-bind-try", place, place]
        return prefix

    def _places(self, command: Sequence[str]) -> list[str]:
        """What is to be seen of the device beside its system; what holds others comes first."""
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        named = [Path(part) for part in (*command, *libraries) if part.startswith("/")]
        everywhere = (Path("/"), *self.homes)
        needed = [place for path in named for place in needs_of(path, everywhere)]
        places = {*map(str, needed), *map(str, self.visible), *_SETTINGS}
        mounted = ("/usr", *_SYSTEM)
        return sorted(
            place for place in places if os.path.exists(place) and not _lies_in(place, mounted)
        )


def _way_to(place: Path) -> list[str]:
    """The folders above a place: bubblewrap itself would make them for their owner alone."""
    return [part for parent in reversed(place.parents[:-1]) for part in ("--dir", str(parent))]


def find_closed_sandbox(
    sandbox: Sandbox, folder: Path, pythons: Sequence[str] = ()
) -> ClosedSandbox:
    """Try what the model's sandbox was found with; the filter is written into `folder`.

    `pythons` are the interpreters that must work in it: another user may not read what is root's.
    `problem` says why there is none. Raises OSError.
    """
    if not sandbox.bwrap:
        return ClosedSandbox(problem=sandbox.problem)
    closed = ClosedSandbox(
        sandbox.bwrap,
        problem="",
        filter=_write_filter(folder),
        hidden_folders=sandbox.hidden_folders,
        hidden_files=sandbox.hidden_files,
        homes=sandbox.homes,
        visible=sandbox.visible,
    )
    setpriv = shutil.which("setpriv") if os.geteuid() == 0 else None
    kinds = [replace(closed, setpriv=setpriv)] if setpriv else []
    kinds += [
        replace(closed, user=(*_NAMESPACE, "--disable-userns")),
        replace(closed, user=_NAMESPACE),
        closed,
    ]
    problem = ""
    for tried in kinds:
        problem = _try(tried, pythons)
        if not problem:
            return tried
    return ClosedSandbox(problem=problem)


def _write_filter(folder: Path) -> Path | None:
    content = build_filter()
    if not content:
        return None
    path = folder / "seccomp.bpf"
    # whole at any time: an earlier agent's script may begin just now
    replace_file(path, content)
    return path


#: a sandbox that shows a secret, or lets the system be written to, is none
_LOOK = """
for path in "$@"; do [ -s "$path" ] && echo "it shows ${path##*/}" >&2 && exit 9; done
for path in / /usr /dev /proc/sys/kernel/core_pattern; do
    [ -w "$path" ] && echo "$path can be written" >&2 && exit 9
done
unshare --user true 2>/dev/null && echo "it lets a program be root again" >&2 && exit 9
: > program/file
"""


def _try(closed: ClosedSandbox, pythons: Sequence[str]) -> str:
    """Return what is wrong with it, empty for nothing."""
    secrets = [str(file) for file in closed.hidden_files]
    commands = [["/bin/sh", "-c", _LOOK, "look", *secrets]]
    commands += [[python, str(RUNNER), "--try"] for python in pythons]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        make_folders(work)
        closed.hand_over(work, Path(folder) / "output")
        for command in commands:
            try:
                done = run_trial(closed.wrap(command, work), _TRIAL_S)
            except (OSError, subprocess.SubprocessError) as exc:
                return f"bubblewrap does not start: {type(exc).__name__}"
            if done.returncode:
                words = " ".join(done.stderr.split())[-200:]
                return f"bubblewrap makes no closed sandbox here: {words}"
    return ""


def make_folders(work: Path) -> None:
    """Make what the sandbox asks of an attempt's folder."""
    for name in FOLDERS:
        (work / name).mkdir(mode=0o700)


def _lies_in(place: str, folders: Iterable[str]) -> bool:
    return any(Path(place).is_relative_to(folder) for folder in folders)
