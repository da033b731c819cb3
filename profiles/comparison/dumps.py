"""Compare the values of all variables of two attempts, from their stored dumps."""

import tempfile
from typing import IO, Any

import structlog
from django.conf import settings
from django.core.cache import cache

from agent.protocol.artifacts import PROFILE_NAME
from profiles.analysis.io_dump import Producer, TensorDifference, compare, index_of, makers
from profiles.formats.errors import ProfileFormatError
from profiles.formats.tensor_dump import DumpError, TensorHeader, open_zip
from tasks.models import Artifact
from webprofile.errors import DomainError
from webprofile.storage import storage

log = structlog.get_logger()

#: largest dump, packed and unpacked; larger ones need `manage.py compare_binary_iodump`
PACKED_LIMIT_BYTES = 128 << 20
UNPACKED_LIMIT_BYTES = 512 << 20
#: lifetime of the lock that allows one comparison of the same dumps at a time
_BUSY_S = 300
MOST_ROWS = 10_000
_KEPT_S = 3600


def dumps_compare(a: Artifact, b: Artifact) -> dict[str, Any]:
    """Compare two dumps; the result is cached for an hour.

    rows: in order of execution, at most MOST_ROWS
    total: number of all rows
    differing: number of rows beyond the tolerance
    changed: number of other rows that differ
    ordered: whether the order of execution is known; otherwise rows are in order of variable ids

    Raises DomainError dumps_busy (another request is computing it), dump_large, dump_unreadable,
    object_missing, storage_unreachable.
    """
    key = f"io-dumps:4:{a.pk}:{a.md5}:{b.pk}:{b.md5}"
    known: dict[str, Any] | None = cache.get(key)
    if known is None:
        if not cache.add(f"{key}:busy", 1, _BUSY_S):
            raise DomainError("dumps_busy", status=503)
        try:
            known = _compare(a, b)
            cache.set(key, known, _KEPT_S)
        finally:
            cache.delete(f"{key}:busy")
    return known


def _compare(a: Artifact, b: Artifact) -> dict[str, Any]:
    order = execution_order(a)
    with tempfile.TemporaryFile() as file_a, tempfile.TemporaryFile() as file_b:
        for artifact, file in ((a, file_a), (b, file_b)):
            _fetch(artifact, file)
        try:
            dumps = [open_zip(file, most_bytes=UNPACKED_LIMIT_BYTES) for file in (file_a, file_b)]
            differences = list(compare(*dumps, order=order))
        except DumpError as error:
            if error.code == "too_large":
                raise _too_large() from error
            log.warning("dump_unreadable", a=a.pk, b=b.pk, error=str(error))
            raise DomainError("dump_unreadable", problem=error.code) from error
    first = next((n for n, row in enumerate(differences) if row.differs), None)
    return {
        "rows": [_row(row, is_first=n == first) for n, row in enumerate(differences[:MOST_ROWS])],
        "total": len(differences),
        "differing": sum(row.differs for row in differences),
        "changed": sum(row.status == "close" for row in differences),
        "ordered": bool(order),
    }


def _fetch(artifact: Artifact, file: IO[bytes]) -> None:
    try:
        storage.read_into(artifact.object_key, file, limit_bytes=PACKED_LIMIT_BYTES)
    except DomainError as error:
        if error.code == "object_too_large":
            raise _too_large() from error
        raise


def _too_large() -> DomainError:
    return DomainError(
        "dump_large", packed_mib=PACKED_LIMIT_BYTES >> 20, unpacked_mib=UNPACKED_LIMIT_BYTES >> 20
    )


def execution_order(artifact: Artifact) -> dict[int, Producer]:
    """Return the operator that produced each variable, from the profile of the same attempt.

    Empty without a profile. Raises DomainError storage_unreachable.
    """
    profile = artifact.attempt.artifacts.filter(name=PROFILE_NAME, is_stored=True).first()
    if profile is None:
        return {}
    try:
        limit = settings.PROFILE_SIZE_LIMIT_BYTES
        return makers(storage.read(profile.object_key, limit_bytes=limit))
    except ProfileFormatError:
        return {}
    except DomainError as error:
        if error.code == "storage_unreachable":
            raise
        return {}


def _row(difference: TensorDifference, *, is_first: bool) -> dict[str, Any]:
    one = difference.one
    return {
        **{name: getattr(difference, name) for name in _AS_THEY_ARE},
        "is_first": is_first,
        "operator": difference.operator[:300],
        "type": difference.operator_type,
        "variable": one.name[:300],
        "file": one.file,
        "a": _kind(difference.a),
        "b": _kind(difference.b),
        "first": None if difference.first is None else list(index_of(difference.first, one.shape)),
    }


_AS_THEY_ARE = (
    *("status", "differs", "step", "max_abs", "max_rel"),
    *("differing", "numbers", "nan_a", "nan_b"),
)


def _kind(header: TensorHeader | None) -> str:
    if header is None:
        return ""
    return f"{header.dtype} {{{','.join(map(str, header.shape))}}}"
