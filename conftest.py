"""Fixtures and hooks for all tests."""

import os
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import hypothesis
import pytest
from django.conf import settings
from django.core.management.color import no_style
from django.core.signals import setting_changed
from django.db import connection
from django.test import Client, TransactionTestCase
from django.utils import translation
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from accounts.models import User
from agent.conftest import megengine_python  # noqa: F401
from tasks.tests.make import make_user
from testdata import DATA
from webprofile.garbage import loaded_spare
from webprofile.operations.devserver.layout import free_ports
from webprofile.storage import storage as object_store
from webprofile.tests.documented_api import Documented
from webprofile.tests.postgres import uses_production_parts

# how long hypothesis takes to generate examples depends on the machine
hypothesis.settings.register_profile(
    "suite", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

# collecting tests imports thousands of modules, of which the garbage collector frees nothing
loaded_spare()

# imports schemathesis, which takes half a second
collect_ignore = [] if uses_production_parts() else ["webprofile/tests/test_api_fuzz.py"]


class _Scheduling(LoadScopeScheduling):
    """Distribute tests to the xdist workers by file, so that fixtures of a module run once.

    Two exceptions: the accessibility tests are distributed one by one, because they only share the
    browser of the worker process. Files that use the embedded site, or the processes of production,
    stay on one worker, because these take longer to start than most of their tests.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.endswith("browser/test_accessibility.py"):
            return nodeid
        uses_site = "/end_to_end/" in file or file.endswith("browser/test_journey.py")
        if file.endswith(("/test_doctor.py", "/test_two_webs.py")):
            return "cluster"
        return "whole site" if uses_site else file

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Refuse tests with the same id, of which xdist would run only one."""
        repeated = [nodeid for nodeid, count in Counter(collection).items() if count > 1]
        if repeated:
            raise pytest.UsageError(f"These ids belong to several tests: {', '.join(repeated)}")
        super().add_node_collection(node, collection)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Scheduling:
    return _Scheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that use the fixture `megengine_python` with `megengine`."""
    for item in items:
        if "megengine_python" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.megengine)


@pytest.fixture
def alice(db: None) -> User:
    """An ordinary user."""
    return make_user("alice")


@pytest.fixture
def client() -> Client:
    """A client that compares responses of the API with the schema."""
    return Documented()


@pytest.fixture
def logged_in(client: Client, alice: User) -> None:
    """Log alice in to `client`."""
    client.force_login(alice)


@pytest.fixture
def root(db: None) -> User:
    """An administrator."""
    return make_user("root", is_staff=True, is_superuser=True)


@pytest.fixture(autouse=True)
def _reset_language() -> Iterator[None]:
    """Reset the language, which a request activates for the thread."""
    yield
    translation.deactivate()


@pytest.fixture
async def disconnect_sockets() -> AsyncIterator[None]:
    """Disconnect the WebSocket clients of a test at its end."""
    from tasks.tests.sockets import SocketClient

    SocketClient.clients.clear()
    yield
    for client in SocketClient.clients:
        if not client.future.done():
            await client.disconnect()
    SocketClient.clients.clear()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Use a file for the test database of SQLite instead of memory.

    Threads of a live server share one connection to a database in memory, and two of them can
    deadlock: one holds the GIL and waits for the mutex of the connection, the other holds the
    mutex and calls a Python function, which needs the GIL.
    """
    database = settings.DATABASES["default"]
    if database["ENGINE"].endswith("sqlite3"):
        path = tmp_path_factory.mktemp("database") / "db.sqlite3"
        database.setdefault("TEST", {})["NAME"] = str(path)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Delete the rows of a test that commits with the same few statements each time.

    `manage.py flush`, which Django calls instead, also creates the content types and permissions
    again, and truncates on PostgreSQL, which creates the files of all tables and indexes again.
    """
    from django.contrib.auth.models import Permission
    from django.contrib.contenttypes.models import ContentType

    kept = {model._meta.db_table for model in (ContentType, Permission)}
    tables = set(connection.introspection.django_table_names()) - kept
    statements = _statements_to_delete(sorted(tables))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            TransactionTestCase,
            "_fixture_teardown",
            lambda _: connection.ops.execute_sql_flush(statements),
        )
        yield


def _statements_to_delete(tables: list[str]) -> list[str]:
    if connection.vendor != "postgresql":
        return connection.ops.sql_flush(no_style(), tables)
    names = [connection.ops.quote_name(table) for table in tables]
    return [
        # waits for transactions of other threads, as TRUNCATE does
        f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE",
        # without checks of foreign keys, which would need an order
        "SET LOCAL session_replication_role = replica",
        "; ".join(f"DELETE FROM {name}" for name in names),
    ]


@pytest.fixture(scope="session")
def database_url(django_db_setup: None) -> str:
    """URL of the test database, for other processes."""
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        return f"sqlite:///{name}"
    return urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()


@pytest.fixture
def testdata() -> Path:
    """Folder of models, inputs, profiles and expected outputs. See testdata/README.md."""
    return DATA


@pytest.fixture(scope="session")
def object_storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run an S3 server (rclone, SeaweedFS) with its files in a temporary folder; yield its URL."""
    folder = tmp_path_factory.mktemp("s3")
    # another process may take the free port before the server binds it
    for _ in range(3):
        server, address = _s3_server(folder)
        if _listens(server, address):
            break
    else:
        raise AssertionError(f"no S3 server: {(folder / 'log').read_text()}")
    try:
        yield f"http://{address}"
    finally:
        # at once: the data is temporary, and SeaweedFS takes 10 s to end in order
        server.kill()
        server.wait(10)


def _s3_server(folder: Path) -> tuple[subprocess.Popen, str]:
    (folder / "files").mkdir(exist_ok=True)
    return (_seaweedfs if uses_production_parts() else _rclone)(folder)


def _seaweedfs(folder: Path) -> tuple[subprocess.Popen, str]:
    """Start SeaweedFS as docker/storage does, on free ports."""
    names = ("s3.port", "master.port", "volume.port", "filer.port")
    names += tuple(f"{name}.grpc" for name in names)
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    environment = {
        "STORAGE_FOLDER": str(folder / "files"),
        "S3_BIND": "127.0.0.1",
        # each test has a bucket, for which seven files would be created
        "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for name in ("S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"):
        (folder / name).write_text(getattr(settings, name))
        environment[f"{name}_FILE"] = str(folder / name)
    script = Path(settings.BASE_DIR) / "docker" / "storage" / "entrypoint.sh"
    command = [script, *(f"-{name}={port}" for name, port in ports.items())]
    command += [f"-s3.localSocket={folder}/s3.sock", f"-filer.localSocket={folder}/filer.sock"]
    command += ["-volume.max=5000", "-master.volumeSizeLimitMB=64"]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log)
    return server, f"127.0.0.1:{ports['s3.port']}"


def _rclone(folder: Path) -> tuple[subprocess.Popen, str]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    rclone = Path(sys.executable).with_name("rclone")
    # quoted, because rclone parses the variable as CSV with one pair of keys per field
    keys = f'"{settings.S3_ACCESS_KEY_ID},{settings.S3_SECRET_ACCESS_KEY}"'
    command = [rclone, "serve", "s3", "--addr", address, "--config", "/dev/null"]
    command += ["--allow-origin", "*", folder / "files"]
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(command, env=os.environ | {"RCLONE_AUTH_KEY": keys}, stderr=log)
    return server, address


def _listens(server: subprocess.Popen, address: str) -> bool:
    """Wait until the server accepts connections; return False if it has exited instead."""
    host, port = address.split(":")
    deadline = time.monotonic() + 60
    while server.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, f"the S3 server does not listen at {address}"
            time.sleep(0.05)
        else:
            # another process may own the port; then the server exits in a moment
            time.sleep(0.1)
            return server.poll() is None
    return False


def _recreate_storage(setting: str, **kwargs: object) -> None:
    """Recreate the default storage, which reads the settings S3_* only once."""
    if setting.startswith("S3_"):
        setting_changed.send(sender=None, setting="STORAGES", value=None, enter=True)


setting_changed.connect(_recreate_storage)


@pytest.fixture
def storage(object_storage: str, settings) -> None:
    """Let the site use the S3 server, with a new bucket for each test."""
    settings.S3_ENDPOINT_URL = settings.S3_PUBLIC_ENDPOINT_URL = object_storage
    settings.S3_BUCKET = f"test-{uuid.uuid4().hex}"
    object_store.client.create_bucket(Bucket=settings.S3_BUCKET)
