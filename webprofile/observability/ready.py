"""Readiness checks: test each part that a process needs to serve requests.

The parts are tested concurrently with a short time limit. A result is cached for `GOOD_FOR_S`, and
only one caller at a time runs the tests, so frequent probes put no load on the site, and a part
that hangs occupies only one thread.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import dramatiq
import structlog
from channels.layers import get_channel_layer
from django.db import close_old_connections, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from dramatiq.brokers.stub import StubBroker

from webprofile.errors import DomainError
from webprofile.realtime.layer import round_trip
from webprofile.storage import storage

log = structlog.get_logger()

PATIENCE_S = 2.0
GOOD_FOR_S = 1.5


class NotReadyError(Exception):
    """A part responds, but not as required; the text has the cause."""


class Probe:
    """The test of one part in a thread; while it hangs, no second thread is started."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        self.name, self._check = name, check
        self._thread: threading.Thread | None = None
        self._problem: str | None = "not tested yet"

    def begin(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._problem = f"no answer in {PATIENCE_S:g} s"
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def problem_by(self, deadline: float) -> str | None:
        """Return why the part is not ready, None if it is.

        deadline: monotonic time until which to wait for the test
        """
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._problem

    def _run(self) -> None:
        try:
            self._check()
        except Exception as error:
            # any exception of a client library means that the part is not ready
            self._problem = f"{type(error).__name__}: {error}"
        else:
            self._problem = None
        finally:
            connection.close()


class Readiness:
    """The parts of a process and the cached result of their tests."""

    def __init__(self, checks: Mapping[str, Callable[[], None]]) -> None:
        self._probes = [Probe(name, check) for name, check in checks.items()]
        self._lock = threading.Lock()
        self._missing: list[str] | None = None
        self._tested_at = 0.0

    def missing(self) -> list[str]:
        """Return the names of the parts that are not ready."""
        if self._missing is not None and time.monotonic() - self._tested_at < GOOD_FOR_S:
            return self._missing
        # during a test other callers get the last result; only before the first result they wait
        if not self._lock.acquire(blocking=self._missing is None):
            return self._missing or []
        try:
            if self._missing is None or time.monotonic() - self._tested_at >= GOOD_FOR_S:
                self._missing = self._test_parts()
                self._tested_at = time.monotonic()
            return self._missing
        finally:
            self._lock.release()

    def _test_parts(self) -> list[str]:
        deadline = time.monotonic() + PATIENCE_S
        for probe in self._probes:
            probe.begin()
        problems = {probe.name: probe.problem_by(deadline) for probe in self._probes}
        missing = [name for name, problem in problems.items() if problem is not None]
        if missing and missing != self._missing:
            # the causes may contain internal addresses, so they are only logged
            log.warning("not_ready", **{name: problems[name] for name in missing})
        elif self._missing and not missing:
            log.info("ready_again")
        return missing


def check_database() -> None:
    close_old_connections()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


class CheckMigrations:
    """Check that all migrations of this code are applied; the migration files are read once.

    Raises NotReadyError with the names of missing migrations.
    """

    def __init__(self) -> None:
        self._latest: set[tuple[str, str]] | None = None

    def __call__(self) -> None:
        close_old_connections()
        if self._latest is None:
            loader = MigrationLoader(None)
            self._latest = set(loader.graph.leaf_nodes())
        apps = {app for app, _ in self._latest}
        rows = MigrationRecorder(connection).migration_qs.filter(app__in=apps)
        missing = self._latest - set(rows.values_list("app", "name"))
        if missing:
            raise NotReadyError(", ".join(f"{app}.{name}" for app, name in sorted(missing)))


def check_channel_layer() -> None:
    if not asyncio.run(round_trip(get_channel_layer(), PATIENCE_S)):
        raise NotReadyError("another message arrived")


def check_broker() -> None:
    """Ping Redis, or open and close a connection to RabbitMQ."""
    broker: Any = dramatiq.get_broker()
    if hasattr(broker, "client"):
        broker.client.ping()
    elif not isinstance(broker, StubBroker):
        try:
            broker.connection.process_data_events()
        finally:
            del broker.connection  # the connection of this thread


def check_storage() -> None:
    try:
        storage.head("ready")
    except DomainError as error:
        raise NotReadyError(str(error.__cause__ or error)) from error


readiness = Readiness(
    {
        "database": check_database,
        "migrations": CheckMigrations(),
        "channel_layer": check_channel_layer,
        "broker": check_broker,
        "storage": check_storage,
    }
)
