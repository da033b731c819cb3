"""`make test-images`: build the images of docker/ and run the site in them. Started by hand.

Needs root and podman; uses no port of this machine. Starts the services of docker/compose.yaml with
internal certificates of the proxy, enrols a device, runs a model in the sandbox of its container,
restores a backup into empty volumes, and checks that every service stops cleanly.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testdata import DATA
from webprofile.tests.deployment.composition import composition
from webprofile.tests.images.engine import Engine, ImageTestError

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
HOSTS = {"SITE_HOST": "site.test", "VIEWER_HOST": "viewer.test", "STORAGE_HOST": "storage.test"}
BUILT = ("migrate", "proxy", "seaweedfs", "backup", "agent")
USER = "ada@example.org"
_ONLINE_WITHIN_S = 120.0
_LISTENING_WITHIN_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-images", description=__doc__)
    parser.add_argument("--podman", default="podman", help="podman or a wrapper of it")
    parser.add_argument("--no-build", action="store_true", help="use existing images")
    parser.add_argument("--build-options", default="", help="of podman build, such as mirrors")
    args = parser.parse_args()
    if os.geteuid():
        raise SystemExit("root is needed for memory limits and networks of containers")
    if shutil.which(args.podman) is None:
        raise SystemExit(f"there is no {args.podman}: install podman, or name it by --podman")
    # exit through the context managers, which remove the containers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        run(args)
    except ImageTestError as error:
        print(error, file=sys.stderr)
        return 1
    log("all steps succeeded")
    return 0


def run(args: argparse.Namespace) -> None:
    """Run all steps. Raises ImageTestError."""
    temporary = tempfile.TemporaryDirectory(prefix="mgw-images-")
    with temporary as path, trial(args.podman, Path(path)) as (engine, folder):
        if not args.no_build:
            build(engine, shlex.split(args.build_options))
        start_site(engine)
        run_task(engine, folder, trust_proxy(engine, folder))
        backup = back_up(engine)
        stop_all(engine)
        restore(engine, backup)


@contextlib.contextmanager
def trial(podman: str, folder: Path) -> Iterator[tuple[Engine, Path]]:
    """Yield the engine, and a folder that is mounted into containers."""
    # containers read it as other users
    folder.chmod(0o755)
    secrets, backups, certificates = (folder / name for name in ("secrets", "backups", "tls"))
    subprocess.run(
        [DOCKER / "secrets.sh"],
        env={**os.environ, "SECRETS": str(secrets)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for own in (backups, certificates):
        own.mkdir()
        os.chown(own, 10001, 10001)
    variables = {"TLS": "tls internal", "BACKUPS": str(backups), "CERTIFICATES": str(certificates)}
    compose = composition(DOCKER / "compose.yaml", HOSTS | variables)
    engine = Engine(podman, DOCKER, compose, secrets=secrets)
    engine.clear()
    try:
        yield engine, folder
    finally:
        engine.clear()


def build(engine: Engine, options: list[str]) -> None:
    for name in BUILT:
        begin = time.monotonic()
        engine.build(name, options)
        log(f"built {name}: {engine.size_mb(name):.0f} MB in {time.monotonic() - begin:.0f} s")


def start_site(engine: Engine) -> None:
    """Start all services in the order of their dependencies."""
    start_stores(engine)
    engine.once("migrate")
    for name in ("web-1", "web-2", "dispatch", "actors", "sweep"):
        engine.start(name)
    # on the standard ports, since no port of this machine is published
    ports = ["--sysctl", "net.ipv4.ip_unprivileged_port_start=0"]
    ports += ["--env", "HTTP_PORT=80", "--env", "HTTPS_PORT=443"]
    names = [word for host in HOSTS.values() for word in ("--network-alias", host)]
    engine.start("proxy", *ports, *names, networks=("inside", "outside", "devices"))
    log("the site is up")


def start_stores(engine: Engine) -> None:
    engine.networks()
    for name in ("postgres", "redis", "seaweedfs"):
        engine.start(name)
    engine.once("storage")


def trust_proxy(engine: Engine, folder: Path) -> list[str]:
    """Return options for a container that trusts the certificates of the proxy."""
    authority = folder / "root.crt"
    path = "/var/lib/proxy/caddy/pki/authorities/local/root.crt"
    authority.write_text(engine.read("proxy", path))
    authority.chmod(0o644)
    return ["--volume", f"{authority}:/root.crt:ro", "--env", "SSL_CERT_FILE=/root.crt"]


def run_task(engine: Engine, folder: Path, authority: list[str]) -> None:
    log(f"doctor:\n{run_doctor(engine, authority)}")
    manage = ("migrate", "manage")
    engine.once(*manage, "users", "create", USER, stdin="a long passphrase 1\n")
    line = engine.once(*manage, "workers", "enrol", "box", "--public").splitlines()[-1]
    code = line.split("--code ")[1].split()[0]
    (folder / "secrets" / "enrol_code").write_text(code)
    engine.start("agent", *authority)
    deadline = time.monotonic() + _ONLINE_WITHIN_S
    while "on_time" not in engine.once(*manage, "workers", "list"):
        if time.monotonic() > deadline:
            raise ImageTestError(f"the device did not come online:\n{engine.log('agent')}")
        time.sleep(1)
    if "ok            sandbox" not in engine.log("agent"):
        raise ImageTestError(f"models run without a sandbox:\n{engine.log('agent')}")
    submit = ("submit", "-m", "/data/models/tiny.mge", "-w", "box", "-p", "quick", "--wait")
    engine.once(*manage, *submit, "--as", USER, more=["--volume", f"{DATA}:/data:ro"])
    check_task_list(engine)
    verify_integrity(engine)


def run_doctor(engine: Engine, authority: list[str]) -> str:
    """Run `manage.py doctor` until it succeeds, since healthy actors may still be starting."""
    trusted = [*authority, "--env", "S3_CA_BUNDLE=/root.crt"]
    deadline = time.monotonic() + _LISTENING_WITHIN_S
    while True:
        try:
            return engine.once("migrate", "manage", "doctor", more=trusted)
        except ImageTestError:
            if time.monotonic() > deadline:
                raise


def check_task_list(engine: Engine) -> None:
    table = engine.once("migrate", "manage", "tasks", "list")
    if "succeeded" not in table:
        raise ImageTestError(f"no task succeeded:\n{table}")
    log(table)


def verify_integrity(engine: Engine) -> None:
    log(engine.once("migrate", "manage", "verify").splitlines()[-1])


def back_up(engine: Engine) -> str:
    backup = engine.once("backup").splitlines()[-1]
    log(f"backup: {backup}")
    return backup


def stop_all(engine: Engine) -> None:
    for name in ("agent", "web-1", "web-2", "dispatch", "actors", "sweep", "proxy"):
        code, took_s = engine.stop(name)
        if code:
            raise ImageTestError(f"{name} ended with {code}:\n{engine.log(name)}")
        log(f"{name} ended in {took_s:.1f} s")


def restore(engine: Engine, backup: str) -> None:
    """Restore the backup into empty volumes and check it."""
    engine.clear()
    start_stores(engine)
    engine.once("backup", "/app/docker/backup/restore.sh", backup)
    engine.once("migrate")
    check_task_list(engine)
    verify_integrity(engine)
    log("the backup is restored")


def log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
