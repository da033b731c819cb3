"""Read untrusted profiles in a resource-limited process, whose failure cannot harm the site.

`main` reads `order.json` in a folder, limits its own process, and writes either `derived.npz`
(`analysis.archive`) or `problem.json`. It returns OUT_OF_MEMORY if the memory limit is reached; at
the CPU time limit the kernel kills it (SIGXCPU). It imports neither Django nor the settings, and
its environment holds no secrets. `profiles.ingest.readers` requests such processes and
`profiles.ingest.fork_server` forks them.
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
from profiles.analysis.passes import (
    OtherGraphError,
    PassTimes,
    align_pass,
    leading_pass,
    merged_data,
    without_operators,
)
from profiles.analysis.totals import check_device_total
from profiles.formats.chrome_trace.dynamic_profile import read_dynamic
from profiles.formats.columns import ProfileColumns
from profiles.formats.detection import FileKind, kind_of, read_head
from profiles.formats.errors import ProfileFormatError
from profiles.formats.load_and_run.graph import ExecutedGraph, PassIntervals
from profiles.formats.load_and_run.graph_json import empty_graph, parse_intervals
from profiles.formats.load_and_run.reader import parse, parse_whole
from profiles.formats.memory_flow.summary import read_memory_flow
from profiles.formats.static_memory.plan_file import unpack
from profiles.formats.static_memory.summary import StaticMemory, read_static_memory

ORDER, DERIVED, PROBLEM = "order.json", "derived.npz", "problem.json"
#: span index of a trace, written in addition to the derived data
SPANS = "spans.bin"
OUT_OF_MEMORY = 3
#: suffix of an archive that a device packed: a memory plan
_PACKED = ".zip"
#: below the site's own processes, which serve users
NICENESS = 10
#: kinds of files in the order in which they are read
_KINDS: tuple[FileKind, ...] = ("profile", "trace", "memory_flow", "static_memory", "graph")
#: file with the number of bytes read so far, over all files, as text; minimum time between writes
NOTE, _PAUSE_S = "progress.txt", 0.2


class ParseJob(msgspec.Struct, frozen=True):
    """The files to read and the limits.

    files: names in the folder, in the order of the passes
    left_out: files that the caller could not download
    max_bytes: limit of one file
    """

    files: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    max_bytes: int
    memory_bytes: int
    time_s: int


class ParseProblem(msgspec.Struct, frozen=True):
    """Why no file is usable: the name of an exception class (`of`) and its arguments."""

    of: str
    code: str
    detail: str


def main(folder: Path) -> int:
    """Run the job in `folder` and return the exit code."""
    job = msgspec.json.decode((folder / ORDER).read_bytes(), type=ParseJob)
    limit(job.memory_bytes, job.time_s)
    gc.disable()  # it would traverse all decoded objects repeatedly and free nothing
    try:
        result = derive_archive(folder, job)
    except MemoryError:
        return OUT_OF_MEMORY
    if isinstance(result, ParseProblem):
        (folder / PROBLEM).write_bytes(msgspec.json.encode(result))
    else:
        (folder / DERIVED).write_bytes(result)
    return 0


def limit(memory_bytes: int, time_s: int, niceness: int = NICENESS) -> None:
    """Set the resource limits of this process; they cannot be raised again."""
    bounds = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: time_s,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: memory_bytes,
    }
    for kind, bound in bounds.items():
        # some systems do not support a limit, or have a lower one in place
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (bound, bound))
    os.nice(niceness)


def derive_archive(folder: Path, job: ParseJob) -> bytes | ParseProblem:
    """Return the archive of all files together, or the problem of the first if none is readable."""
    kinds = {name: kind_of_file(folder / name) for name in job.files}
    run = _RunBuilder(folder, job, kinds)
    problems: dict[str, ParseProblem] = {}
    # sorted is stable, so passes keep their order
    for name in sorted(job.files, key=lambda name: _KINDS.index(kinds[name])):
        try:
            run.add(kinds[name], folder / name)
        except (ProfileFormatError, AnalysisError) as error:
            problems[name] = ParseProblem(type(error).__name__, error.code, error.detail)
        except OtherGraphError as error:
            problems[name] = ParseProblem(type(error).__name__, "other_graph", str(error))
        except MemoryError:
            problems[name] = out_of_memory(job)
        run.progress.file_done(folder / name)
    unusable = [(name, problems[name]) for name in job.files if name in problems]
    if run.is_empty:
        return unusable[0][1]
    left_out = [LeftOut(name, problem.code, problem.detail) for name, problem in unusable]
    return to_archive(run.data([*job.left_out, *left_out]))


def out_of_memory(job: ParseJob) -> ParseProblem:
    """The problem to report when the memory limit is reached."""
    return ParseProblem(
        ProfileFormatError.__name__,
        "too_heavy",
        f"Reading it takes more than {job.memory_bytes >> 20} MiB of memory.",
    )


def kind_of_file(path: Path) -> FileKind:
    return "static_memory" if path.suffix == _PACKED else kind_of(read_head(path))


class _RunBuilder:
    """Reads the files of a run one by one; an unusable file leaves the data unchanged.

    _lead: operators of the first pass; its graph is shown and the other passes are aligned to it
    _leads: the kind of file that the passes come from
    _summaries: as `ProfileData.summaries`
    _first_of_kind: the first file of each kind, for kinds that are read together
    """

    def __init__(self, folder: Path, job: ParseJob, kinds: dict[str, FileKind]) -> None:
        self.progress = ReadProgress(folder)
        self._max_bytes = job.max_bytes
        self._first_of_kind = {kind: folder / name for name, kind in reversed(kinds.items())}
        self._lead: ProfileColumns | None = None
        self._leads: FileKind | None = None
        self._graph = empty_graph()
        self._passes: list[PassTimes] = []
        self._summaries: dict[str, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no file contributed data."""
        return self._lead is None and not self._summaries

    def add(self, kind: FileKind, path: Path) -> None:
        """Add a file. Raises ProfileFormatError, AnalysisError, OtherGraphError."""
        if kind == "profile":
            self._add_profile(path)
        elif kind == "trace":
            self._add_trace(path)
        elif kind == "memory_flow":
            self._add_summary(kind, read_memory_flow(path))
        elif kind == "static_memory":
            self._add_static_memory(path)
        else:
            self._check_graph(path)

    def data(self, left_out: Sequence[LeftOut]) -> ProfileData:
        """Return the data of all files; `left_out` lists those that could not be read."""
        if self._lead is None:
            merged = without_operators(self._graph, left_out)
        else:
            merged = merged_data(self._lead, self._passes, self._graph, left_out)
        return replace(merged, summaries=self._summaries)

    def _add_profile(self, path: Path) -> None:
        data = path.read_bytes()
        if self._lead is None:
            columns, graph = parse_whole(data, max_bytes=self._max_bytes)
            check_device_total(columns)
            self._add_first_pass("profile", path.name, columns, _sound(graph))
        else:
            # of the graph of a later pass, only the intervals are used
            columns = parse(data, max_bytes=self._max_bytes)
            check_device_total(columns)
            intervals = parse_intervals(data, columns)
            self._passes.append(align_pass(self._lead, path.name, columns, intervals))

    def _add_trace(self, path: Path) -> None:
        index = None if "trace" in self._summaries else path.with_name(SPANS)
        dynamic = read_dynamic(path, self.progress.update, index=index)
        if "trace" in self._summaries and self._lead is None:
            raise _second_of_kind()  # the first has no operators that this one could be aligned to
        # a profile of the same run has more data per operator than a trace
        if self._leads != "profile" and len(dynamic.columns):
            check_device_total(dynamic.columns)
            if self._lead is None:
                self._add_first_pass("trace", path.name, dynamic.columns, dynamic.graph)
            else:
                intervals = PassIntervals(dynamic.graph.device, dynamic.graph.host)
                self._passes.append(align_pass(self._lead, path.name, dynamic.columns, intervals))
            if "trace" in self._summaries:
                return
        self._add_summary("trace", msgspec.json.encode(dynamic.summary))

    def _add_static_memory(self, path: Path) -> None:
        graph = self._first_of_kind.get("graph")
        if path.suffix == _PACKED:
            path, graph = unpack(path, path.with_suffix(""), max_bytes=self._max_bytes)
        self._add_summary("static_memory", read_static_memory(path, graph))

    def _check_graph(self, path: Path) -> None:
        """Check the graph.json, which was read together with the plan; raises if it is unusable."""
        if "static_memory" not in self._summaries and "static_memory" in self._first_of_kind:
            raise ProfileFormatError("graph_alone", "The memory plan that it is of cannot be read.")
        if "static_memory" not in self._summaries:
            raise ProfileFormatError(
                "graph_alone", "It is the graph of a memory plan without plan."
            )
        if path != self._first_of_kind["graph"]:
            raise _second_of_kind()
        state = msgspec.json.decode(self._summaries["static_memory"], type=StaticMemory).graph
        if state in ("graph_unreadable", "not_a_profile"):
            text = "It cannot be read." if state == "graph_unreadable" else "It is another graph."
            raise ProfileFormatError(
                "graph_of_another", f"The plan has no names of tensors. {text}"
            )

    def _add_first_pass(
        self, kind: FileKind, name: str, columns: ProfileColumns, graph: ExecutedGraph
    ) -> None:
        self._graph = graph
        self._passes.append(leading_pass(name, columns))
        self._lead, self._leads = columns, kind

    def _add_summary(self, kind: FileKind, summary: bytes) -> None:
        """Add the summary of a file that is shown in addition to operators."""
        if kind in self._summaries:
            raise _second_of_kind()
        self._summaries[kind] = summary


def _second_of_kind() -> AnalysisError:
    """The error for a second file of a kind that a run can have only once."""
    return AnalysisError(
        "second_of_kind", "Another file of this kind is shown; one run has one of them."
    )


def _sound(graph: Callable[[], ExecutedGraph]) -> ExecutedGraph:
    """Return the graph, or an empty one if it is damaged: the table does not depend on it."""
    try:
        return graph()
    except (ProfileFormatError, msgspec.MsgspecError, ValueError, RecursionError):
        return empty_graph(("operator",))


class ReadProgress:
    """Writes the reader's progress to a file in its folder, for `bytes_read`."""

    def __init__(self, folder: Path) -> None:
        self._note, self._before = folder / NOTE, 0
        self._next = 0.0

    def update(self, done: int, _of: int) -> None:
        """Record `done` bytes of the current file; calls within `_PAUSE_S` are skipped."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE_S
            self._note.write_text(str(self._before + done))

    def file_done(self, path: Path) -> None:
        self._before += path.stat().st_size
        self._note.write_text(str(self._before))


def bytes_read(folder: Path) -> int:
    """The number of bytes that the reader of this folder has read; 0 before its first update."""
    try:
        return int((folder / NOTE).read_text())
    except (OSError, ValueError):  # missing, or partly written
        return 0
