"""From raw profile files in storage to derived data; parsing is left to a process with limits."""

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
from profiles.analysis.totals import totals
from profiles.formats.detection import HEAD_BYTES, FileKind, kind_of
from profiles.formats.errors import ProfileFormatError
from profiles.ingest import limited_process, readers
from profiles.ingest.fork_server import SAID
from profiles.ingest.limited_process import Order, Problem, bytes_read
from profiles.models import Profile
from profiles.size_limits import most_bytes, size_limit
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: by the name that the reader gives; it sends codes that these classes know
_PROBLEMS: dict[str, Callable[[Any, str], Exception]] = {
    each.__name__: each for each in (ProfileFormatError, AnalysisError)
}


@dataclass(frozen=True)
class Derived:
    """`archive` is to be stored under `Profile.derived_key`; `data` is what it holds.

    spans: of a trace, the index of its spans, for `Profile.spans_key`; else empty
    """

    archive: bytes
    data: ProfileData
    spans: bytes = b""


#: told what is done now, "fetching" or "reading", and with how many bytes of all files
Told = Callable[[str, int], object]


#: for fetching and all reading: less than an actor has (`profiles.actors`), which then says why
_ALL_S = 270
#: who stops the site sends these; no limit does
_STOPPED = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class _TooHeavyError(Exception):
    """The process reached a limit, or died of something that looks like it."""


def untold(_step: str, _done: int) -> None:
    """For who need not know how far it is."""


def derive(files: Sequence[tuple[str, str]], told: Told = untold) -> Derived:
    """Read the files of one run: (name, object key) of each, in their order.

    Files that cannot be used are left out while one can (`ProfileData.left_out`). Otherwise raises
    what is wrong with the first: ProfileFormatError (`too_heavy` beyond the limits of memory or
    time), AnalysisError if nothing was timed, DomainError object_missing, object_too_large.
    DomainError storage_unreachable passes through at once; reading_stopped if somebody ended the
    reader: both say "try again".
    """
    with tempfile.TemporaryDirectory(prefix="profile-") as name:
        folder = Path(name)
        until = time.monotonic() + _ALL_S
        order = _fetch(files, folder, told)
        try:
            archive = _run(folder, order, told, until)
        except _TooHeavyError as error:
            archive = _run_first(folder, order, str(error), told, until)
        spans = folder / limited_process.SPANS
        index = spans.read_bytes() if spans.exists() else b""
    data = from_archive(archive)
    if data.has_operators:
        totals(data.columns)  # medians of passes may all be 0 where no pass is
    # a trace may have turned out to be of no use after its index was written
    return Derived(archive, data, index if "trace" in data.beside else b"")


def store_derived(profile: Profile, derived: Derived) -> None:
    """Write what `derive` made. Raises DomainError storage_unreachable."""
    # first what the archive needs: a page looks for it as soon as that is there
    if derived.spans:
        storage.write(profile.spans_key, derived.spans)
    storage.write(profile.derived_key, derived.archive)


def profile_row(data: ProfileData, profile: Profile | None = None) -> Profile:
    """Fill the summary of a profile with what `derive` found; nothing is saved."""
    profile = profile or Profile()
    sums = totals(data.columns)
    profile.operators = len(data.columns)
    profile.device_total_s = sums.device_s
    profile.host_total_s = sums.host_s
    profile.derived_version = VERSION
    profile.problem = ""
    return profile


def _fetch(files: Sequence[tuple[str, str]], folder: Path, told: Told) -> Order:
    """Bring the files into the folder, as far as their sizes are within the limits."""
    fetched: list[str] = []
    left_out: list[LeftOut] = []
    first_error: DomainError | None = None
    traces = 0
    left = settings.PROFILE_PASSES_LIMIT_BYTES
    before = 0
    for name, key in files:
        try:
            with (folder / name).open("w+b") as file:
                counting: Any = _Counting(file, before, told)
                storage.read_into(key, counting, limit_bytes=min(left, most_bytes()))
                size_bytes = file.tell()
                kind = _kind_of(file)
                _check_size(size_bytes, size_limit(kind))
        except DomainError as error:
            (folder / name).unlink()
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
    return Order(
        files=tuple(fetched),
        left_out=tuple(left_out),
        max_bytes=settings.PROFILE_SIZE_LIMIT_BYTES,
        memory_bytes=settings.PROFILE_PARSE_MEMORY_BYTES,
        time_s=settings.TRACE_PARSE_TIME_S if traces else settings.PROFILE_PARSE_TIME_S,
    )


def _kind_of(file: IO[bytes]) -> FileKind:
    file.seek(0)
    return kind_of(file.read(HEAD_BYTES))


def _check_size(size_bytes: int, limit: int) -> None:
    if size_bytes > limit:
        raise DomainError("object_too_large", size=size_bytes, limit=limit)


class _Counting:
    """A file that tells how much was written into it."""

    def __init__(self, file: IO[bytes], before: int, told: Told) -> None:
        self._file, self._done, self._told = file, before, told

    def write(self, data: bytes) -> int:
        self._done += len(data)
        self._told("fetching", self._done)
        return self._file.write(data)


def _why(error: DomainError) -> str:
    if error.code == "object_too_large":
        size, limit = error.data["size"], error.data["limit"]
        return f"It has {size} bytes; {limit} are left of what is read."
    return "It is not in storage."


def _run_first(folder: Path, order: Order, detail: str, told: Told, until: float) -> bytes:
    """Try once more with the first file alone: the others must not take it along."""
    rest = [LeftOut(name, "too_heavy", detail) for name in order.files[1:]]
    if rest:
        alone = msgspec.structs.replace(
            order, files=order.files[:1], left_out=(*order.left_out, *rest)
        )
        try:
            return _run(folder, alone, told, until)
        except _TooHeavyError as error:
            detail = str(error)
    raise ProfileFormatError("too_heavy", detail)


def _run(folder: Path, order: Order, told: Told, until: float) -> bytes:
    """Run the reader; returns its archive. Raises what it found wrong, or _TooHeavyError."""
    (folder / limited_process.ORDER).write_bytes(msgspec.json.encode(order))
    # the limit is on processor time; a busy machine gives it more slowly
    within_s = min(2 * order.time_s, until - time.monotonic())
    if within_s <= 0:
        raise _TooHeavyError(f"Fetching and reading it takes more than {_ALL_S} s.")
    # of a run that was ended, whose trace may not be among the files of this one
    (folder / limited_process.SPANS).unlink(missing_ok=True)
    try:
        code = readers.server.read(folder, within_s, lambda: told("reading", bytes_read(folder)))
    except TimeoutError:
        raise _TooHeavyError(f"Reading it takes more than {within_s:.0f} s.") from None
    if code is None or -code in _STOPPED:
        log.warning("profile_reader_stopped", signal=code and -code)
        raise DomainError("reading_stopped", status=503)
    if code == limited_process.OUT_OF_MEMORY:
        raise _TooHeavyError(limited_process.out_of_memory(order).detail)
    if code < 0:
        log.warning("profile_reader_died", signal=-code)
        raise _TooHeavyError(
            f"Reading it takes more than {order.time_s} s of processor time or "
            f"{order.memory_bytes >> 20} MiB of memory (signal {-code})."
        )
    if code:
        raise RuntimeError((folder / SAID).read_text(errors="replace")[-4000:])
    problem = folder / limited_process.PROBLEM
    if problem.exists():
        found = msgspec.json.decode(problem.read_bytes(), type=Problem)
        raise _PROBLEMS[found.of](found.code, found.detail)
    archive = (folder / limited_process.DERIVED).read_bytes()
    if weight_bytes(archive) > settings.PROFILE_CACHE_BYTES:
        limit = settings.PROFILE_CACHE_BYTES >> 20
        raise _TooHeavyError(f"Its pages would take more than {limit} MiB of memory.")
    return archive
