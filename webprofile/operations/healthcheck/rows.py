"""Checks of the database: connection, writes and migrations."""

import datetime
import secrets
from contextlib import closing
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.utils import ConnectionHandler
from django.utils import timezone

from webprofile.operations.healthcheck.finding import (
    Finding,
    broken,
    good,
    patience_s,
    reason,
    warning,
)

#: part of the driver's message -> suggested fix
_STEPS = {
    "password authentication failed": "Correct user and password in DATABASE_URL.",
    "no password supplied": "Add the password to DATABASE_URL.",
    "does not exist": "Create it, or correct its name in DATABASE_URL.",
    "refused": "Start the database, or correct host and port in DATABASE_URL.",
    "no such file": "Start the database, or correct host and port in DATABASE_URL.",
    "translate host name": "Correct the host in DATABASE_URL, or the DNS of this machine.",
    "resolve host": "Correct the host in DATABASE_URL, or the DNS of this machine.",
    "name or service not known": "Correct the host in DATABASE_URL, or the DNS of this machine.",
    "too many": "Lower DATABASE_POOL or raise the server's max_connections.",
    "read-only": "Set DATABASE_URL to the primary server, not to a replica.",
    "readonly": "Give the system user of the site write permission for the file and folder.",
    "permission denied": "Grant the database user of the site all privileges on its tables.",
    "unable to open": "Give the system user of the site write permission for the file and folder.",
    "disk": "Free space on the disk of the database.",
}
_ELSE = "See the log of the database."


def database() -> Finding:
    """Connect without the pool, which would hide the cause; insert a row and roll back."""
    try:
        with closing(_connection()) as connection:
            version = _version(connection)
            tables = connection.introspection.table_names()
            if "django_session" not in tables:
                return warning(f"{version} answers, but it is empty.", "Run `manage.py migrate`.")
            _write(connection)
    except DatabaseError as error:
        text = str(error).lower()
        step = next((step for words, step in _STEPS.items() if words in text), _ELSE)
        return broken(f"{_name()}: {reason(error)}", step)
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        return good(f"{version} answers and accepts writes. It supports one machine only.")
    return good(f"{version} answers and accepts writes.")


def migrations() -> Finding:
    """Compare the applied migrations with those of this code."""
    executor = MigrationExecutor(connections["default"])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in plan[:3])
        more = f" and {len(plan) - 3} more" if len(plan) > 3 else ""
        step = "Run `manage.py migrate`, then restart the site."
        return broken(f"Not applied: {names}{more}.", step)
    done = set(executor.loader.applied_migrations or ())
    known = {app for app, _ in executor.loader.disk_migrations or ()}
    unknown = [key for key in done - set(executor.loader.disk_migrations or ()) if key[0] in known]
    if unknown:
        names = ", ".join(".".join(key) for key in sorted(unknown)[:3])
        step = "Run the newer release, or undo them with `manage.py migrate` of that release."
        return warning(f"Migrations of a newer release are applied: {names}.", step)
    return good(f"All {len(done)} migrations are applied.")


def database_clock() -> datetime.datetime | None:
    """Return the time of the database server; None for SQLite, which has no server."""
    with closing(_connection()) as connection:
        if connection.vendor != "postgresql":
            return None
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            now: datetime.datetime = cursor.fetchone()[0]
            return now


def _connection() -> Any:
    """Return a new connection without pool and with short time limits."""
    database = connections["default"].settings_dict
    options = {name: value for name, value in database["OPTIONS"].items() if name != "pool"}
    if database["ENGINE"].endswith("postgresql"):
        options["connect_timeout"] = max(2, round(patience_s()))
    else:
        options["timeout"] = patience_s()
    return ConnectionHandler({"default": database | {"OPTIONS": options}})["default"]


def _version(connection: Any) -> str:
    with connection.cursor() as cursor:
        version = ".".join(str(number) for number in connection.get_database_version())
        cursor.execute("SELECT 1")
        return f"{connection.display_name} {version}"


def _write(connection: Any) -> None:
    connection.set_autocommit(False)
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO django_session (session_key, session_data, expire_date)"
                " VALUES (%s, %s, %s)",
                [f"doctor-{secrets.token_hex(8)}", "", timezone.now()],
            )
    finally:
        connection.rollback()


def _name() -> str:
    database = connections["default"].settings_dict
    host = f" at {database['HOST']}" if database["HOST"] else ""
    return f"{database['ENGINE'].rpartition('.')[2]}{host}"
