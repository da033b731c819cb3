"""What every test may use."""

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from django.conf import settings
from django.db import connection, connections
from django.utils import translation

#: real models, inputs, profiles and broken files, used in place
DATA = Path(__file__).resolve().parent.parent / "shared" / "data"


def pytest_sessionstart() -> None:
    """In CI nothing is skipped for want of data: hundreds of tests are made from it."""
    if os.environ.get("CI") and not DATA.is_dir():
        pytest.exit(f"no test data at {DATA}", returncode=1)


@pytest.fixture(autouse=True)
def _no_language_of_another_test() -> Iterator[None]:
    """A request leaves its reader's language in its thread, which tests share."""
    yield
    translation.deactivate()


@pytest.fixture
def database_on_disk(transactional_db, tmp_path, monkeypatch):
    """What other threads open is a file, as on a real site: memory has no two writers."""
    path = tmp_path / "db.sqlite3"
    connection.ensure_connection()
    with contextlib.closing(sqlite3.connect(path)) as copy:
        connection.connection.backup(copy)
    on_disk = {**connections.settings["default"], "NAME": str(path)}
    monkeypatch.setitem(connections.settings, "default", on_disk)


@pytest.fixture
def shared_data() -> Path:
    """The folder of real data beside the repository; a test that needs it fails without it."""
    assert DATA.is_dir(), f"no test data at {DATA}"
    return DATA


@pytest.fixture(scope="session")
def object_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real S3 server on a folder; yields its address."""
    folder = tmp_path_factory.mktemp("s3")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    rclone = Path(sys.executable).with_name("rclone")
    # quoted: rclone reads the variable as CSV, one pair a field
    keys = f'"{settings.S3_ACCESS_KEY_ID},{settings.S3_SECRET_ACCESS_KEY}"'
    command = [rclone, "serve", "s3", "--addr", address, "--config", "/dev/null"]
    command += ["--allow-origin", "*", folder]
    environment = os.environ | {"RCLONE_AUTH_KEY": keys}
    server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        _wait_for(address, server)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture
def storage(object_storage: str, settings) -> None:
    """The site uses the real S3 server, with a bucket of the test's own."""
    settings.S3_ENDPOINT_URL = settings.S3_PUBLIC_ENDPOINT_URL = object_storage
    settings.S3_BUCKET = f"test-{uuid.uuid4().hex}"
    client = boto3.client(
        "s3",
        endpoint_url=object_storage,
        aws_access_key_id=settings.S3_ACCESS_KEY_ID,
        aws_secret_access_key=settings.S3_SECRET_ACCESS_KEY,
        region_name=settings.S3_REGION,
    )
    client.create_bucket(Bucket=settings.S3_BUCKET)


def _wait_for(address: str, server: subprocess.Popen) -> None:
    host, port = address.split(":")
    for _ in range(100):
        assert server.poll() is None, "the S3 server ended at once"
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the S3 server did not start")
