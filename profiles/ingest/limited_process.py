"""Read hostile profiles in a process of its own, which may fail without harm to the site.

`main` reads `order.json` in a folder, limits its process, and leaves either `derived.npz`
(`analysis.archive`) or `problem.json`. It returns OUT_OF_MEMORY where memory did not suffice; out
of time, the kernel ends it (SIGXCPU). It imports neither Django nor settings, and its environment
holds no secrets: `profiles.ingest.fork_server` forks it, `profiles.ingest.readers` asks for it.
"""

import contextlib
import gc
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from profiles.analysis.archive import to_archive
from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.merging import (
    OtherGraphError,
    PassTimes,
    aligned,
    leading,
    merged_data,
    without_operators,
)
from profiles.analysis.totals import totals
from profiles.formats.chrome_trace.reading import read_dynamic
from profiles.formats.columns import ProfileColumns
from profiles.formats.detection import HEAD_BYTES, FileKind, kind_of
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import ExecutedGraph
from profiles.formats.load_and_run.graph_json import empty_graph
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.formats.memory_flow.summary import read_memory_flow
from profiles.formats.static_memory.packed import unpack
from profiles.formats.static_memory.summary import StaticMemory, read_static_memory

ORDER, DERIVED, PROBLEM = "order.json", "derived.npz", "problem.json"
#: of a trace, beside what is derived
SPANS = "spans.bin"
OUT_OF_MEMORY = 3
#: of what a device packed, which is a memory plan
_PACKED = ".zip"
#: others on this machine have a reader who waits
NICENESS = 10
#: bytes that were read of all files together, as text; noted at most so often
NOTE, _PAUSE_S = "progress.txt", 0.2


class Order(msgspec.Struct, frozen=True):
    """What is to be read: files of the folder, in their order.

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


class Run:
    """Filled file by file; a file that cannot be used leaves it as it was.

    left_out: what could not even be fetched
    lead: operators of the first pass, whose graph is shown and which the others are compared with
    leads: the kind of file that the passes are of
    beside: as `ProfileData.beside`
    company: the first file of each kind, for kinds that are read together
    told: hears how many bytes of a file were read, of how many
    """

    def __init__(
        self,
        left_out: Sequence[LeftOut],
        told: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        self._left_out = tuple(left_out)
        self.told = told
        self.lead: ProfileColumns | None = None
        self.leads: FileKind | None = None
        self.beside: dict[str, bytes] = {}
        self.company: dict[FileKind, Path] = {}
        self._graph = empty_graph(())
        self._passes: list[PassTimes] = []

    @property
    def is_empty(self) -> bool:
        """Whether no file said anything."""
        return self.lead is None and not self.beside

    def add_pass(
        self,
        kind: FileKind,
        name: str,
        columns: ProfileColumns,
        graph: Callable[[], ExecutedGraph],
    ) -> None:
        """Add a profiled pass; `graph` is called for the first one. Raises OtherGraphError."""
        if self.lead is None:
            self._graph = graph()
            self._passes.append(leading(name, columns))
            self.lead, self.leads = columns, kind
        else:
            self._passes.append(aligned(self.lead, name, columns))

    def add_beside(self, kind: FileKind, said: bytes) -> None:
        """Add what a file says beside operators.

        Raises AnalysisError second_of_kind where another file of its kind did before.
        """
        if kind in self.beside:
            raise _second_of_kind()
        self.beside[kind] = said

    def data(self, unlike: Sequence[LeftOut]) -> ProfileData:
        """Return all of it; `unlike` are the files that could not be used."""
        left_out = [*self._left_out, *unlike]
        if self.lead is None:
            found = without_operators(self._graph, left_out)
        else:
            found = merged_data(self.lead, self._passes, self._graph, left_out)
        return replace(found, beside=self.beside)


def main(folder: Path) -> int:
    """Do what the order in `folder` says; returns the exit code."""
    order = msgspec.json.decode((folder / ORDER).read_bytes(), type=Order)
    limit(order.memory_bytes, order.time_s)
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


def limit(memory_bytes: int, time_s: int, niceness: int = NICENESS) -> None:
    """Bound this process for the rest of its life."""
    bounds = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: time_s,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: memory_bytes,
    }
    for kind, bound in bounds.items():
        # a system may know a limit without enforcing it, or have a lower one already
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (bound, bound))
    os.nice(niceness)


def derived(folder: Path, order: Order) -> bytes | Problem:
    """Return the archive of all that the files say together.

    If none can be read, what is wrong with the first.
    """
    progress = Progress(folder)
    run = Run(order.left_out, progress.told)
    problems: dict[str, Problem] = {}
    kinds = {name: _kind_of(folder / name) for name in order.files}
    run.company = {kind: folder / name for name, kind in reversed(kinds.items())}
    # sorted is stable: passes stay in their order
    for name in sorted(order.files, key=lambda each: _ORDER[kinds[each]]):
        try:
            _ADD[kinds[name]](run, folder / name, order)
        except (ProfileFormatError, AnalysisError) as error:
            problems[name] = Problem(type(error).__name__, error.code, error.detail)
        except OtherGraphError as error:
            problems[name] = Problem(type(error).__name__, "other_graph", str(error))
        except MemoryError:
            problems[name] = out_of_memory(order)
        progress.file_done(folder / name)
    unlike = [(name, problems[name]) for name in order.files if name in problems]
    if run.is_empty:
        return unlike[0][1]
    return to_archive(run.data([LeftOut(name, each.code, each.detail) for name, each in unlike]))


def out_of_memory(order: Order) -> Problem:
    """What to say where memory did not suffice."""
    return Problem(
        ProfileFormatError.__name__,
        "too_heavy",
        f"Reading it takes more than {order.memory_bytes >> 20} MiB of memory.",
    )


def _kind_of(path: Path) -> FileKind:
    if path.suffix == _PACKED:
        return "static_memory"
    with path.open("rb") as file:
        return kind_of(file.read(HEAD_BYTES))


def _add_profile(run: Run, path: Path, order: Order) -> None:
    data = path.read_bytes()
    if run.lead is None:
        columns, graph = parse_whole(data, max_bytes=order.max_bytes)
    else:
        # nobody looks at the graph of a later pass
        columns, graph = parse(data, max_bytes=order.max_bytes), empty_graph
    totals(columns)
    run.add_pass("profile", path.name, columns, lambda: _sound(graph))


def _add_trace(run: Run, path: Path, _order: Order) -> None:
    index = None if "trace" in run.beside else path.with_name(SPANS)
    found = read_dynamic(path, run.told, index=index)
    if "trace" in run.beside and run.lead is None:
        raise _second_of_kind()  # the first one has no operators, with which this one's could agree
    # a profile of the same run knows more of each operator
    if run.leads != "profile" and len(found.columns):
        totals(found.columns)
        run.add_pass("trace", path.name, found.columns, lambda: found.graph)
        if "trace" in run.beside:
            return
    run.add_beside("trace", msgspec.json.encode(found.summary))


def _add_memory_flow(run: Run, path: Path, _order: Order) -> None:
    run.add_beside("memory_flow", read_memory_flow(path))


def _add_static_memory(run: Run, path: Path, order: Order) -> None:
    graph = run.company.get("graph")
    if path.suffix == _PACKED:
        path, graph = unpack(path, path.with_suffix(""), max_bytes=order.max_bytes)
    run.add_beside("static_memory", read_static_memory(path, graph))


def _add_graph(run: Run, path: Path, _order: Order) -> None:
    """It was read with the plan; what cannot be used of it is told."""
    if "static_memory" not in run.beside and "static_memory" in run.company:
        raise ProfileFormatError("graph_alone", "The memory plan that it is of cannot be read.")
    if "static_memory" not in run.beside:
        raise ProfileFormatError("graph_alone", "It is the graph of a memory plan without plan.")
    if path != run.company["graph"]:
        raise _second_of_kind()
    state = msgspec.json.decode(run.beside["static_memory"], type=StaticMemory).graph
    if state in ("graph_unreadable", "not_a_profile"):
        text = "It cannot be read." if state == "graph_unreadable" else "It is another graph."
        raise ProfileFormatError("graph_of_another", f"The plan has no names of tensors. {text}")


def _second_of_kind() -> AnalysisError:
    """What is said of a file whose kind another file of the run has already."""
    return AnalysisError(
        "second_of_kind", "Another file of this kind is shown; one run has one of them."
    )


#: how a file of each kind is read, in this order
_ADD: dict[FileKind, Callable[[Run, Path, Order], None]] = {
    "profile": _add_profile,
    "trace": _add_trace,
    "memory_flow": _add_memory_flow,
    "static_memory": _add_static_memory,
    "graph": _add_graph,
}
_ORDER = {kind: place for place, kind in enumerate(_ADD)}


def _sound(graph: Callable[[], ExecutedGraph]) -> ExecutedGraph:
    """Return the graph, an empty one if it is damaged: that costs pictures, not the table."""
    try:
        return graph()
    except (ProfileFormatError, msgspec.MsgspecError, ValueError, RecursionError):
        return empty_graph(("operator",))


class Progress:
    """How far the reader is, which it notes in its folder for `bytes_read`."""

    def __init__(self, folder: Path) -> None:
        self._note, self._before = folder / NOTE, 0
        self._next = 0.0

    def told(self, done: int, _of: int) -> None:
        """So many bytes of the file that is read now; what comes soon after the last is skipped."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE_S
            self._note.write_text(str(self._before + done))

    def file_done(self, path: Path) -> None:
        self._before += path.stat().st_size
        self._note.write_text(str(self._before))


def bytes_read(folder: Path) -> int:
    """What the reader of this folder noted last; 0 before it did."""
    try:
        return int((folder / NOTE).read_text())
    except (OSError, ValueError):  # none, or just being written
        return 0
