"""Our parser and table against `json.loads` alone, in turns, on one scaled profile.

    python -m bench.bench_parse PROFILE.json [--operators 10000] [--rounds 7]

The profile is a real one repeated, every copy with ids of its own. One round measures every
step once, so that a noisy machine is noisy for all of them. Times are wall-clock milliseconds;
the ratio is that of the best times.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tabulate import tabulate

from profiles.analysis.table import table
from profiles.analysis.text import profile_text
from profiles.parsers.load_and_run import parse
from profiles.parsers.npz import from_npz, to_npz

REFERENCE = "json.loads alone"


def scaled(profile: dict[str, Any], operators: int) -> bytes:
    """Return the JSON of a profile repeated until it has at least so many operators."""
    graph, profiler = profile["graph_exec"], profile["profiler"]
    stride = 1 + max(int(key) for section in ("operator", "var") for key in graph[section])
    copies = -(-operators // len(graph["operator"]))

    def repeat(
        section: dict[str, Any], change: Callable[[Any, int], Any] = lambda value, shift: value
    ) -> dict[str, Any]:
        return {
            moved(key, copy * stride): change(value, copy * stride)
            for copy in range(copies)
            for key, value in section.items()
        }

    repeated_graph = {
        **graph,
        "operator": repeat(graph["operator"], moved_operator),
        "var": repeat(graph["var"], lambda var, shift: {**var, "id": moved(var["id"], shift)}),
        "mem_chunk": repeat(graph["mem_chunk"]),
        "comp_seq": [moved(k, copy * stride) for copy in range(copies) for k in graph["comp_seq"]],
    }
    repeated_profiler = {key: repeat(section) for key, section in profiler.items()}
    return json.dumps({"profiler": repeated_profiler, "graph_exec": repeated_graph}).encode()


def moved(key: str, shift: int) -> str:
    """Return an id of a copy; ids of memory chunks are `chk` and a number."""
    number = key.removeprefix("chk")
    return f"{key[: -len(number)]}{int(number) + shift}"


def moved_operator(operator: dict[str, Any], shift: int) -> dict[str, Any]:
    """Return an operator of a copy, with the copy's variables."""
    return {
        **operator,
        "id": moved(operator["id"], shift),
        "name": f"r{shift}.{operator['name']}" if shift else operator["name"],
        "input": [moved(key, shift) for key in operator["input"]],
        "output": [moved(key, shift) for key in operator["output"]],
    }


def measure(steps: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the times of each step, ms."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            begin = time.perf_counter()
            result = step()
            times[name].append(1000 * (time.perf_counter() - begin))
            del result  # freeing counts for none
    return times


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("profile", type=Path)
    arguments.add_argument("--operators", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()

    data = scaled(json.loads(given.profile.read_bytes()), given.operators)
    columns = parse(data)
    kept = to_npz(columns)
    times = measure(
        {
            REFERENCE: lambda: json.loads(data),
            "parse": lambda: parse(data),
            "parse + table of 3": lambda: table(parse(data), top=3),
            "parse + text, -t 3": lambda: profile_text(parse(data), 3),
            "table of 3": lambda: table(columns, top=3),
            "table of all": lambda: table(columns, top=0),
            "to_npz": lambda: to_npz(columns),
            "from_npz + table of 3": lambda: table(from_npz(kept), top=3),
        },
        given.rounds,
    )
    reference = min(times[REFERENCE])
    print(
        f"{len(columns)} operators, {len(data) / 1e6:.1f} MB JSON, {len(kept) / 1e6:.2f} MB npz, "
        f"{given.rounds} rounds"
    )
    print(
        tabulate(
            [(name, min(t), statistics.median(t), reference / min(t)) for name, t in times.items()],
            headers=("step", "best ms", "median ms", "times faster"),
            floatfmt=".1f",
        )
    )


if __name__ == "__main__":
    main()
