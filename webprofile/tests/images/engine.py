"""Run the services of docker/compose.yaml with podman.

podman-compose is not used, because it only waits for healthy services with podman 4.6 or newer, and
Debian 12 has 4.3.
"""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: prefix of the names of containers, networks and volumes, so that `clear` removes no others
PREFIX = "mgw-try"
_HEALTHY_WITHIN_S = 120.0


class ImageTestError(Exception):
    """A command failed. The message has the output of podman or of the program."""


class Engine:
    """Runs services with podman. `docker`: folder of the compose file; `secrets`: their folder."""

    def __init__(
        self, podman: str, docker: Path, compose: dict[str, Any], *, secrets: Path
    ) -> None:
        self._podman, self._docker, self._compose = podman, docker, compose
        self._secrets = secrets

    def build(self, name: str, options: Sequence[str]) -> None:
        build = self._compose["services"][name]["build"]
        context = (self._docker / build["context"]).resolve()
        command = [self._podman, "build", *options, "-t", self._image(name)]
        command += ["-f", str(context / build["dockerfile"]), str(context)]
        if code := subprocess.run(command, check=False).returncode:
            raise ImageTestError(f"the image of {name} was not built: podman ended with {code}")

    def size_mb(self, name: str) -> float:
        inspected = self._output("image", "inspect", "--format", "{{.Size}}", self._image(name))
        return int(inspected) / 1e6

    def networks(self) -> None:
        for name, network in self._compose["networks"].items():
            kind = ["--internal"] if network.get("internal") else []
            self._output("network", "create", *kind, f"{PREFIX}-{name}")

    def start(self, name: str, *more: str, networks: Sequence[str] = ()) -> None:
        """Start a service and wait until it is healthy. Raises ImageTestError with its log."""
        service = self._compose["services"][name]
        container = f"{PREFIX}-{name}"
        check = json.dumps(service["healthcheck"]["test"][1:])
        command = ["run", "-d", "--name", container, "--replace", "--network-alias", name]
        command += ["--health-cmd", check, "--health-interval", "disable"]
        command += self._options(service, networks)
        self._output(*command, *more, self._image(name), *service.get("command", []))
        deadline = time.monotonic() + _HEALTHY_WITHIN_S
        while self._call("healthcheck", "run", container).returncode:
            if time.monotonic() > deadline:
                raise ImageTestError(f"{name} is not healthy:\n{self.log(name)}")
            time.sleep(1)

    def once(self, name: str, *command: str, more: Sequence[str] = (), stdin: str = "") -> str:
        """Run a service to its end, `stdin` on its standard input; return its output."""
        service = self._compose["services"][name]
        words = command or service["command"]
        # with a name, so that `clear` can remove it if this program is interrupted
        run = ["run", "--rm", "-i", "--name", f"{PREFIX}-{name}-once", "--replace"]
        run += [*self._options(service), *more, self._image(name), *words]
        return self._output(*run, stdin=stdin)

    def stop(self, name: str) -> tuple[int, float]:
        """Stop a service; return its exit code and the time in s."""
        container, service = f"{PREFIX}-{name}", self._compose["services"][name]
        begin = time.monotonic()
        self._output("stop", "-t", service["stop_grace_period"].removesuffix("s"), container)
        took_s = time.monotonic() - begin
        code = self._output("inspect", "--format", "{{.State.ExitCode}}", container)
        return int(code), took_s

    def read(self, name: str, path: str) -> str:
        """Return the content of a text file of a running container."""
        return self._output("exec", f"{PREFIX}-{name}", "cat", path)

    def log(self, name: str) -> str:
        result = self._call("logs", "--tail", "40", f"{PREFIX}-{name}")
        return result.stdout + result.stderr

    def clear(self) -> None:
        """Remove all containers, volumes and networks of this program; images stay."""
        removals = {
            ("ps", "-a", "--format", "{{.Names}}"): ("rm", "-v"),
            ("volume", "ls", "-q"): ("volume", "rm"),
            ("network", "ls", "-q"): ("network", "rm"),
        }
        for listing, removal in removals.items():
            for name in self._output(*listing).split():
                if name.startswith(PREFIX):
                    self._call(*removal, "-f", name)

    def _options(self, service: dict[str, Any], networks: Sequence[str] = ()) -> list[str]:
        chosen = networks or service["networks"]
        options = ["--user", service["user"], "--read-only", "--read-only-tmpfs=false"]
        options += ["--network", ",".join(f"{PREFIX}-{network}" for network in chosen)]
        options += ["--memory", service["mem_limit"]]
        for right in service["cap_drop"]:
            options += ["--cap-drop", right.lower()]
        for rule in service["security_opt"]:
            options += _security(rule)
        for folder in service["tmpfs"]:
            options += ["--tmpfs", folder]
        for volume in service.get("volumes", []):
            options += ["--volume", self._volume(volume)]
        for secret in service.get("secrets", []):
            options += ["--volume", self._secret(secret)]
        for key, value in service.get("environment", {}).items():
            options += ["--env", f"{key}={value}"]
        for key in ("shm_size", "hostname"):
            options += [f"--{key.replace('_', '-')}", service[key]] if key in service else []
        return options + (["--init"] if service.get("init") else [])

    def _volume(self, volume: str) -> str:
        if ":" not in volume:
            return volume  # an anonymous volume
        source, rest = volume.split(":", 1)
        if source.startswith((".", "/")):
            return f"{(self._docker / source).resolve()}:{rest}"
        return f"{PREFIX}-{source}:{rest}"

    def _secret(self, secret: str | dict[str, str]) -> str:
        name = secret if isinstance(secret, str) else secret["source"]
        target = f"/run/secrets/{name}" if isinstance(secret, str) else secret["target"]
        file = Path(self._compose["secrets"][name]["file"]).name
        return f"{self._secrets / file}:{target}:ro"

    def _image(self, name: str) -> str:
        service = self._compose["services"][name]
        image: str = service["image"]
        return f"localhost/{image}" if "build" in service else image

    def _output(self, *words: str, stdin: str = "") -> str:
        result = self._call(*words, stdin=stdin)
        if result.returncode:
            raise ImageTestError(f"podman {' '.join(words[:2])}: {result.stdout}{result.stderr}")
        return result.stdout.strip()

    def _call(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self._podman, *words], input=stdin, capture_output=True, text=True, check=False
        )


def _security(rule: str) -> list[str]:
    """Translate a security option to podman. AppArmor profiles are left out: they may be absent."""
    if rule.startswith("apparmor"):
        return []
    if rule == "systempaths=unconfined":
        return ["--security-opt", "unmask=ALL"]
    return ["--security-opt", rule.removesuffix(":true").replace(":", "=")]
