"""Paths below the home folder, secrets of the site, and free ports."""

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
#: lowest port that is chosen, above the ports of most programs
_FIRST_PORT = 12_000
#: range of ports of outgoing connections (ip(7), ip_local_port_range)
_PORTS_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_FIRST_PORT_OF_CONNECTIONS = 32_768


@dataclass(frozen=True)
class Keys:
    """Secrets of one home folder, generated once."""

    secret_key: str
    s3_access_key_id: str
    s3_secret_access_key: str


class Layout:
    """Paths of one home folder, which is absolute and readable only by its owner.

    agent_files: files of the agent that other devices download
    temporary: temporary files of one run
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.database = home / "db.sqlite3"
        self.redis = home / "redis"
        self.storage = home / "storage"
        self.agent_config = home / "agent" / "agent.toml"
        self.agent_files = home / "agent-files"
        self.examples = home / "examples"
        self.temporary = home / "tmp"
        self.lock = home / "lock"

    def log(self, part: str) -> Path:
        return self.home / "logs" / f"{part}.log"

    def make_folders(self) -> None:
        """Create all folders and rotate the logs of the previous run."""
        folders = [self.redis, self.storage / BUCKET, self.agent_config.parent]
        for folder in (*folders, self.examples, self.temporary):
            folder.mkdir(parents=True, exist_ok=True)
        logs = self.log("any").parent
        logs.mkdir(exist_ok=True)
        for log in logs.glob("*.log"):
            log.replace(log.with_suffix(".log.1"))


def open_home(home: Path) -> Layout:
    """Return the layout of `home`; create the folder if it is missing."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Layout(home.resolve())


def bound_log(log: Path) -> None:
    """Copy a log above the size limit and truncate it, while its process keeps it open."""
    if log.stat().st_size <= LOG_LIMIT_BYTES:
        return
    shutil.copyfile(log, log.with_suffix(".log.1"))
    os.truncate(log, 0)


def load_keys(layout: Layout) -> Keys:
    """Read the secrets of this home folder; generate them on the first start."""
    fresh = Keys(
        secret_key=secrets.token_urlsafe(48),
        # rclone refuses access keys that are shorter than 16 characters
        s3_access_key_id=secrets.token_hex(10),
        s3_secret_access_key=secrets.token_hex(20),
    )
    return Keys(**stored(layout.home / "secrets.json", asdict(fresh)))


def stored(file: Path, fresh: dict[str, str]) -> dict[str, str]:
    """Return the content of a JSON file; if it is missing, store `fresh` (mode 0600)."""
    try:
        values: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        write_private(file, json.dumps(fresh, indent=1) + "\n")
        return fresh
    return values


def write_private(file: Path, text: str) -> None:
    """Replace a file atomically, with mode 0600 from the start."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    Path(name).replace(file)


def socket_folder(layout: Layout) -> tuple[Path, bool]:
    """Return a folder for the socket of Redis, and whether it is temporary and must be deleted."""
    path = layout.redis / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT_BYTES:
        return layout.redis, False
    return Path(tempfile.mkdtemp(prefix="mgw-")), True  # mode 0700


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port of the loopback address.

    Raises PermissionError for a port that this user may not use.
    """
    with socket.socket() as probe:
        # a server may use a port with connections in TIME_WAIT
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError:
            raise
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Return different free ports of the loopback address.

    They are below the range of outgoing connections, which could take a port before the server
    listens. Raises OSError if there are not enough.
    """
    candidates = list(range(_FIRST_PORT, _first_port_of_connections()))
    random.SystemRandom().shuffle(candidates)
    ports = list(itertools.islice(filter(is_free, candidates), count))
    if len(ports) < count:
        raise OSError(errno.EADDRINUSE, "no free port")
    return ports


def _first_port_of_connections() -> int:
    try:
        first = int(_PORTS_OF_CONNECTIONS.read_text(encoding="ascii").split()[0])
    except OSError:  # not Linux
        return _USUAL_FIRST_PORT_OF_CONNECTIONS
    # a widened range leaves no ports below it, so the default is used in spite of the small risk
    return first if first >= 2 * _FIRST_PORT else _USUAL_FIRST_PORT_OF_CONNECTIONS
