"""Entry point of the agent's zipapp: unpack it once, then run the agent.

It uses only the standard library and syntax of old Pythons, so that it can report which version it
needs.
"""

import fcntl
import os
import shutil
import sys
import zipfile

BUNDLE = os.path.dirname(os.path.abspath(__file__))
#: number of unpacked versions to keep: this one and the previous one
_KEPT = 2


def main():
    # type: () -> int
    with zipfile.ZipFile(BUNDLE) as bundle:
        kind = bundle.read("kind.txt").decode()
        version = bundle.read("version.txt").decode()
        _check(kind)
        folder = _unpacked(bundle, "{}-{}".format(version, kind.rsplit("-", 1)[1]))
    sys.path[0] = folder
    from agent.cli import main as agent

    code = agent()  # type: int
    return code


def _check(kind):
    # type: (str) -> None
    platform_tag = "linux-{}-cp3{}".format(os.uname().machine, sys.version_info[1])
    if platform_tag != kind:
        minor = kind.rsplit("cp3", 1)[1]
        text = "{} is for {}, this is {}: run it with python3.{}, or install the agent again."
        sys.exit(text.format(os.path.basename(BUNDLE), kind, platform_tag, minor))


def _unpacked(bundle, name):
    # type: (zipfile.ZipFile, str) -> str
    """Return the folder with the unpacked packages; concurrent starts unpack only once."""
    root = _root()
    folder = os.path.join(root, name)
    if os.path.isdir(folder):
        return folder
    with open(os.path.join(root, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(folder):
            draft = folder + ".new"
            shutil.rmtree(draft, ignore_errors=True)
            members = [member for member in bundle.namelist() if member.startswith("site/")]
            bundle.extractall(draft, members)
            os.rename(os.path.join(draft, "site"), folder)
            shutil.rmtree(draft, ignore_errors=True)
            _remove_old_versions(root, folder)
    return folder


def _root():
    # type: () -> str
    """Return the folder of unpacked versions: next to the zipapp, or in the user's cache."""
    beside = os.path.dirname(BUNDLE)
    if not os.access(beside, os.W_OK):
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        beside = os.path.join(home, "megengine-web-profile")
    root = os.path.join(beside, "unpacked")
    os.makedirs(root, mode=0o700, exist_ok=True)
    return root


def _remove_old_versions(root, newest):
    # type: (str, str) -> None
    """Remove all but `newest` and the latest others; its own time is not compared.

    The clock of a board may be behind that of the boot in which the others were unpacked.
    """
    folders = [os.path.join(root, name) for name in os.listdir(root) if name != "lock"]
    folders.remove(newest)
    folders.sort(key=os.path.getmtime, reverse=True)
    for folder in folders[_KEPT - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
