"""System packages that some tests need in addition to those of pip and npm.

`python3 webprofile/tests/machine.py` prints the missing Debian packages, one per line; `.ci/run`
installs them. It needs Python 3.11 or newer and no other packages.
"""

import glob
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SystemPackages:
    """`tests` completes the phrase "tests ..."; `is_there` checks whether it is installed."""

    tests: str
    packages: tuple[str, ...]
    is_there: Callable[[], bool]


def _programs(*names: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(name) for name in names)


def _has_fonts() -> bool:
    """Whether Latin and Chinese fonts are installed, without which Chromium draws boxes."""
    if not shutil.which("fc-list"):
        return False
    listed = subprocess.run(["fc-list"], capture_output=True, text=True, check=False).stdout
    return "Noto Sans CJK" in listed and "DejaVu" in listed


#: the wrapper on PATH runs the shell as a child, and would leave it behind when it is ended
HEADLESS_SHELL = Path("/usr/lib/chromium/chromium-headless-shell")
CHROMIUM = Path("/usr/lib/chromium/chromium")
#: the wrapper on PATH switches to the user rabbitmq, this program runs as the current user
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
#: only the library is used, not the program
FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"

PARTS = {
    "chromium": SystemPackages(
        "in a browser",
        ("chromium", "chromium-driver", "chromium-headless-shell"),
        lambda: CHROMIUM.exists() and HEADLESS_SHELL.exists() and _programs("chromedriver")(),
    ),
    "fonts": SystemPackages(
        "in a browser", ("fontconfig", "fonts-noto-cjk", "fonts-dejavu-core"), _has_fonts
    ),
    "gettext": SystemPackages("of the translations", ("gettext",), _programs("xgettext", "msgfmt")),
    "bubblewrap": SystemPackages(
        "of the sandbox and of scripts", ("bubblewrap",), _programs("bwrap")
    ),
    "rabbitmq": SystemPackages("of RabbitMQ", ("rabbitmq-server",), RABBITMQ.exists),
    "caddy": SystemPackages("of the proxy", ("caddy",), _programs("caddy")),
    # steps the clock of an agent
    "libfaketime": SystemPackages("of faults", ("libfaketime",), lambda: bool(glob.glob(FAKETIME))),
}
#: not in PARTS, because no Debian package has it
MEGENGINE = "megengine"


def missing() -> list[str]:
    """Return the names of the parts that are not installed."""
    return [name for name, part in PARTS.items() if not part.is_there()]


def packages_of(names: Iterable[str]) -> list[str]:
    """Return the packages of these parts without duplicates."""
    return list(dict.fromkeys(package for name in names for package in PARTS[name].packages))


def install_command(packages: Iterable[str]) -> str:
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install --no-install-recommends {' '.join(packages)}"


if __name__ == "__main__":
    for package in packages_of(missing()):
        print(package)
