"""Read hostile profiles in a process of its own, which may fail without harm to the site.

`main` reads `order.json` in a folder, limits its process, and leaves either `derived.npz`
(`analysis.archive`) or `problem.json`. It returns OUT_OF_MEMORY where memory did not suffice; out
of time, the kernel ends it (SIGXCPU). It imports neither Django nor settings, and its environment
holds no secrets: `profiles.derived.fork_server` forks it, `profiles.derived.readers` asks for it.
"""

import contextlib
import gc
import os
import resource
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from profiles.analysis.archive import to_archive
from profiles.analysis.data import LeftOut
from profiles.analysis.errors import AnalysisError
from profiles.analysis.merging import OtherGraphError, PassTimes, aligned, leading, merged_data
from profiles.analysis.totals import totals
from profiles.parsers.columns import ProfileColumns
from profiles.parsers.errors import ProfileFormatError
from profiles.parsers.first_look import HEAD_BYTES, looks_like_trace
from profiles.parsers.graph import ExecutedGraph
from profiles.parsers.graph_json import empty_graph, parse_graph
from profiles.parsers.load_and_run import parse
from profiles.traces.reading import read_dynamic
from profiles.traces.summary import encode_summary

ORDER, DERIVED, PROBLEM = "order.json", "derived.npz", "problem.json"
OUT_OF_MEMORY = 3
#: others on this machine have a reader who waits
NICENESS = 10


class Order(msgspec.Struct, frozen=True):
    """What is to be read: files of the folder, one for each pass, in their order.

    left_out: what the caller could not even fetch
    max_bytes: of one file
    """

    files: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    max_bytes: int
    memory_bytes: int
    time_s: int


class Problem(msgspec.Struct, frozen=True):
    """Why no file could be used: the name of an exception's class, and its arguments."""

    of: str
    code: str
    detail: str


@dataclass(frozen=True)
class Lead:
    """The pass that the others are compared with; `trace` is what else a trace says, as JSON."""

    columns: ProfileColumns
    graph: ExecutedGraph
    trace: bytes = b""


def main(folder: Path) -> int:
    """Do what the order in `folder` says; returns the exit code."""
    order = msgspec.json.decode((folder / ORDER).read_bytes(), type=Order)
    limit(order)
    gc.disable()  # it walks all that was decoded, again and again, and finds nothing to free
    try:
        made = derived(folder, order)
    except MemoryError:
        return OUT_OF_MEMORY
    if isinstance(made, Problem):
        (folder / PROBLEM).write_bytes(msgspec.json.encode(made))
    else:
        (folder / DERIVED).write_bytes(made)
    return 0


def limit(order: Order) -> None:
    """Bound this process for the rest of its life."""
    bounds = {
        resource.RLIMIT_AS: order.memory_bytes,
        resource.RLIMIT_CPU: order.time_s,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: order.memory_bytes,
    }
    for kind, bound in bounds.items():
        # a system may know a limit without enforcing it, or have a lower one already
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (bound, bound))
    os.nice(NICENESS)


def derived(folder: Path, order: Order) -> bytes | Problem:
    """Return the archive of all passes that can be merged; the first readable one leads.

    If none can be read, what is wrong with the first.
    """
    lead: Lead | None = None
    merged: list[PassTimes] = []
    problems: dict[str, Problem] = {}
    for name in order.files:
        try:
            found = _read(folder / name, order, is_first=lead is None)
            if lead is None:
                lead = found
                merged.append(leading(name, found.columns))
            else:
                merged.append(aligned(lead.columns, name, found.columns))
        except (ProfileFormatError, AnalysisError) as error:
            problems[name] = Problem(type(error).__name__, error.code, error.detail)
        except OtherGraphError as error:
            problems[name] = Problem(type(error).__name__, "other_graph", str(error))
        except MemoryError:
            problems[name] = out_of_memory(order)
    if lead is None:
        return next(iter(problems.values()))
    unlike = [LeftOut(name, each.code, each.detail) for name, each in problems.items()]
    data = merged_data(lead.columns, merged, lead.graph, [*order.left_out, *unlike])
    return to_archive(replace(data, trace=lead.trace))


def out_of_memory(order: Order) -> Problem:
    """What to say where memory did not suffice."""
    return Problem(
        ProfileFormatError.__name__,
        "too_heavy",
        f"Reading it takes more than {order.memory_bytes >> 20} MiB of memory.",
    )


def _read(path: Path, order: Order, *, is_first: bool) -> Lead:
    """Read one file, a profile or a trace, in which the device took time.

    is_first: its graph is wanted as well
    """
    with path.open("rb") as file:
        is_trace = looks_like_trace(file.read(HEAD_BYTES))
    if is_trace:
        found = read_dynamic(path)
        totals(found.columns)
        return Lead(found.columns, found.graph, encode_summary(found.summary))
    data = path.read_bytes()
    columns = parse(data, max_bytes=order.max_bytes)
    totals(columns)
    return Lead(columns, _graph(data, columns) if is_first else empty_graph(()))


def _graph(data: bytes, columns: ProfileColumns) -> ExecutedGraph:
    """Return the graph, an empty one if it is damaged: that costs pictures, not the table."""
    try:
        return parse_graph(data, columns)
    except (ProfileFormatError, msgspec.MsgspecError, ValueError, RecursionError):
        return empty_graph(("operator",))
