"""Whether this process could serve a request now: each part that it needs is tried.

All parts at the same time, each with little patience; what was found is good for a moment, and only
one caller at a time looks anew. So probing cannot be used to load the site, and a part that hangs
costs one thread, however often it is asked for.
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

#: s
PATIENCE_S = 2.0
GOOD_FOR_S = 1.5


class NotReadyError(Exception):
    """A part answers, but not as it must; the text says how."""


class Probe:
    """One part, tried in a thread of its own, which is the only one however long it hangs."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        self.name, self._check = name, check
        self._thread: threading.Thread | None = None
        self._problem: str | None = "never tried"

    def begin(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._problem = f"no answer in {PATIENCE_S:g} s"
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()

    def problem_by(self, deadline: float) -> str | None:
        """Why the part is not ready, None if it is. deadline: on the monotonic clock"""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        return self._problem

    def _run(self) -> None:
        try:
            self._check()
        except Exception as error:
            # whatever a part's library raises says the same: not ready
            self._problem = f"{type(error).__name__}: {error}"
        else:
            self._problem = None
        finally:
            connection.close()


class Readiness:
    """The parts of a process, and what was found of them last."""

    def __init__(self, checks: Mapping[str, Callable[[], None]]) -> None:
        self._probes = [Probe(name, check) for name, check in checks.items()]
        self._lock = threading.Lock()
        self._found: list[str] | None = None
        self._found_at = 0.0

    def missing(self) -> list[str]:
        """Names of the parts that are not ready."""
        if self._found is not None and time.monotonic() - self._found_at < GOOD_FOR_S:
            return self._found
        # who comes while somebody looks takes what was found before; the first ones wait
        if not self._lock.acquire(blocking=self._found is None):
            return self._found or []
        try:
            if self._found is None or time.monotonic() - self._found_at >= GOOD_FOR_S:
                self._found = self._look()
                self._found_at = time.monotonic()
            return self._found
        finally:
            self._lock.release()

    def _look(self) -> list[str]:
        deadline = time.monotonic() + PATIENCE_S
        for probe in self._probes:
            probe.begin()
        problems = {probe.name: probe.problem_by(deadline) for probe in self._probes}
        missing = [name for name, problem in problems.items() if problem is not None]
        if missing and missing != self._found:
            # with the causes, which the answer must not tell: they may name addresses
            log.warning("not_ready", **{name: problems[name] for name in missing})
        elif self._found and not missing:
            log.info("ready_again")
        return missing


def check_database() -> None:
    close_old_connections()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


class CheckMigrations:
    """Whether the database has every migration of this code. Which those are is read once."""

    def __init__(self) -> None:
        self._wanted: set[tuple[str, str]] | None = None

    def __call__(self) -> None:
        close_old_connections()
        if self._wanted is None:
            loader = MigrationLoader(None)
            self._wanted = set(loader.graph.leaf_nodes())
        apps = {app for app, _ in self._wanted}
        rows = MigrationRecorder(connection).migration_qs.filter(app__in=apps)
        missing = self._wanted - set(rows.values_list("app", "name"))
        if missing:
            raise NotReadyError(", ".join(f"{app}.{name}" for app, name in sorted(missing)))


def check_channel_layer() -> None:
    if not asyncio.run(round_trip(get_channel_layer(), PATIENCE_S)):
        raise NotReadyError("another message came back")


def check_broker() -> None:
    """A question to Redis, or a connection to RabbitMQ that is closed again."""
    broker: Any = dramatiq.get_broker()
    if hasattr(broker, "client"):
        broker.client.ping()
    elif not isinstance(broker, StubBroker):
        try:
            broker.connection.process_data_events()
        finally:
            del broker.connection  # of this thread alone


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
