"""Tests of folders, secrets, ports, and the configuration of the agent."""

import errno
import importlib
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import dramatiq
import pytest

from webprofile.operations.devserver import layout as layouts
from webprofile.operations.devserver.__main__ import main
from webprofile.operations.devserver.device import MegEngineRuntime, update_config
from webprofile.operations.devserver.layout import (
    REPOSITORY,
    bound_log,
    free_ports,
    is_free,
    load_keys,
    open_home,
    socket_folder,
)
from webprofile.operations.devserver.parts import (
    DISPATCH_QUEUE,
    QUEUES,
    SiteConfig,
    environment,
    storage,
)
from webprofile.operations.devserver.site import choose_ports, manage, remember
from webprofile.operations.devserver.supervisor import PartError


def test_secrets_are_created_once_for_the_owner_only(tmp_path: Path) -> None:
    layout = open_home(tmp_path / "home")
    keys = load_keys(layout)
    assert load_keys(layout) == keys
    assert load_keys(open_home(tmp_path / "other")) != keys
    assert stat.S_IMODE((layout.home / "secrets.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(layout.home.stat().st_mode) == 0o700
    # rclone refuses shorter keys
    assert len(keys.s3_access_key_id) >= 16


def test_socket_folder_of_a_deep_home_is_short_and_private(tmp_path: Path) -> None:
    folder, is_temporary = socket_folder(open_home(tmp_path / ("deep" * 30)))
    try:
        assert is_temporary
        assert folder.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        folder.rmdir()


def test_log_keeps_one_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = open_home(tmp_path / "home")
    layout.make_folders()
    log = layout.log("web")
    log.write_text("first")
    layout.make_folders()
    assert not log.exists()
    assert (log.parent / "web.log.1").read_text() == "first"
    monkeypatch.setattr(layouts, "LOG_LIMIT_BYTES", 10)
    with log.open("ab", buffering=0) as stream:
        stream.write(b"a line that is too long")
        bound_log(log)
        stream.write(b"next")
    assert log.read_text() == "next"
    assert (log.parent / "web.log.1").read_text() == "a line that is too long"


def test_free_ports_differ_and_are_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(is_free(port) for port in ports)


@pytest.mark.parametrize(
    ("limits", "first"),
    [("25000 60999", 25_000), ("1024 65535", 32_768), (None, 32_768)],
    ids=["narrowed", "widened", "not Linux"],
)
def test_free_ports_are_outside_the_ephemeral_range(tmp_path, monkeypatch, limits, first) -> None:
    file = tmp_path / "ip_local_port_range"
    if limits:
        file.write_text(limits)
    monkeypatch.setattr(layouts, "_PORTS_OF_CONNECTIONS", file)
    assert [port for port in free_ports(50) if not 12_000 <= port < first] == []


def test_port_that_the_user_may_not_use_is_reported(monkeypatch) -> None:
    class UsersSocket(socket.socket):
        def bind(self, address: tuple[str, int]) -> None:
            if address[1] < 1024:
                raise PermissionError(errno.EACCES, "Permission denied")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", UsersSocket)
    with pytest.raises(PartError, match="Permission denied for port 80: choose one above 1023"):
        choose_ports(80)


@pytest.mark.parametrize("arguments", [["run"], ["manage", "check"]])
def test_home_of_another_user_is_reported_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys, arguments: list[str]
) -> None:
    def refuse(file: Path, *args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(os, "umask", lambda mask: 0)
    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setenv("MGW_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["devserver", *arguments])
    assert main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Permission denied: {tmp_path}/")


def test_s3_keys_are_in_no_command_line(tmp_path: Path) -> None:
    layout = open_home(tmp_path / "home")
    keys = load_keys(layout)
    site = SiteConfig(layout, keys, tmp_path / "s", port=1, storage_port=2)
    part = storage(site)
    assert keys.s3_secret_access_key not in " ".join(part.command)
    pair = f"{keys.s3_access_key_id},{keys.s3_secret_access_key}"
    assert part.environment["RCLONE_AUTH_KEY"] == f'"{pair}"'


def test_rclone_settings_of_the_caller_are_removed(tmp_path: Path) -> None:
    layout = open_home(tmp_path / "a home, 100%")
    site = SiteConfig(layout, load_keys(layout), tmp_path / "s o", port=1, storage_port=2)
    variables = environment(site, {"RCLONE_READ_ONLY": "1", "HOME": "/home/alice"})
    assert "RCLONE_READ_ONLY" not in variables
    assert variables["HOME"] == "/home/alice"
    assert variables["DATABASE_URL"].startswith("sqlite:////")
    assert variables["DATABASE_URL"].endswith("/a%20home%2C%20100%25/db.sqlite3")
    assert variables["REDIS_URL"] == f"unix://{tmp_path}/s%20o?db=0"


def test_update_config_sets_address_and_runtime_and_keeps_the_rest(
    tmp_path: Path,
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(
        'server = "http://127.0.0.1:1"\ntoken_file = "agent.token"\nspool = "sp\\"ool"\nnice = 5\n'
        '[[runtime]]\nversion = "1.13.0"\nkind = "wheel"\npath = "/old"\n'
        '[[runtime]]\nversion = "1.12.0"\nkind = "binary"\npath = "/opt/mge"\n'
        "[gate]\nmax_load = 0.1\n[measure]\ncores = [1]\n"
        '[[c_opr_lib]]\nname = "ops"\npath = "libops.so"\n'
    )
    update_config(file, "http://127.0.0.1:9", MegEngineRuntime(problem="No Python."))
    config = tomllib.loads(file.read_text())
    assert config["server"] == "http://127.0.0.1:9"
    assert config["spool"] == 'sp"ool'
    assert config["nice"] == 5
    ours, other = config["runtime"]
    assert ours == {"version": "1.13.0", "kind": "wheel", "path": "", "problem": "No Python."}
    assert other["path"] == "/opt/mge"
    assert (config["gate"], config["measure"]) == ({"max_load": 0.1}, {"cores": [1]})
    assert config["c_opr_lib"] == [{"name": "ops", "path": "libops.so"}]
    update_config(file, "http://127.0.0.1:9", MegEngineRuntime(python="/new/bin/python"))
    runtime = tomllib.loads(file.read_text())["runtime"][0]
    assert runtime == {"version": "1.13.0", "kind": "wheel", "path": "/new/bin/python"}


def test_each_actor_queue_is_consumed() -> None:
    for module in REPOSITORY.glob("*/actors.py"):
        importlib.import_module(f"{module.parent.name}.actors")
    actors = dramatiq.get_broker().actors.values()
    ours = {actor.queue_name for actor in actors if "django_dramatiq" not in actor.fn.__module__}
    assert ours == {*QUEUES, DISPATCH_QUEUE}


#: what a command does that cleans up for some time after Ctrl-C
SLOW_TO_STOP = """
import time
from django.conf import settings
try:
    print(settings.SITE_URL, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    print("stopped")
    exit(5)
"""


def test_manage_works_with_the_settings_of_the_last_start_and_ends_by_itself_after_ctrl_c(
    tmp_path: Path,
) -> None:
    layout = open_home(tmp_path)
    assert manage(layout, ["check"]) == 1  # before the first start
    remember(SiteConfig(layout, load_keys(layout), tmp_path / "redis.sock", 8000, 9000))
    arguments = ["manage", "shell", "-v", "0", "-c", SLOW_TO_STOP]
    process = subprocess.Popen(
        [sys.executable, "-m", "webprofile.operations.devserver", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "MGW_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # pytest in the background ignores SIGINT, and child processes inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "http://127.0.0.1:8000\n"
    # a terminal sends it to all processes of the group
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (5, "stopped\n", "")
