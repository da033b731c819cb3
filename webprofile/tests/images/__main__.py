"""`make test-images`: the images of docker/ are built and the site runs in them, by hand.

Needs root and podman; no port of this machine is used. A site comes up as docker/compose.yaml
describes it, with the proxy's own certificates; a device enrols, its model runs in the sandbox of
its container; a backup comes back in empty volumes; every part ends when it is asked.
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
from webprofile.tests.images.engine import Engine, Failed

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
HOSTS = {"SITE_HOST": "site.test", "VIEWER_HOST": "viewer.test", "STORAGE_HOST": "storage.test"}
BUILT = ("migrate", "proxy", "minio", "backup", "agent")
PERSON = "ada@example.org"
_ONLINE_WITHIN_S = 120.0
_LISTENING_WITHIN_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-images", description=__doc__)
    parser.add_argument("--podman", default="podman", help="the program, or what wraps it")
    parser.add_argument("--no-build", action="store_true", help="use the images that are there")
    parser.add_argument("--build-options", default="", help="of podman build, such as mirrors")
    args = parser.parse_args()
    if os.geteuid():
        raise SystemExit("root is needed: containers have memory limits and networks of their own")
    if shutil.which(args.podman) is None:
        raise SystemExit(f"there is no {args.podman}: install podman, or name it by --podman")
    # containers end with the block below, also when this is told to end
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        run(args)
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    say("all of it works")
    return 0


def run(args: argparse.Namespace) -> None:
    """Raises Failed with what was found instead."""
    temporary = tempfile.TemporaryDirectory(prefix="mgw-images-")
    with temporary as folder, trial(args.podman, Path(folder)) as (engine, place):
        if not args.no_build:
            build(engine, shlex.split(args.build_options))
        serve(engine)
        profile(engine, place, trust(engine, place))
        saved = back_up(engine)
        end(engine)
        bring_back(engine, saved)


@contextlib.contextmanager
def trial(podman: str, folder: Path) -> Iterator[tuple[Engine, Path]]:
    """The engine, and a folder for what this machine gives to containers."""
    # containers read it as users of their own
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
    described = composition(DOCKER / "compose.yaml", HOSTS | variables)
    engine = Engine(podman, DOCKER, described, secrets=secrets)
    engine.clear()
    try:
        yield engine, folder
    finally:
        engine.clear()


def build(engine: Engine, options: list[str]) -> None:
    for name in BUILT:
        begin = time.monotonic()
        engine.build(name, options)
        say(f"built {name}: {engine.size_mb(name):.0f} MB in {time.monotonic() - begin:.0f} s")


def serve(engine: Engine) -> None:
    """All parts, each when those that it needs are well."""
    rows_and_files(engine)
    engine.once("migrate")
    for name in ("web-1", "web-2", "dispatch", "actors", "sweep"):
        engine.start(name)
    # at the ports that their names promise, since no port of this machine is published
    ports = ["--sysctl", "net.ipv4.ip_unprivileged_port_start=0"]
    ports += ["--env", "HTTP_PORT=80", "--env", "HTTPS_PORT=443"]
    names = [word for host in HOSTS.values() for word in ("--network-alias", host)]
    engine.start("proxy", *ports, *names, networks=("inside", "outside", "devices"))
    say("the site is up")


def rows_and_files(engine: Engine) -> None:
    engine.networks()
    for name in ("postgres", "redis", "minio"):
        engine.start(name)
    engine.once("storage")


def trust(engine: Engine, folder: Path) -> list[str]:
    """Options for a container that trusts the proxy's certificates."""
    authority = folder / "root.crt"
    path = "/var/lib/proxy/caddy/pki/authorities/local/root.crt"
    authority.write_text(engine.read("proxy", path))
    authority.chmod(0o644)
    return ["--volume", f"{authority}:/root.crt:ro", "--env", "SSL_CERT_FILE=/root.crt"]


def profile(engine: Engine, folder: Path, authority: list[str]) -> None:
    say(f"doctor:\n{examined(engine, authority)}")
    manage = ("migrate", "manage")
    engine.once(*manage, "users", "create", PERSON, given="a long passphrase 1\n")
    line = engine.once(*manage, "workers", "enrol", "box", "--public").splitlines()[-1]
    code = line.split("--code ")[1].split()[0]
    (folder / "secrets" / "enrol_code").write_text(code)
    engine.start("agent", *authority)
    deadline = time.monotonic() + _ONLINE_WITHIN_S
    while "on_time" not in engine.once(*manage, "workers", "list"):
        if time.monotonic() > deadline:
            raise Failed(f"the device did not come online:\n{engine.log('agent')}")
        time.sleep(1)
    if "ok      sandbox" not in engine.log("agent"):
        raise Failed(f"models run without a sandbox:\n{engine.log('agent')}")
    submit = ("submit", "-m", "/data/models/tiny.mge", "-w", "box", "-p", "quick", "--wait")
    engine.once(*manage, *submit, "--as", PERSON, more=["--volume", f"{DATA}:/data:ro"])
    listed(engine)
    promises(engine)


def examined(engine: Engine, authority: list[str]) -> str:
    """What the doctor finds; actors may still be starting when they count as healthy."""
    trusted = [*authority, "--env", "S3_CA_BUNDLE=/root.crt"]
    deadline = time.monotonic() + _LISTENING_WITHIN_S
    while True:
        try:
            return engine.once("migrate", "manage", "doctor", more=trusted)
        except Failed:
            if time.monotonic() > deadline:
                raise


def listed(engine: Engine) -> None:
    table = engine.once("migrate", "manage", "tasks", "list")
    if "succeeded" not in table:
        raise Failed(f"the task did not succeed, or is not there:\n{table}")
    say(table)


def promises(engine: Engine) -> None:
    say(engine.once("migrate", "manage", "verify").splitlines()[-1])


def back_up(engine: Engine) -> str:
    saved = engine.once("backup").splitlines()[-1]
    say(f"backup: {saved}")
    return saved


def end(engine: Engine) -> None:
    for name in ("agent", "web-1", "web-2", "dispatch", "actors", "sweep", "proxy"):
        code, took_s = engine.stop(name)
        if code:
            raise Failed(f"{name} ended with {code}:\n{engine.log(name)}")
        say(f"{name} ended in {took_s:.1f} s")


def bring_back(engine: Engine, saved: str) -> None:
    """The backup in empty volumes."""
    engine.clear()
    rows_and_files(engine)
    engine.once("backup", "/app/docker/backup/restore.sh", saved)
    engine.once("migrate")
    listed(engine)
    promises(engine)
    say("the backup is back")


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
