"""Excerpts of a trace for a viewer, written by a limited process from the index and the raw file.

The untrusted trace is never parsed here: our own span index tells which bytes to fetch.
"""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import structlog
from django.conf import settings

from profiles.formats.chrome_trace.excerpt_selection import (
    Excerpt,
    ExcerptRange,
    ExcerptTooLargeError,
    fetch_ranges,
    select_excerpt,
)
from profiles.formats.chrome_trace.span_index import (
    START_BYTES,
    SpanIndex,
    from_header,
    header_bytes,
)
from profiles.ingest import excerpt_process, readers
from profiles.ingest.excerpt_process import ExcerptJob
from profiles.ingest.fork_server import STDERR
from profiles.ingest.loading import request_rebuild
from profiles.models import Profile
from webprofile import turns
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: size of the first read of the index; holds the whole header except for huge traces
_FIRST_BYTES = 256 << 10
#: limits of the process; an excerpt of 64 MiB takes 0.3 GiB and 2 s
_MEMORY_BYTES, _TIME_S = 1 << 30, 30
#: excerpts written concurrently per server process, one more than a user can request at the same
#: time, and how long further requests wait for a slot
_AT_ONCE, _PATIENCE_S = turns.AT_ONCE + 1, 20
_slots = threading.BoundedSemaphore(_AT_ONCE)
#: pieces with at most this gap between them are fetched in one request
_GAP_BYTES = 64 << 10
MIB = 1 << 20


def trace_excerpt(profile: Profile, requested: ExcerptRange) -> tuple[bytes, int]:
    """Return (the requested excerpt, compressed by gzip; its number of spans and counters).

    Raises DomainError: cut_unready if the index is not built yet, profile_damaged if it cannot be
    built, cut_lane, cut_large, cut_heavy, cut_busy, reading_stopped, object_missing,
    storage_unreachable.
    """
    if not _slots.acquire(timeout=_PATIENCE_S):
        raise DomainError("cut_busy", status=503)
    try:
        index, at = _index(profile)
        _check_lanes(index, requested)
        excerpt = _select(profile, index, at, requested)
        with tempfile.TemporaryDirectory(prefix="cut-") as name:
            folder = Path(name)
            _write_job(profile, index, excerpt, requested, folder)
            _run(folder)
            return (folder / excerpt_process.CUT).read_bytes(), len(excerpt.rows)
    except _NotReadyError:
        if profile.problem:  # a rebuild failed: the file is missing or unreadable
            raise DomainError("profile_damaged", status=409) from None
        request_rebuild(profile.pk)
        raise DomainError("cut_unready", status=409) from None
    finally:
        _slots.release()


class _NotReadyError(Exception):
    """The span index is missing, damaged, or belongs to another file."""


def _index(profile: Profile) -> tuple[SpanIndex, int]:
    """The header of the span index, and the offset of its blocks in the object."""
    try:
        start = storage.read_start(profile.spans_key, size_bytes=_FIRST_BYTES)
    except DomainError as error:
        if error.code == "object_missing":
            raise _NotReadyError from error
        raise
    with _damage():
        at = START_BYTES + header_bytes(start[:START_BYTES])
        if at > len(start):
            left = storage.read_start(
                profile.spans_key, begin=len(start), size_bytes=at - len(start)
            )
            start += left
        return from_header(start[START_BYTES:at]), at


def _check_lanes(index: SpanIndex, requested: ExcerptRange) -> None:
    for number in requested.lanes or ():
        if not 0 <= number < len(index.lanes):
            raise DomainError("cut_lane", field="lane", number=number)


def _select(profile: Profile, index: SpanIndex, at: int, requested: ExcerptRange) -> Excerpt:
    def fetch(begin: int, size_bytes: int) -> bytes:
        return storage.read_start(profile.spans_key, begin=at + begin, size_bytes=size_bytes)

    limit = settings.TRACE_CUT_LIMIT_BYTES
    try:
        with _damage():
            return select_excerpt(index, requested, fetch, limit)
    except ExcerptTooLargeError as error:
        raise DomainError(
            "cut_large",
            field="end_s",
            events=error.events,
            size_mib=_mib(error.size_bytes),
            limit_mib=_mib(limit),
        ) from error


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.3g}" if size_bytes < 100 * MIB else str(round(size_bytes / MIB))


def _write_job(
    profile: Profile, index: SpanIndex, excerpt: Excerpt, requested: ExcerptRange, folder: Path
) -> None:
    """Write the job, the rows and the text of the pieces to the process's folder."""
    np.savez(folder / excerpt_process.ROWS, allow_pickle=False, **vars(excerpt.rows))
    pieces, selected = index.pieces, excerpt.pieces
    key = profile.raw_key(index.file)

    def fetch(begin: int, size_bytes: int) -> bytes:
        return storage.read_start(key, begin=begin, size_bytes=size_bytes)

    ranges = zip(pieces.begin[selected].tolist(), pieces.end[selected].tolist(), strict=True)
    with (folder / excerpt_process.TEXT).open("wb") as file:
        for text in fetch_ranges(ranges, fetch, gap_bytes=_GAP_BYTES, most_bytes=16 * MIB):
            file.write(text)
    sizes = (pieces.end - pieces.begin)[selected].tolist()
    job = ExcerptJob(
        pieces=list(zip(pieces.first_row[selected].tolist(), sizes, strict=True)),
        requested=requested,
        lanes=index.lanes,
        naming=index.naming,
        zero_us=index.zero_us,
        memory_bytes=_MEMORY_BYTES,
        time_s=_TIME_S,
    )
    (folder / excerpt_process.ORDER).write_bytes(msgspec.msgpack.encode(job))


def _run(folder: Path) -> None:
    try:
        code = readers.server.read(folder, 2 * _TIME_S)
    except TimeoutError:
        raise DomainError("cut_heavy") from None
    if code is None:
        raise DomainError("reading_stopped", status=503)
    problem = folder / excerpt_process.PROBLEM
    if problem.exists():
        log.warning("cut_problem", problem=problem.read_text(errors="replace"))
        raise _NotReadyError
    if code:
        log.warning("cut_failed", code=code, said=(folder / STDERR).read_text(errors="replace"))
        raise DomainError("cut_heavy")


@contextmanager
def _damage() -> Iterator[None]:
    """Turn errors of a damaged index into _NotReadyError, which requests a rebuild."""
    try:
        yield
    except ValueError as error:
        log.warning("span_index_damaged", exc_info=True)
        raise _NotReadyError from error
