"""Emulated 64-bit ARM machine: a Debian root file system, run by qemu-user in namespaces.

The kernel must know that qemu runs arm64 binaries (binfmt_misc). Since Linux 6.7 each user
namespace has a list of its own, so this machine is not changed. With an older kernel the package
`qemu-user-static` must have registered qemu for the whole machine.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
QEMU = Path("/usr/bin/qemu-aarch64-static")
SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
PACKAGES = "python3,ca-certificates,bubblewrap"
#: first bytes of an ELF file for aarch64, and the mask of the bits that are compared
_MAGIC = r"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
#: flags: C uses the credentials of the binary; F opens qemu now, so it need not be in the root
_RULE = rf":qemu-aarch64:M::{_MAGIC}:{_MASK}:{QEMU}:CF"
_PREPARE = """
set -e
formats=/proc/sys/fs/binfmt_misc
if [ ! -e $formats/qemu-aarch64 ]; then
    mount -t binfmt_misc none $formats
    [ -e $formats/qemu-aarch64 ] || echo '{rule}' >$formats/register
fi
mount --rbind /dev {root}/dev
mount -t proc proc {root}/proc
mount -t tmpfs tmpfs {root}/tmp
mkdir -p {root}/opt/source
mount --rbind {source} {root}/opt/source
"""


class Machine:
    """The root file system, and the process that holds its namespaces."""

    def __init__(self, cache: Path) -> None:
        self.root, self._cache = cache / "root", cache
        self._holder: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Machine":
        self._check()
        self._cache.mkdir(parents=True, exist_ok=True)
        if not (self._cache / "complete").exists():
            self._download()
            self._hold()
            log("configuring Debian (minutes, once)")
            # user namespaces cannot create device files; this tells debootstrap so
            self.run(["env", "container=lxc", "/debootstrap/debootstrap", "--second-stage"])
            (self._cache / "complete").touch()
            # debootstrap unmounts /proc, which the agent needs: start again with new namespaces
            self._release()
        self._hold()
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        if self._holder:
            self._holder.kill()  # kills all processes of its PID namespace
            self._holder.wait()

    def install(self, requirements: Sequence[Path], names: Sequence[str] = ()) -> None:
        """Install Python packages for arm64 into the root."""
        text = b"".join(path.read_bytes() for path in requirements) + repr(names).encode()
        # stored in the root, so that it is removed together with the packages
        mark = self.root / "opt" / f"packages-{hashlib.sha256(text).hexdigest()[:16]}"
        if mark.exists():
            return
        command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--only-binary", ":all:"]
        command += ["--python-version", "3.11", "--python-platform", "aarch64-manylinux_2_28"]
        command += ["--target", str(self.root / "opt" / "packages")]
        for path in requirements:
            subprocess.run([*command, "--require-hashes", "-r", str(path)], check=True)
        if names:
            pinned = ["--constraint", str(ROOT / "requirements" / "dev.txt")]
            subprocess.run([*command, *pinned, *names], check=True)
        mark.touch()

    def start(self, command: Sequence[str], **options: object) -> subprocess.Popen[str]:
        """Start a program in the root."""
        return subprocess.Popen([*self._enter(), *command], text=True, **options)  # type: ignore

    def end(self, process: subprocess.Popen[str]) -> None:
        """Stop a started program. The signal goes to its child, because nsenter forwards none."""
        for child in children_of(process.pid):
            os.kill(child, signal.SIGTERM)
        process.wait(60)

    def run(self, command: Sequence[str]) -> None:
        subprocess.run([*self._enter(), *command], check=True)

    def _check(self) -> None:
        missing = [name for name in ("debootstrap", "nsenter", "unshare") if not shutil.which(name)]
        if missing or not QEMU.exists():
            absent = ", ".join([*missing, *([] if QEMU.exists() else [str(QEMU)])])
            raise SystemExit(f"missing: {absent} (apt install debootstrap qemu-user-static)")

    def _download(self) -> None:
        log("fetching Debian for arm64 (once)")
        shutil.rmtree(self.root, ignore_errors=True)
        command = ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase"]
        command += [f"--include={PACKAGES}", SUITE, str(self.root), MIRROR]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(result.stdout[-2000:] + result.stderr[-2000:])

    def _hold(self) -> None:
        """Create user, mount and PID namespaces, and mount /proc, /dev and the repository."""
        command = ["unshare", "--user", "--mount", "--pid", "--fork", "--kill-child=KILL"]
        self._holder = subprocess.Popen([*command, "sleep", "infinity"])
        outer = self._holder.pid
        while not (children := children_of(outer)):
            time.sleep(0.05)
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{outer}/{kind}").write_text("0 0 65536\n")
        self._first = str(children[0])
        script = _PREPARE.format(rule=_RULE, root=self.root, source=ROOT)
        subprocess.run([*self._outside(), "sh", "-c", script], check=True)

    def _outside(self) -> list[str]:
        """Return the command prefix to run in the namespaces with the files of this machine."""
        return ["nsenter", "-t", self._first, "-U", "-m", "-p", "--setuid", "0", "--setgid", "0"]

    def _enter(self) -> list[str]:
        environment = ["PYTHONPATH=/opt/packages:/opt/source", "HOME=/root", "LC_ALL=C.UTF-8"]
        environment += ["PATH=/usr/bin:/usr/sbin:/bin:/sbin", "PYTHONDONTWRITEBYTECODE=1"]
        return [*self._outside(), "chroot", str(self.root), "env", "-i", *environment]


def children_of(process: int) -> list[int]:
    return [
        int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ]


def log(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
