"""Measure how the response times of the lists of tasks and devices grow with the number of rows.

`python -m bench.bench_lists [--rounds 20] [--sqlite]` fills databases with 1,000, 10,000 and
100,000 tasks, each with 10 and with 1,000 devices, and requests the same pages from all of them in
turn, so that noise of the machine affects all sizes. A request passes through the whole stack
except the network. Each database is served by a process of its own, because connections are pooled
per process. The database server is PostgreSQL from a Python package (`requirements/postgres.txt`)
with its data in a temporary folder. `--sqlite` also measures SQLite.
"""

import argparse
import contextlib
import datetime as dt
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command
from django.db import connections
from django.utils import timezone
from tabulate import tabulate

from webprofile.tests.postgres import postgres_server

SIZES = (1_000, 10_000, 100_000)
DEVICES = (10, 1_000)
USERS = 20
#: limits: time with 100,000 tasks over time with 1,000; and ms of a request
MOST_RATIO = 1.5
MOST_MS = 50.0
#: name -> path; {half} is the id of a task in the middle of the list
PAGES = {
    "tasks": "/tasks/",
    "tasks, rows that a page fetches": "/tasks/rows/",
    "tasks, a page in the middle": "/tasks/?before={half}",
    "tasks, failed": "/tasks/?status=failed",
    "tasks, all that live": "/tasks/?status=initiated&status=waiting&status=running",
    "tasks, of a device": "/tasks/?device=device-7",
    "tasks, of a device, failed": "/tasks/?device=device-7&status=failed",
    "tasks, of one day": "/tasks/?since=2026-11-03&until=2026-11-03",
    "tasks, of a version": "/tasks/?version=1.12.0",
    "tasks, a text that most have": "/tasks/?q=net",
    "tasks, a text that none has": "/tasks/?q=no+such+model",
    "devices": "/workers/",
}
READERS = ("user", "administrator")
FIRST_DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
FILES = {"model": "net-{}.mge", "data": "input-{}.npy"}
DAYS = 4
# every page is full even with the fewest tasks, so that all sizes render equally many rows
STATES = [{"state": "finished", "outcome": "succeeded"}] * 16
STATES += [{"state": "finished", "outcome": "failed"}] * 6
STATES += [{"state": state, "outcome": ""} for state in ("initiated", "waiting", "running")]

#: (page, reader, number of the database) -> ms of each request
Times = dict[tuple[str, str, int], list[float]]


@dataclass(frozen=True)
class Database:
    settings: dict[str, Any]
    tasks: int
    devices: int

    def use(self) -> None:
        """Make this the default database of the process."""
        close_connections()
        connections.settings["default"] = self.settings
        del connections["default"]


def close_connections() -> None:
    """Close the connections and the pool, which the next database would share by its alias."""
    connection = connections["default"]
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the lists of tasks and devices.")
    parser.add_argument("--rounds", type=int, default=20, help="requests of each page and size")
    parser.add_argument("--sqlite", action="store_true", help="on SQLite as well")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DJANGO_SETTINGS_MODULE"] = "webprofile.settings.test"
        os.environ["MGW_HOME"] = folder
        django.setup()
        with postgres_server(Path(folder) / "postgres") as server:
            databases = list(postgres_databases(server))
            met = report("PostgreSQL", databases, measure(databases, args.rounds))
            close_connections()
        if args.sqlite:
            databases = list(sqlite_databases(Path(folder)))
            met &= report("SQLite", databases, measure(databases, args.rounds))
    sys.exit(0 if met else 1)


def sqlite_databases(folder: Path) -> Iterator[Database]:
    """Fill SQLite files. Those with many devices are copies, so that both have the same tasks."""
    settings = connections["default"].settings_dict
    for tasks in SIZES:
        few, many = folder / f"{tasks}.sqlite3", folder / f"{tasks}-many.sqlite3"
        database = Database(settings | {"NAME": str(few)}, tasks, DEVICES[0])
        fill(database)
        # SQLite writes its log into the file when the last connection closes
        close_connections()
        shutil.copyfile(few, many)
        copy = Database(settings | {"NAME": str(many)}, tasks, DEVICES[1])
        add_devices(copy)
        yield from (database, copy)


def postgres_databases(address: str) -> Iterator[Database]:
    """Fill PostgreSQL databases in the same way."""
    import psycopg

    dsn = psycopg.conninfo.conninfo_to_dict(address)
    settings = connections["default"].settings_dict | {
        "ENGINE": "django.db.backends.postgresql",
        "OPTIONS": {"pool": {"min_size": 1, "max_size": 4}},
        "USER": dsn.get("user", "postgres"),
        "HOST": dsn.get("host", ""),
        "PORT": dsn.get("port", ""),
    }
    for tasks in SIZES:
        few, many = f"few_{tasks}", f"many_{tasks}"
        with psycopg.connect(address, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {few}")
        database = Database(settings | {"NAME": few}, tasks, DEVICES[0])
        fill(database)
        close_connections()
        with psycopg.connect(address, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {many} TEMPLATE {few}")
        copy = Database(settings | {"NAME": many}, tasks, DEVICES[1])
        add_devices(copy)
        for filled in (database, copy):
            filled.use()
            with connections["default"].cursor() as cursor:
                cursor.execute("VACUUM ANALYZE")
            yield filled


def fill(database: Database) -> None:
    """Create the tasks. Half belong to the user who sends the requests, half to one device."""
    from accounts.models import User
    from tasks.models import Task, TaskFile
    from workers.models import Worker

    database.use()
    call_command("migrate", verbosity=0)
    User.objects.create_superuser("root@example.com")
    users = User.objects.bulk_create(User(email=f"user{n}@example.com") for n in range(USERS))
    add_devices(database)
    workers = list(Worker.objects.order_by("pk").values_list("pk", flat=True))
    for column, switch in (("created_at", "auto_now_add"), ("updated_at", "auto_now")):
        # auto_now would set the present time
        setattr(Task._meta.get_field(column), switch, False)
    step = dt.timedelta(days=DAYS) / database.tasks
    for start in range(0, database.tasks, 2_000):
        numbers = range(start, min(start + 2_000, database.tasks))
        tasks = [
            Task(
                owner=users[0 if n % 2 else n // 2 % USERS],
                worker_id=workers[7 if n // 2 % 2 else n // 4 % len(workers)],
                runtime_version="1.12.0" if n // 4 % 8 == 0 else "1.13.0",
                timeout_s=600,
                seed=n,
                created_at=FIRST_DAY + n * step,
                updated_at=FIRST_DAY + n * step,
                **STATES[n // 4 * 7 % len(STATES)],
            )
            for n in numbers
        ]
        Task.objects.bulk_create(tasks)
        TaskFile.objects.bulk_create(
            TaskFile(task=task, kind=kind, name=name.format(task.seed), size_bytes=9, md5="0" * 32)
            for task in tasks
            for kind, name in FILES.items()
        )


def add_devices(database: Database) -> None:
    """Register devices until there are as many as there should be, all of them online."""
    from workers.models import LastHeartbeat, Runtime, Worker

    database.use()
    existing = Worker.objects.count()
    facts = {"cpu_model": "Kirin 990", "cores": 8, "memory_bytes": 8 << 30, "platform": "Linux"}
    workers = Worker.objects.bulk_create(
        Worker(name=f"device-{n}", facts=facts) for n in range(existing, database.devices)
    )
    now = timezone.now()
    LastHeartbeat.objects.bulk_create(
        LastHeartbeat(worker=worker, last_seen_at=now) for worker in workers
    )
    versions = ("1.12.0", "1.13.0", "1.13.2")
    Runtime.objects.bulk_create(
        Runtime(worker=worker, version=version, kind="wheel")
        for worker in workers
        for version in versions
    )


def measure(databases: Sequence[Database], rounds: int) -> Times:
    """Request each page from all databases in turn. The first round warms up."""
    times: Times = {}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(_server(database)) for database in databases]
        for turn in range(rounds + 1):
            for name, address in PAGES.items():
                for reader in READERS:
                    for index, server in enumerate(servers):
                        server.send((reader, address))
                        taken = server.recv()
                        if turn:
                            times.setdefault((name, reader, index), []).append(taken)
    return times


@contextlib.contextmanager
def _server(database: Database) -> Iterator[Connection]:
    """Run a process that receives (reader, path) and answers with the ms of that request.

    None ends the process.
    """
    close_connections()
    parent_end, child_end = multiprocessing.Pipe()
    # spawn: with fork the server would inherit the heap of the process that filled the database
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_serve, args=(database, child_end), daemon=True)
    process.start()
    child_end.close()
    try:
        yield parent_end
    finally:
        parent_end.send(None)
        process.join()


def _serve(database: Database, channel: Connection) -> None:
    django.setup()
    database.use()
    clients = _clients()
    while (request := channel.recv()) is not None:
        reader, address = request
        channel.send(_request_ms(clients[reader], address.format(half=database.tasks // 2)))
    close_connections()


def _clients() -> dict[str, Any]:
    from django.test import Client

    from accounts.models import User

    clients = {reader: Client() for reader in READERS}
    clients["user"].force_login(User.objects.get(email="user0@example.com"))
    clients["administrator"].force_login(User.objects.get(email="root@example.com"))
    return clients


def _request_ms(client: Any, address: str) -> float:
    """Send a request and return its time in ms."""
    begin = time.perf_counter()
    answer = client.get(address)
    taken = (time.perf_counter() - begin) * 1000
    assert answer.status_code == 200, (address, answer.status_code)
    return taken


def report(name: str, databases: Sequence[Database], times: Times) -> bool:
    """Print medians and ratios; return whether all goals are met."""
    rows, met = [], True
    for page in PAGES:
        for reader in READERS:
            medians = [statistics.median(times[page, reader, n]) for n in range(len(databases))]
            by_devices = [medians[which :: len(DEVICES)] for which in range(len(DEVICES))]
            ratios = [values_ms[-1] / values_ms[0] for values_ms in by_devices]
            is_met = max(medians) <= MOST_MS and max(ratios) <= MOST_RATIO
            met &= is_met
            cells = [f"{value:.1f}" for values_ms in by_devices for value in values_ms]
            cells += [f"{ratio:.2f}" for ratio in ratios]
            rows.append([page, reader, *cells, "met" if is_met else "MISSED"])
    sizes = [f"{size // 1000}k" for size in SIZES]
    headers = ["ms, median", "as"]
    headers += [f"{size}/{devices}" for devices in DEVICES for size in sizes]
    headers += [f"ratio/{devices}" for devices in DEVICES] + [""]
    rounds = len(next(iter(times.values())))
    print(f"\n{name}: tasks/devices, {rounds} requests each; goals: {MOST_MS:.0f} ms, {MOST_RATIO}")
    print(tabulate(rows, headers=headers, disable_numparse=True))
    return met


if __name__ == "__main__":
    main()
