"""Build derived data from raw profile files in storage; a process with limits does the parsing."""

import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import structlog
from django.conf import settings

from profiles.analysis.archive import VERSION, from_archive, weight_bytes
from profiles.analysis.data import LeftOut, ProfileData
from profiles.analysis.errors import AnalysisError
from profiles.analysis.totals import check_device_total, plausible
from profiles.formats.errors import ProfileFormatError
from profiles.ingest import limited_process, readers
from profiles.ingest.fork_server import STDERR
from profiles.ingest.limited_process import ParseJob, ParseProblem, bytes_read
from profiles.models import Profile
from profiles.size_limits import most_bytes, size_limit
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: exception classes by the name that the reader process sends
_PROBLEMS: dict[str, Callable[[Any, str], Exception]] = {
    error.__name__: error for error in (ProfileFormatError, AnalysisError)
}


@dataclass(frozen=True)
class DerivedData:
    """The derived data of a run, not yet stored.

    archive: the bytes for `Profile.derived_key`
    data: the decoded content of `archive`
    spans: the span index of a trace for `Profile.spans_key`; empty without a trace
    """

    archive: bytes
    data: ProfileData
    spans: bytes = b""


#: progress callback: called with the step ("fetching" or "reading") and the number of bytes done,
#: summed over all files
OnProgress = Callable[[str, int], object]


#: limit for fetching and reading together; below the actor's time limit (`profiles.actors`), so
#: that the actor can still record the reason
ALL_S = 270
#: signals that stop the site; none of the resource limits sends them
_STOPPED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class _TooHeavyError(Exception):
    """The reader process reached a limit, or was killed by a signal that suggests it."""


def ignore_progress(_step: str, _done: int) -> None:
    """Progress callback that does nothing."""


def derive(
    files: Sequence[tuple[str, str]],
    on_progress: OnProgress = ignore_progress,
    left_out: Sequence[LeftOut] = (),
    within_s: float = ALL_S,
) -> DerivedData:
    """Read the files of one run and return the derived data.

    files: (name, object key) of each file, in the order of the passes
    within_s: limit for fetching and reading them
    left_out: files of the run that are not read, to be listed with those that are unusable
    Unusable files are left out (`ProfileData.left_out`) as long as one file is usable. If none is,
    raises the error of the first: ProfileFormatError (`too_heavy` beyond the limits of memory or
    time), AnalysisError if nothing was timed, DomainError object_missing or object_too_large.
    Raises DomainError storage_unreachable immediately, and reading_stopped if the reader process
    was stopped from outside; the caller may retry after both.
    """
    with tempfile.TemporaryDirectory(prefix="profile-") as name:
        folder = Path(name)
        until = time.monotonic() + within_s
        job = _fetch(files, folder, on_progress)
        job = msgspec.structs.replace(job, left_out=(*left_out, *job.left_out))
        try:
            archive = _run(folder, job, on_progress, until)
        except _TooHeavyError as error:
            archive = _run_first(folder, job, str(error), on_progress, until)
        spans = folder / limited_process.SPANS
        index = spans.read_bytes() if spans.exists() else b""
    data = from_archive(archive)
    if data.has_operators:
        check_device_total(data.columns)  # all medians may be 0, which single passes do not show
    # a trace may prove unusable after its index was written
    return DerivedData(archive, data, index if "trace" in data.summaries else b"")


def store_derived(profile: Profile, derived: DerivedData) -> None:
    """Write derived data to storage. Raises DomainError storage_unreachable."""
    # the index first: pages request it as soon as the archive exists
    if derived.spans:
        storage.write(profile.spans_key, derived.spans)
    storage.write(profile.derived_key, derived.archive)


def profile_row(data: ProfileData, profile: Profile | None = None) -> Profile:
    """Fill the summary fields of a profile from derived data; the row is not saved."""
    profile = profile or Profile()
    profile.operators = len(data.columns)
    profile.device_total_s = plausible(data.columns.device.total_s())
    profile.host_total_s = plausible(data.columns.host.total_s())
    profile.derived_version = VERSION
    profile.problem = ""
    return profile


def _fetch(files: Sequence[tuple[str, str]], folder: Path, on_progress: OnProgress) -> ParseJob:
    """Download the files into the folder; files beyond the size limits are left out."""
    fetched: list[str] = []
    left_out: list[LeftOut] = []
    first_error: DomainError | None = None
    traces = 0
    left = settings.PROFILE_PASSES_LIMIT_BYTES
    before = 0
    for name, key in files:
        path = folder / name
        try:
            with path.open("wb") as file:
                counting: Any = _CountingFile(file, before, on_progress)
                storage.read_into(key, counting, limit_bytes=min(left, most_bytes()))
                size_bytes = file.tell()
            kind = limited_process.kind_of_file(path)
            _check_size(size_bytes, size_limit(kind))
        except DomainError as error:
            path.unlink()
            if error.code == "storage_unreachable":
                raise
            first_error = first_error or error
            left_out.append(LeftOut(name, error.code, _why(error)))
        else:
            left -= size_bytes
            before += size_bytes
            traces += kind == "trace"
            fetched.append(name)
    if not fetched:
        raise first_error or DomainError("object_missing", status=404)
    return ParseJob(
        files=tuple(fetched),
        left_out=tuple(left_out),
        max_bytes=settings.PROFILE_SIZE_LIMIT_BYTES,
        memory_bytes=settings.PROFILE_PARSE_MEMORY_BYTES,
        time_s=settings.TRACE_PARSE_TIME_S if traces else settings.PROFILE_PARSE_TIME_S,
    )


def _check_size(size_bytes: int, limit: int) -> None:
    if size_bytes > limit:
        raise DomainError("object_too_large", size=size_bytes, limit=limit)


class _CountingFile:
    """A file that reports how many bytes were written to it."""

    def __init__(self, file: IO[bytes], before: int, on_progress: OnProgress) -> None:
        self._file, self._done, self._on_progress = file, before, on_progress

    def write(self, data: bytes) -> int:
        self._done += len(data)
        self._on_progress("fetching", self._done)
        return self._file.write(data)


def _why(error: DomainError) -> str:
    if error.code == "object_too_large":
        size, limit = error.data["size"], error.data["limit"]
        return f"It has {size} bytes; {limit} are left of what is read."
    return "It is not in storage."


def _run_first(
    folder: Path, job: ParseJob, detail: str, on_progress: OnProgress, until: float
) -> bytes:
    """Retry with the first file alone, so that the other files cannot make it fail."""
    rest = [LeftOut(name, "too_heavy", detail) for name in job.files[1:]]
    if rest:
        alone = msgspec.structs.replace(job, files=job.files[:1], left_out=(*job.left_out, *rest))
        try:
            return _run(folder, alone, on_progress, until)
        except _TooHeavyError as error:
            detail = str(error)
    raise ProfileFormatError("too_heavy", detail)


def _run(folder: Path, job: ParseJob, on_progress: OnProgress, until: float) -> bytes:
    """Run the reader process and return its archive.

    Raises the error that the reader reports, or _TooHeavyError.
    """
    (folder / limited_process.ORDER).write_bytes(msgspec.json.encode(job))
    # the job's limit is CPU time; on a busy machine this takes longer in wall-clock time
    within_s = min(2 * job.time_s, until - time.monotonic())
    if within_s <= 0:
        raise _TooHeavyError("Fetching and reading it takes too long.")
    # left by an earlier attempt that was killed; its trace may not be part of this job
    (folder / limited_process.SPANS).unlink(missing_ok=True)
    try:
        code = readers.server.read(
            folder, within_s, lambda: on_progress("reading", bytes_read(folder))
        )
    except TimeoutError:
        raise _TooHeavyError(f"Reading it takes more than {within_s:.0f} s.") from None
    if code is None or -code in _STOPPED:
        log.warning("profile_reader_stopped", signal=code and -code)
        raise DomainError("reading_stopped", status=503)
    if code == limited_process.OUT_OF_MEMORY:
        raise _TooHeavyError(limited_process.out_of_memory(job).detail)
    if code < 0:
        log.warning("profile_reader_died", signal=-code)
        raise _TooHeavyError(
            f"Reading it takes more than {job.time_s} s of processor time or "
            f"{job.memory_bytes >> 20} MiB of memory (signal {-code})."
        )
    if code:
        raise RuntimeError((folder / STDERR).read_text(errors="replace")[-4000:])
    problem = folder / limited_process.PROBLEM
    if problem.exists():
        reported = msgspec.json.decode(problem.read_bytes(), type=ParseProblem)
        raise _PROBLEMS[reported.of](reported.code, reported.detail)
    archive = (folder / limited_process.DERIVED).read_bytes()
    if weight_bytes(archive) > settings.PROFILE_CACHE_BYTES:
        limit = settings.PROFILE_CACHE_BYTES >> 20
        raise _TooHeavyError(f"Its pages would take more than {limit} MiB of memory.")
    return archive
