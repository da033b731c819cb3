"""Rotation of storage keys: one process signs with the old keys, another with the new ones."""

import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import boto3
import httpx2
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from webprofile.operations.devserver.layout import free_ports

ROOT = Path(__file__).parents[2]
OLD, NEW = ("old-access-key", "old-secret-key"), ("new-access-key", "new-secret-key")
#: signs as a server does, with settings from the environment
SIGN = """
import django, sys
django.setup()
from webprofile.storage import storage
print(storage.presign_get("tasks/1/1"))
md5 = "900150983cd24fb0d6963f7d28e17f72"  # of "abc"
print(storage.presign_put("tasks/1/2", size_bytes=3, md5=md5, is_browser=True)[0])
"""


@contextmanager
def serve_storage(folder, port, *pairs):
    command = [Path(sys.executable).with_name("rclone"), "serve", "s3", "--config", "/dev/null"]
    command += ["--addr", f"127.0.0.1:{port}"]
    for access, secret in pairs:
        command += ["--auth-key", f"{access},{secret}"]
    server = subprocess.Popen([*command, folder], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


def sign_urls(port, pair, folder):
    """Return the URLs that a process signs with a pair of keys, which it reads from files."""
    names = ("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    for name, value in zip(names, pair, strict=True):
        file = folder / f"{pair[0]}-{name}"
        file.write_text(value, encoding="utf-8")
        environment[f"{name}_FILE"] = str(file)
    # settings of tests set a default pair
    environment |= {
        "DJANGO_SETTINGS_MODULE": "webprofile.settings.dev",
        "SECRET_KEY": "x",
        "S3_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "S3_BUCKET": "site",
        "MGW_HOME": str(folder),
    }
    completed = subprocess.run(
        [sys.executable, "-c", SIGN], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.split()


@pytest.mark.exhaustive
def test_urls_of_both_key_pairs_work_until_the_old_pair_is_removed(tmp_path):
    folder = tmp_path / "s3"
    folder.mkdir()
    (port,) = free_ports(1)
    with serve_storage(folder, port, OLD, NEW):
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id=OLD[0],
            aws_secret_access_key=OLD[1],
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="site")
        client.put_object(Bucket="site", Key="tasks/1/1", Body=b"old")
        old, new = (sign_urls(port, pair, tmp_path) for pair in (OLD, NEW))
        for get, put in (old, new):
            assert httpx2.get(get).content == b"old"
            assert httpx2.put(put, content=b"abc").status_code == 200
    with serve_storage(folder, port, NEW):
        assert httpx2.get(old[0]).status_code == 403
        assert httpx2.get(new[0]).content == b"old"


@contextmanager
def serve_seaweedfs(folder, ports, pair):
    """SeaweedFS as docker/storage starts it, with a pair of keys from files."""
    environment = {**os.environ, "STORAGE_FOLDER": str(folder), "S3_BIND": "127.0.0.1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name, value in zip(("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"), pair, strict=True):
        file = folder.parent / name
        file.write_text(value, encoding="utf-8")
        environment[f"{name}_FILE"] = str(file)
    options = [f"-{name}={port}" for name, port in ports.items()]
    options += [f"-{name}.localSocket={folder.parent}/{name}.sock" for name in ("s3", "filer")]
    with (folder.parent / "log").open("ab") as log:
        server = subprocess.Popen(
            [ROOT / "docker" / "storage" / "entrypoint.sh", *options],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        # At once: in order it takes 16 s and sometimes more than a minute. What has been answered
        # must last through a power cut, too.
        server.kill()
        server.wait()


def is_accepted(port, pair):
    """Whether SeaweedFS lists its buckets for a pair of keys; it may still be starting."""
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=pair[0],
        aws_secret_access_key=pair[1],
        region_name="us-east-1",
    )
    deadline = time.monotonic() + 90
    while True:
        try:
            client.list_buckets()
        except EndpointConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 403:
                return False
            assert time.monotonic() < deadline, error
            time.sleep(0.5)
        else:
            return True


def wait_until_accepted(port, pair, expected):
    """SeaweedFS applies a command of its shell shortly after the command has ended."""
    deadline = time.monotonic() + 30
    while is_accepted(port, pair) is not expected:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.production
def test_keys_of_the_shipped_storage_are_rotated_by_the_documented_commands(tmp_path):
    page = (ROOT / "docs" / "rotation.md").read_text(encoding="utf-8")
    add, remove = re.findall(r"echo '(s3\.configure .*)' \| weed", page)
    add = add.replace("NEW_ID", NEW[0]).replace("NEW_SECRET", NEW[1])
    folder = tmp_path / "objects"
    folder.mkdir()
    names = ["s3.port", "master.port", "volume.port", "filer.port"]
    names += [f"{name}.grpc" for name in names]
    ports = dict(zip(names, free_ports(len(names)), strict=True))

    def shell(command):
        weed = Path(sys.executable).with_name("weed")
        master = f"127.0.0.1:{ports['master.port']}.{ports['master.port.grpc']}"
        subprocess.run(
            [weed, "shell", f"-master={master}"], input=command, text=True, check=True, timeout=90
        )

    with serve_seaweedfs(folder, ports, OLD):
        assert is_accepted(ports["s3.port"], OLD)
        assert not is_accepted(ports["s3.port"], NEW)
        shell(add)
        wait_until_accepted(ports["s3.port"], NEW, True)
        assert is_accepted(ports["s3.port"], OLD)
    with serve_seaweedfs(folder, ports, NEW):
        assert is_accepted(ports["s3.port"], NEW)
        shell(remove)
        wait_until_accepted(ports["s3.port"], OLD, False)
        assert is_accepted(ports["s3.port"], NEW)
