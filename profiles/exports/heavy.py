"""Make large exports in a limited process, few at a time for each user.

Printing thousands of operators takes seconds of processor time, during which a server process
answers all others late. `profiles.exports.process` does the work.
"""

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import structlog
from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.translation import get_language
from redis.exceptions import RedisError

from profiles.analysis.errors import AnalysisError
from profiles.analysis.text import PrintOptions
from profiles.ingest.fork_server import STDERR
from profiles.ingest.readers import ForkServer
from profiles.models import Profile
from webprofile.errors import DomainError
from webprofile.streaming import answer_of, streamed
from webprofile.turns import end_turn

log = structlog.get_logger()

#: exports of profiles with more operators (all of them together) are large
MOST_OPERATORS = 500
#: large exports of a user that are made or sent at the same time, in all server processes
EXPORTS_OF_USER = 2
#: large exports that a server process has made at the same time, and how long others wait for that
EXPORTS_AT_ONCE, PATIENCE_S = 3, 30.0
#: response to a user with too many exports: when to try again, s
TRY_AGAIN_S = 5
#: an export whose server process was killed counts against its user's limit for this time, s
LEASE_S = 900
#: files in the folder of an export
JOB, CONTENT, PROBLEM = "export.json", "content", "problem.json"
_PIECE_BYTES = 64 << 10

server = ForkServer("profiles.exports", has_settings=True)
_slots = threading.BoundedSemaphore(EXPORTS_AT_ONCE)


class ExportJob(msgspec.Struct, frozen=True):
    """What to export: a profile, or a comparison of several.

    name: the format
    query: the query string of the request
    printed: options of a profile as `profile_analyze` prints it; None for all other exports
    """

    name: str
    profiles: list[int]
    query: str
    language: str
    printed: PrintOptions | None


class ExportProblem(msgspec.Struct, frozen=True):
    """Why there is no content: a DomainError, or an AnalysisError, whose `data` is its detail."""

    code: str
    is_domain_error: bool
    field: str = ""
    status: int = 422
    data: dict[str, Any] = {}


def content_response(
    request: HttpRequest,
    profiles: Sequence[Profile],
    name: str,
    content_type: str,
    make: Callable[[], Iterable[bytes]],
    *,
    printed: PrintOptions | None = None,
) -> HttpResponseBase:
    """Return the content of an export: of `make`, or of a limited process if it is large.

    request: one whose permissions and parameters have been checked
    name, printed: as in `ExportJob`

    Raises the errors of `make`; for a large export DomainError export_many (429) if the user has
    too many exports in progress, export_busy (503), export_heavy, reading_stopped.
    """
    if sum(profile.operators for profile in profiles) <= MOST_OPERATORS:
        return answer_of(request, make(), content_type)
    ids = [profile.pk for profile in profiles]
    language = get_language() or settings.LANGUAGE_CODE
    job = ExportJob(name, ids, request.GET.urlencode(), language, printed)
    lease = _lease(cast(int, request.user.pk))
    end_turn()
    try:
        content = _made(job)
    except BaseException:
        _release(lease)
        raise

    def close() -> None:
        content.close()
        _release(lease)

    pieces = iter(lambda: content.read(_PIECE_BYTES), b"")
    return streamed(request, pieces, content_type, close=close)


def _made(job: ExportJob) -> BinaryIO:
    """Have the export made and return its content; the file has no name any more."""
    with _slot(), tempfile.TemporaryDirectory(prefix="export-") as name:
        folder = Path(name)
        (folder / JOB).write_bytes(msgspec.json.encode(job))
        try:
            code = server.read(folder, 2 * settings.PROFILE_PARSE_TIME_S)
        except TimeoutError:
            raise DomainError("export_heavy") from None
        if code is None:
            raise DomainError("reading_stopped", status=503)
        if (folder / PROBLEM).exists():
            raise _error(msgspec.json.decode((folder / PROBLEM).read_bytes(), type=ExportProblem))
        if code:
            said = (folder / STDERR).read_text(errors="replace")[-4000:]
            log.warning("export_failed", code=code, said=said)
            raise DomainError("export_heavy")
        return (folder / CONTENT).open("rb")


def _error(problem: ExportProblem) -> Exception:
    if not problem.is_domain_error:
        return AnalysisError(cast(Any, problem.code), problem.data["detail"])
    return DomainError(problem.code, field=problem.field, status=problem.status, **problem.data)


@contextmanager
def _slot() -> Iterator[None]:
    if not _slots.acquire(timeout=PATIENCE_S):
        raise DomainError("export_busy", status=503)
    try:
        yield
    finally:
        _slots.release()


def _lease(user_id: int) -> str:
    """Count an export against the limit of a user; returns the key to release.

    Raises DomainError export_many. Without the cache there is no limit.
    """
    try:
        for number in range(EXPORTS_OF_USER):
            key = f"export:{user_id}:{number}"
            if cache.add(key, True, LEASE_S):
                return key
    except RedisError:
        log.warning("export_not_counted")
        return ""
    raise DomainError("export_many", status=429, limit=EXPORTS_OF_USER, wait_s=TRY_AGAIN_S)


def _release(key: str) -> None:
    try:
        if key:
            cache.delete(key)
    except RedisError:  # it expires
        log.warning("export_not_released")
