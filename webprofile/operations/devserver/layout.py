"""Where things lie below the home folder, and the secrets made on the first start."""

import errno
import itertools
import json
import os
import random
import secrets
import shutil
import socket
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
BUCKET = "megengine-web-profile"
LOG_LIMIT_BYTES = 10 << 20
#: sockaddr_un has 108 bytes on Linux, 104 on others, with the NUL at its end
SOCKET_PATH_LIMIT_BYTES = 103
#: where looking for a free port begins, above most programs' own ones
_FIRST_PORT = 12_000
#: first and last port that outgoing connections get (ip(7), ip_local_port_range)
_PORTS_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_FIRST_PORT_OF_CONNECTIONS = 32_768


@dataclass(frozen=True)
class Keys:
    """Secrets of one home, made once."""

    secret_key: str
    s3_access_key_id: str
    s3_secret_access_key: str


@dataclass(frozen=True)
class Layout:
    """Paths of one home. `home` is absolute and readable by its owner alone."""

    home: Path

    @property
    def database(self) -> Path:
        return self.home / "db.sqlite3"

    @property
    def redis(self) -> Path:
        return self.home / "redis"

    @property
    def storage(self) -> Path:
        return self.home / "storage"

    @property
    def agent_config(self) -> Path:
        return self.home / "agent" / "agent.toml"

    @property
    def agent_files(self) -> Path:
        """What other devices download."""
        return self.home / "agent-files"

    @property
    def examples(self) -> Path:
        return self.home / "examples"

    @property
    def temporary(self) -> Path:
        """Lives as long as one start."""
        return self.home / "tmp"

    @property
    def lock(self) -> Path:
        return self.home / "lock"

    def log(self, part: str) -> Path:
        return self.home / "logs" / f"{part}.log"

    def make_folders(self) -> None:
        """Make every folder; rotate the logs of the start before."""
        folders = [self.redis, self.storage / BUCKET, self.agent_config.parent]
        for folder in (*folders, self.examples, self.temporary):
            folder.mkdir(parents=True, exist_ok=True)
        logs = self.log("any").parent
        logs.mkdir(exist_ok=True)
        for log in logs.glob("*.log"):
            log.replace(log.with_suffix(".log.1"))


def open_home(home: Path) -> Layout:
    """Return the layout of `home`, which is made if it is missing."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Layout(home.resolve())


def bound_log(log: Path) -> None:
    """Move a log that grew too large aside, under the feet of the process that appends to it."""
    if log.stat().st_size <= LOG_LIMIT_BYTES:
        return
    shutil.copyfile(log, log.with_suffix(".log.1"))
    os.truncate(log, 0)


def load_keys(layout: Layout) -> Keys:
    """Read the secrets of this home; make them on the first start."""
    made = Keys(
        secret_key=secrets.token_urlsafe(48),
        # rclone refuses access keys that are shorter than 16 characters
        s3_access_key_id=secrets.token_hex(10),
        s3_secret_access_key=secrets.token_hex(20),
    )
    return Keys(**stored(layout.home / "secrets.json", asdict(made)))


def stored(file: Path, fresh: dict[str, str]) -> dict[str, str]:
    """Return what `file` holds; if there is none yet, store `fresh` (mode 0600) and return it."""
    try:
        found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        write_private(file, json.dumps(fresh, indent=1) + "\n")
        return fresh
    return found


def write_private(file: Path, text: str) -> None:
    """Replace `file` in one step; nobody but the owner can ever read it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(name).replace(file)


def socket_folder(layout: Layout) -> tuple[Path, bool]:
    """Return a folder for Redis' socket, and whether it is a temporary one that must be removed."""
    path = layout.redis / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT_BYTES:
        return layout.redis, False
    return Path(tempfile.mkdtemp(prefix="mgw-")), True  # mode 0700


def is_free(port: int) -> bool:
    """Tell whether a server could listen at this port of the loopback address."""
    with socket.socket() as probe:
        # a port that lingers in TIME_WAIT from the start before is free for a server
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Return different ports of the loopback address that nobody listens at.

    They lie below those that the kernel gives to outgoing connections: one of those may be taken
    by any connection of the machine before whoever asked here listens.
    """
    candidates = list(range(_FIRST_PORT, _first_port_of_connections()))
    random.SystemRandom().shuffle(candidates)
    found = list(itertools.islice(filter(is_free, candidates), count))
    if len(found) < count:
        raise OSError(errno.EADDRINUSE, "no free port")
    return found


def _first_port_of_connections() -> int:
    try:
        first = int(_PORTS_OF_CONNECTIONS.read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux
        return _USUAL_FIRST_PORT_OF_CONNECTIONS
    # somebody who widened the range left no room below it: a small risk is better than no port
    return first if first >= 2 * _FIRST_PORT else _USUAL_FIRST_PORT_OF_CONNECTIONS
