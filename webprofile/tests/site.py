"""A complete site for tests: the development server in a temporary folder."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from webprofile.operations.devserver.demo import Visitor
from webprofile.operations.devserver.layout import free_ports

ROOT = Path(__file__).parents[2]
READY_WITHIN_S = 1200.0  # a fresh machine installs MegEngine first


class EmbeddedSite:
    """A running `python -m webprofile.operations.devserver run`.

    root: the checkout whose site is started
    """

    def __init__(self, home: Path, *, root: Path = ROOT, **environment: str) -> None:
        self.home = home
        self.lines: list[str] = []
        inherited = {
            name: value
            for name, value in os.environ.items()
            # set by pytest for itself
            if name not in {"DJANGO_SETTINGS_MODULE", "SECRET_KEY", "S3_ACCESS_KEY_ID"}
        }
        # not the default port, since other test processes also start sites
        port = str(free_ports(1)[0])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "webprofile.operations.devserver", "run", "--port", port],
            cwd=root,
            # no runs of the site's own beside those of the tests
            env=inherited
            | {"MGW_HOME": str(home), "SCATTER_RUNS": "0", "AA_RUN_S": "0"}
            | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = self.wait_for(r"The site is at (\S+)")

    def manage(self, *arguments: str) -> str:
        """Run a `manage.py` command with the settings of the site; return its output.

        Raises AssertionError if it fails.
        """
        result = subprocess.run(
            [sys.executable, "-m", "webprofile.operations.devserver", "manage", *arguments],
            cwd=ROOT,
            env=os.environ | {"MGW_HOME": str(self.home)},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout.strip()

    @contextlib.contextmanager
    def login(self) -> Iterator[Visitor]:
        """Log in as the ordinary user that the first start creates."""
        visitor = Visitor(self.address, self.account)
        try:
            yield visitor
        finally:
            visitor.close()

    @property
    def account(self) -> dict[str, str]:
        for path in self.home.rglob("demo*.json"):
            account: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
            return account
        raise AssertionError(self.text)

    @property
    def admin_password(self) -> str:
        return self.wait_for(r"Administrator: \S+ password (\S+)")

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def stop(self) -> int:
        """Stop the site with SIGINT; return its exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def wait_for(self, pattern: str) -> str:
        """Wait until the site printed the pattern; return its first group."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if match := re.search(pattern, self.text):
                return match[1].rstrip(",")
            assert self.process.poll() is None, self.text
            time.sleep(0.1)
        raise AssertionError(f"no {pattern!r} in:\n{self.text}")


@contextlib.contextmanager
def running_site(home: Path, *, root: Path = ROOT, **environment: str) -> Iterator[EmbeddedSite]:
    site = EmbeddedSite(home, root=root, **environment)
    try:
        yield site
    finally:
        site.stop()


def command_lines_of(home: Path) -> list[str]:
    """Return the command lines of the processes with this home in their environment."""
    command_lines = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"MGW_HOME={home}".encode() in file.read_bytes().split(b"\0"):
                command_lines.append((file.parent / "cmdline").read_text())
    return command_lines
