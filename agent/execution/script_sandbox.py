"""The sandbox of scripts: it contains only what is explicitly added.

The sandbox of models shows the device's system and hides parts of it. A hostile script would find
whatever that list misses, so this sandbox starts empty: it contains the system's programs and
libraries, the runtime, and the attempt's own folder; no home folders, spool, token, sockets of
services or other processes, and only a few files of `/etc`. The network has no interfaces.
Everything except the attempt's folder is read-only, including `/` and `/dev`; `/tmp` and `/dev/shm`
are subfolders of it, so that files there count towards the disk limit.

If the agent runs as root, a script runs as another user, to whom process limits apply. This
requires setpriv, and that all users may read the folders of the runtimes. Otherwise a script runs
as the agent's user, in a user namespace in which it cannot create further namespaces.
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
from agent.protocol.notes import Note
from agent.runtimes.config_file import replace_file

#: runs a program under the Profiler; a folder that a runtime's Python runs by its path
RUNNER = Path(__file__).resolve().parents[1] / "script_runner"
#: subfolders of an attempt's work folder, for the program and for traces
PROGRAM, TRACES = "program", "traces"
#: further subfolders -> their paths in the sandbox
_TEMPORARY = {"tmp": "/tmp", "shm": "/dev/shm"}
FOLDERS = (PROGRAM, TRACES, *_TEMPORARY)

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: settings of the dynamic linker, the time zone, OpenCL
_SETTINGS = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/localtime", "/etc/OpenCL", "/nix/store", "/run/opengl-driver",
)  # fmt: skip
_PROCESSORS = ("/sys/devices/system/cpu", "/sys/devices/system/node")
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
#: user id of scripts if the agent is root; unused, also by systemd (up to 65,519)
_SCRIPT_USER = 65531
_USER_NAMESPACE = ("--unshare-user", "--uid", "1000", "--gid", "1000")
#: capabilities that setpriv needs to change the user; the change drops them
_CHANGE_USER = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
#: long enough for a busy board, since a failed trial disables scripts until the agent restarts
_TRIAL_S = 60
#: bubblewrap reads the seccomp filter from a file descriptor
_WITH_FILTER = ("/bin/sh", "-c", 'exec "$@" 9<"$0"')


@dataclass(frozen=True)
class ClosedSandbox(Sandbox):
    """Configuration of the sandbox, with that of the sandbox of models.

    `hidden_folders` and `hidden_files` stay hidden inside of visible folders. `user` are
    bubblewrap's flags for the user; `setpriv` is the program that changes to the user `owner`,
    empty if the user does not change. `filter` is the file of the seccomp filter.
    """

    user: tuple[str, ...] = ()
    setpriv: str = ""
    filter: Path | None = None

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """Return the command line that runs `command` in the sandbox.

        `work` contains FOLDERS. Only the first two parts of the command, the interpreter and the
        runner, are made visible: the others are the user's and must not name paths of the device.
        Raises OSError if the sandbox is unusable.
        """
        if not self.bwrap:
            raise FileNotFoundError(f"no sandbox for scripts: {self.problem}")
        paths = self._visible_paths(command[:2])
        hidden = [str(folder) for folder in self.hidden_folders if self._must_cover(folder, paths)]
        prefix = self._common_flags(work)
        for path in paths:
            prefix += [*_make_parents(Path(path)), "--ro-bind", path, path]
        for folder in hidden:
            prefix += ["--tmpfs", folder]
        for file in self.hidden_files:
            if self._must_cover(file, paths):
                prefix += ["--ro-bind", "/dev/null", str(file)]
        prefix += [*_make_parents(work), "--bind", str(work), str(work), "--chdir", str(work)]
        for path in (*hidden, "/proc", "/dev", "/"):
            prefix += ["--remount-ro", path]
        return [*prefix, "--", *self._change_user(), *command]

    def _must_cover(self, path: Path, visible: Iterable[str]) -> bool:
        """Return whether a hidden path exists in the sandbox, i.e. is inside of a visible one."""
        return _is_in(str(path), visible)

    def _common_flags(self, work: Path) -> list[str]:
        """Return the part of bubblewrap's command line that is the same for all commands."""
        prefix = [*_WITH_FILTER, str(self.filter)] if self.filter else []
        prefix += [self.bwrap, *(("--seccomp", "9") if self.filter else ())]
        prefix += [*self.user, *_NAMESPACES, "--unshare-cgroup-try", "--hostname", "sandbox"]
        # a new session has no terminal that input could be pushed into (TIOCSTI)
        prefix += ["--new-session", "--die-with-parent", "--cap-drop", "ALL"]
        if self.owner is not None:
            prefix += [part for capability in _CHANGE_USER for part in ("--cap-add", capability)]
        prefix += ["--setenv", "USER", "script", "--setenv", "LOGNAME", "script"]
        prefix += ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/usr", "/usr"]
        for folder in _SYSTEM:
            if os.path.islink(folder):
                prefix += ["--symlink", os.readlink(folder), folder]
            elif os.path.isdir(folder):
                prefix += ["--ro-bind", folder, folder]
        # first, because the attempt's folder or a runtime may be below /tmp
        for name, path in _TEMPORARY.items():
            prefix += ["--bind", str(work / name), path]
        prefix += self._devices()
        return prefix

    @property
    def owner(self) -> int | None:
        """User id that the files of a run must belong to; None for the agent's own user."""
        return _SCRIPT_USER if self.setpriv else None

    def describe_user(self) -> str:
        """Describe the user that scripts run as; if it is root, also how to change that."""
        if self.owner is not None:
            return "as a separate user"
        confinement = "in a separate namespace" if self.user else "without its privileges"
        if os.geteuid() != 0:
            return f"as the agent's user, {confinement}"
        return (
            f"as root, {confinement}: to use a separate user, install setpriv (util-linux) and "
            "allow all users to read the folders of MegEngine and of the agent"
        )

    def hand_over(self, work: Path, output: Path) -> None:
        """Change the owner of a run's files to the user that it runs as. Raises OSError."""
        output.touch(mode=0o600)
        if self.owner is None:
            return
        for parent, _, files in os.walk(work):
            for path in (parent, *(os.path.join(parent, name) for name in files)):
                os.lchown(path, self.owner, self.owner)
        # bubblewrap enters these folders before the user changes, and without root's capabilities;
        # `work` may be below /tmp
        for folder in (work, *(work / name for name in _TEMPORARY)):
            folder.chmod(0o711)
        os.lchown(output, self.owner, self.owner)

    def _change_user(self) -> list[str]:
        if self.owner is None:
            return []
        user = ["--reuid", str(self.owner), "--regid", str(self.owner), "--clear-groups"]
        return [self.setpriv, *user, "--bounding-set=-all", "--inh-caps=-all", "--"]

    def _devices(self) -> list[str]:
        """Return flags for the compute devices, and for the files in /sys that libraries read."""
        devices = [device for pattern in DEVICES for device in sorted(glob.glob(pattern))]
        prefix = [part for device in devices for part in ("--dev-bind-try", device, device)]
        for path in ("/sys",) if devices else _PROCESSORS:
            prefix += [*_make_parents(Path(path)), "--ro-bind-try", path, path]
        return prefix

    def _visible_paths(self, command: Sequence[str]) -> list[str]:
        """Return the paths to add to the system folders, parents before their children."""
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        named = [Path(part) for part in (*command, *libraries) if part.startswith("/")]
        roots = (Path("/"), *self.homes)
        needed = [need for path in named for need in needs_of(path, roots)]
        paths = {*map(str, needed), *map(str, self.visible), *_SETTINGS}
        mounted = ("/usr", *_SYSTEM)
        return sorted(path for path in paths if os.path.exists(path) and not _is_in(path, mounted))


def _make_parents(path: Path) -> list[str]:
    """Return flags that create the parents of a path, readable by all users.

    bubblewrap itself would create them for their owner only.
    """
    return [part for parent in reversed(path.parents[:-1]) for part in ("--dir", str(parent))]


def find_closed_sandbox(
    sandbox: Sandbox, folder: Path, pythons: Sequence[str] = ()
) -> ClosedSandbox:
    """Return the strictest sandbox of scripts that works on this device.

    It uses the settings of the sandbox of models, `sandbox`; the seccomp filter is written to
    `folder`. `pythons` are interpreters that must work inside, since another user may be unable to
    read them. If none works, the result has a `problem`. Raises OSError.
    """
    if not sandbox.bwrap:
        return ClosedSandbox(problem=sandbox.problem)
    closed = ClosedSandbox(**vars(sandbox), filter=_write_filter(folder))
    setpriv = shutil.which("setpriv") if os.geteuid() == 0 else None
    candidates = [replace(closed, setpriv=setpriv)] if setpriv else []
    candidates += [
        replace(closed, user=(*_USER_NAMESPACE, "--disable-userns")),
        replace(closed, user=_USER_NAMESPACE),
        closed,
    ]
    problem = None
    for candidate in candidates:
        problem = _test(candidate, pythons)
        if problem is None:
            return candidate
    return ClosedSandbox(problem=problem)


def _write_filter(folder: Path) -> Path | None:
    content = build_filter()
    if not content:
        return None
    path = folder / "seccomp.bpf"
    # atomically, because a script of an earlier agent may be starting
    replace_file(path, content)
    return path


#: fails if the sandbox shows a secret, lets the system be written to, or allows user namespaces
_TEST_SCRIPT = """
for path in "$@"; do [ -s "$path" ] && echo "it shows ${path##*/}" >&2 && exit 9; done
for path in / /usr /dev /proc/sys/kernel/core_pattern; do
    [ -w "$path" ] && echo "$path is writable" >&2 && exit 9
done
unshare --user true 2>/dev/null && echo "a program can become root again" >&2 && exit 9
: > program/file
"""


def _test(closed: ClosedSandbox, pythons: Sequence[str]) -> Note | None:
    """Test a sandbox; return its problem, None if it works."""
    secrets = [str(file) for file in closed.hidden_files]
    commands = [["/bin/sh", "-c", _TEST_SCRIPT, "look", *secrets]]
    commands += [[python, str(RUNNER), "--try"] for python in pythons]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        make_folders(work)
        closed.hand_over(work, Path(folder) / "output")
        for command in commands:
            try:
                process = run_trial(closed.wrap(command, work), _TRIAL_S)
            except (OSError, subprocess.SubprocessError) as exc:
                return Note.of("bwrap_not_started", cause=type(exc).__name__)
            if process.returncode:
                cause = " ".join(process.stderr.split())[-200:]
                return Note.of("closed_sandbox_failed", cause=cause)
    return None


def make_folders(work: Path) -> None:
    """Create the subfolders of an attempt's work folder that the sandbox needs."""
    for name in FOLDERS:
        (work / name).mkdir(mode=0o700)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
