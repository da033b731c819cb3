"""How long the server takes to say what a queue is like, and to choose the next task.

`python -m bench.bench_queue [--tasks 100,1000,10000] [--users 50] [--rounds 15]` fills the queue of
one device in a database of its own (SQLite in a folder that is removed) and prints the median of
each question, how it grows, and which indexes answer it.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabulate import tabulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", default="100,1000,10000", help="waiting tasks, ascending")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        set_up(Path(folder))
        measure([int(each) for each in chosen.tasks.split(",")], chosen.users, chosen.rounds)


def set_up(folder: Path) -> None:
    """A database with all tables and no rows."""
    os.environ["DATABASE_URL"] = f"sqlite:///{folder / 'queue.sqlite3'}"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webprofile.settings.test")
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measure(sizes: list[int], users: int, rounds: int) -> None:
    from bench import queue_rows

    queue_rows.prepare(users)
    found: dict[str, list[float]] = {}
    for size in sizes:
        queue_rows.fill(size)
        for name, ask in queue_rows.questions().items():
            found.setdefault(name, []).append(median_ms(ask, rounds))
    head = ["processor time, ms", *(f"{size:,} waiting" for size in sizes)]
    head += [f"{sizes[-1]:,} : {sizes[-2]:,}"] if len(sizes) > 1 else []
    rows = [[name, *times, *_growth(times)] for name, times in found.items()]
    print(tabulate(rows, headers=head, floatfmt=".2f"))
    print()
    for name, plan in queue_rows.plans().items():
        print(f"{name}:", *plan, sep="\n    ")


def _growth(times: list[float]) -> list[float]:
    return [times[-1] / times[-2]] if len(times) > 1 else []


def median_ms(ask: Callable[[], Any], rounds: int) -> float:
    """Median processor time of a question, ms, after one that warms caches up.

    The database is within the process, so that this is all of the work, whatever else runs.
    """
    ask()
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        ask()
        times.append(time.process_time() - begin)
    return statistics.median(times) * 1000


if __name__ == "__main__":
    main()
