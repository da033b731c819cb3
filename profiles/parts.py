"""Multipart uploads of large files: after an interruption, only the missing parts are sent again.

Storage is the only record of which parts have arrived. It computes the MD5 of each part and returns
it to the sender. To join the parts, the sender lists their MD5s: those that storage returned, or
those that the sender computed for parts that were stored before. Parts of different files or
senders are therefore never mixed. In transit, a part is protected by TLS and TCP only, unless the
sender has storage verify an MD5 of its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from agent.protocol.multipart import md5_of_parts, part_sizes
from profiles.models import OpenedFile, PartedUpload, ProfileUpload
from tasks.models import TaskFile
from tasks.states import TaskState
from tasks.submission.creation import mark_file_stored
from webprofile.errors import DomainError
from webprofile.storage import PartsRefusedError, storage

log = structlog.get_logger()

#: maximum number of presigned URLs per request; more than any client sends in parallel
SIGNED_AT_ONCE = 64
#: presigned URLs in the first response, so that sending starts without a further request: twice as
#: many as pages and clients send in parallel, which leaves time to request more
SIGNED_AT_FIRST = 8
#: multipart uploads aborted per round of the sweep, so that its other work is not delayed
ABORT_LIMIT = 50

_MD5 = re.compile(r"[0-9a-f]{32}")

File = TaskFile | OpenedFile


def upload_target_of(file: File) -> dict[str, Any] | None:
    """The URL to PUT a file to, or the state of its parts; None if the parts are joined already.

    Raises DomainError storage_unreachable for a file in parts.
    """
    if not file.part_bytes:
        url, headers = storage.presign_put(
            file.upload_key, size_bytes=file.size_bytes, md5=file.md5, is_browser=True
        )
        return {"name": file.name, "url": url, "headers": headers, "parts": None}
    parts = _parts_of(file)
    return parts and {"name": file.name, "url": "", "headers": {}, "parts": parts}


def _parts_of(file: File) -> dict[str, Any] | None:
    """The state of a file's multipart upload as JSON; None if the file is complete.

    Starts an upload if there is none or storage has lost it. Raises DomainError parts_unwanted if
    the parts were joined meanwhile.
    upload: number of the upload attempt; parts sent in an earlier attempt are lost
    done: MD5s of the stored parts, by part number
    addresses: targets of the first missing parts, as `part_targets` returns them
    """
    if file.etag:
        return None
    row = _row(file)
    stored = storage.stored_parts(row.object_key, row.upload_id) if row else None
    if row is not None and stored is None:
        if row.md5 and _keep_found(file, row):
            return None
        log.warning("parts_lost", key=row.object_key)
        row.delete()
        row = None
    sizes = part_sizes(file.size_bytes, file.part_bytes)
    done = {
        str(number): md5
        for number, (size_bytes, md5) in (stored or {}).items()
        if number <= len(sizes) and size_bytes == sizes[number - 1]
    }
    row = row or _begun(file)
    missing = [number for number in range(1, len(sizes) + 1) if str(number) not in done]
    first = _sign(row, sizes, [(number, None) for number in missing[:SIGNED_AT_FIRST]])
    return {
        "upload": row.pk,
        "part_bytes": file.part_bytes,
        "count": len(sizes),
        "done": done,
        "addresses": first,
    }


def part_targets(
    file: File, upload: int, requested: Sequence[tuple[int, str | None]]
) -> list[dict[str, Any]]:
    """Presigned PUT URLs of parts, computed without network access.

    requested: (part number, MD5 that storage must verify, or None)
    Raises DomainError parts_bad for part numbers that the file does not have, parts_restarted if
    `upload` is not the current attempt, parts_unwanted, checksum_bad.
    """
    if not file.part_bytes or file.etag:
        raise _unwanted_error(file)
    _check_md5s(file, [md5 for _, md5 in requested if md5 is not None])
    sizes = part_sizes(file.size_bytes, file.part_bytes)
    if len(requested) > SIGNED_AT_ONCE or any(
        not 1 <= number <= len(sizes) for number, _ in requested
    ):
        raise DomainError("parts_bad", field="parts", name=file.name, count=len(sizes))
    row = _row(file)
    if row is None or row.pk != upload:
        raise DomainError("parts_restarted", status=409, name=file.name)
    return _sign(row, sizes, requested)


def _sign(
    row: PartedUpload, sizes: Sequence[int], requested: Iterable[tuple[int, str | None]]
) -> list[dict[str, Any]]:
    targets = []
    for number, md5 in requested:
        url, headers = storage.presign_part(
            row.object_key, row.upload_id, number, size_bytes=sizes[number - 1], md5=md5
        )
        targets.append({"number": number, "url": url, "headers": headers})
    return targets


def join_upload_parts(file: File, md5s: Sequence[str]) -> None:
    """Join the parts of a file if they have the MD5s that the sender lists. Idempotent.

    Raises DomainError upload_missing if parts are missing; upload_damaged if a stored part has
    another MD5 or storage refuses to join the parts, after which all parts are dropped;
    parts_unwanted, checksum_bad, storage_unreachable.
    """
    if not file.part_bytes:
        raise _unwanted_error(file)
    _check_md5s(file, md5s)
    if file.etag:
        if file.md5 != md5_of_parts(md5s):
            raise DomainError("upload_damaged", status=409, files=file.name)
        return
    row = _row(file)
    if row is None:
        raise DomainError("upload_missing", status=409, files=file.name)
    stored = storage.stored_parts(row.object_key, row.upload_id)
    if stored is not None:
        _check(file, row, stored, md5s)
        row.md5 = md5_of_parts(md5s)
        # if another request has joined the parts meanwhile, the row is gone and the file has the
        # result
        if not PartedUpload.objects.filter(pk=row.pk).update(md5=row.md5):
            file.refresh_from_db()
            return join_upload_parts(file, md5s)
        if etag := _join(file, row, md5s):
            # no HEAD request: some storage systems read the whole object to compute its ETag
            return _keep(file, row, etag)
    if not row.md5 or not _keep_found(file, row):
        row.delete()
        raise DomainError("upload_missing", status=409, files=file.name)


def _join(file: File, row: PartedUpload, md5s: Sequence[str]) -> str:
    """Have storage join the parts; returns the object's ETag.

    Returns an empty text if storage does not have the upload any more, because a concurrent request
    joined or aborted it. Raises DomainError.
    """
    try:
        return storage.join_upload_parts(row.object_key, row.upload_id, md5s)
    except PartsRefusedError as error:
        # rclone 1.75 does this occasionally when a part was sent twice after an interruption
        raise _drop(file, row) from error
    except DomainError as error:
        if error.code != "object_missing":
            raise
        return ""


def _check(
    file: File, row: PartedUpload, stored: Mapping[int, tuple[int, str]], md5s: Sequence[str]
) -> None:
    """Raise DomainError unless storage has all parts with the listed MD5s."""
    sizes = part_sizes(file.size_bytes, file.part_bytes)
    if len(md5s) != len(sizes) or set(stored) < set(range(1, len(sizes) + 1)):
        raise DomainError("upload_missing", status=409, files=file.name)
    expected = dict(enumerate(zip(sizes, md5s, strict=True), start=1))
    if stored != expected:
        raise _drop(file, row)


def _drop(file: File, row: PartedUpload) -> DomainError:
    """Abort the upload, since some storage systems cannot replace a part; returns the error."""
    storage.abort_parts(row.object_key, row.upload_id)
    row.delete()
    return DomainError("upload_damaged", status=409, files=file.name)


def _keep_found(file: File, row: PartedUpload) -> bool:
    """Record that the parts of `row` were joined; False if storage has no such object.

    Only `join_upload_parts` creates an object with this key, after it has verified every part.
    """
    head = storage.head(row.object_key)
    if head is None or head[0] != file.size_bytes:
        return False
    _keep(file, row, head[1])
    return True


@transaction.atomic
def _keep(file: File, row: PartedUpload, etag: str) -> None:
    """Record that the parts of `row` were joined, with the object's ETag."""
    PartedUpload.objects.filter(pk=row.pk).delete()
    if isinstance(file, TaskFile):
        mark_file_stored(file, md5=row.md5, etag=etag)
    else:
        file.md5, file.etag = row.md5, etag
        file.save(update_fields=["md5", "etag"])


def sweep_parts() -> None:
    """Run one round: abort multipart uploads whose file will not be completed."""
    task_waits = Q(task_file__task__state=TaskState.INITIATED)
    upload_waits = Q(opened_file__upload__state=ProfileUpload.State.INITIATED)
    # random order: the first storage error ends the round, and one bad upload must not block the
    # others every time
    abandoned = PartedUpload.objects.exclude(task_waits).exclude(upload_waits).order_by("?")
    for row in abandoned[:ABORT_LIMIT]:
        try:
            storage.abort_parts(row.object_key, row.upload_id)
        except DomainError:  # storage is unreachable
            log.warning("abort_failed", key=row.object_key)
            return
        row.delete()


def _begun(file: File) -> PartedUpload:
    upload_id = storage.begin_parts(file.object_key)
    owner = {"task_file" if isinstance(file, TaskFile) else "opened_file": file}
    row, is_new = PartedUpload.objects.get_or_create(
        object_key=file.object_key, defaults={"upload_id": upload_id, **owner}
    )
    if not is_new:  # a concurrent request has started the upload
        storage.abort_parts(file.object_key, upload_id)
    file.refresh_from_db(fields=["etag"])
    if file.etag:  # joined meanwhile: a second upload could replace the object
        storage.abort_parts(file.object_key, row.upload_id)
        row.delete()
        raise _unwanted_error(file)
    return row


def _row(file: File) -> PartedUpload | None:
    return PartedUpload.objects.filter(object_key=file.object_key).first()


def _check_md5s(file: File, md5s: Sequence[str]) -> None:
    if not all(_MD5.fullmatch(md5) for md5 in md5s):
        raise DomainError("checksum_bad", field="parts", name=file.name)


def _unwanted_error(file: File) -> DomainError:
    return DomainError("parts_unwanted", status=409, name=file.name)
