"""Large files on their way into storage in parts: when something breaks, little is sent again.

Which parts have arrived is for storage to say, nobody counts them beside it. Storage also forms
the MD5 of each and answers it to whoever sent it. The parts are joined only if their MD5s are
those that the sender names: what he was answered, or has summed himself where storage had a part
before he began. So parts of two files or of two senders are never mixed. On its way a part is
guarded by TLS and TCP alone, unless its sender asks that storage check an MD5 of his own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q

from agent.protocol.parts import md5_of_parts, part_sizes
from profiles.models import OpenedFile, PartedUpload, ProfileUpload
from tasks.models import TaskFile
from tasks.states import TaskState
from tasks.submission.creation import mark_file_stored
from webprofile.errors import DomainError
from webprofile.storage import PartsRefusedError, storage

log = structlog.get_logger()

#: addresses of one question: more than anybody sends at once
SIGNED_AT_ONCE = 64
#: addresses that are told with the parts, so that sending begins without a question: twice as many
#: as pages and clients send at once, which leaves them time to ask for more
SIGNED_AT_FIRST = 8
#: given up in one round of the sweep, since other rows wait meanwhile
ABORT_LIMIT = 50

_MD5 = re.compile(r"[0-9a-f]{32}")

File = TaskFile | OpenedFile


@dataclass(frozen=True)
class Parts:
    """What the sender of a file must know.

    upload: which try it is; what was sent in an earlier one is lost
    done: MD5s of the parts that have arrived, by number
    addresses: of the first that have not, as `part_targets` has them
    """

    upload: int
    part_bytes: int
    count: int
    done: Mapping[int, str]
    addresses: Sequence[Mapping[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """`done` with texts as keys, as JSON has them."""
        return {
            "upload": self.upload,
            "part_bytes": self.part_bytes,
            "count": self.count,
            "done": {str(number): md5 for number, md5 in self.done.items()},
            "addresses": list(self.addresses),
        }


def target_of(file: File) -> dict[str, Any] | None:
    """Where to PUT a file, or how far its parts are; None if storage has joined them already.

    Raises DomainError storage_unreachable, for a file in parts.
    """
    if not file.part_bytes:
        url, headers = storage.presign_put(
            file.object_key, size_bytes=file.size_bytes, md5=file.md5, is_browser=True
        )
        return {"name": file.name, "url": url, "headers": headers, "parts": None}
    parts = parts_of(file)
    if parts is None:
        return None
    return {"name": file.name, "url": "", "headers": {}, "parts": parts.as_json()}


def parts_of(file: File) -> Parts | None:
    """How far a file in parts is, None if it is whole.

    Begins its upload if there is none, or if storage has lost it. Raises DomainError
    storage_unreachable.
    """
    if file.etag:
        return None
    row = _row(file)
    found = storage.parts_stored(row.object_key, row.upload_id) if row else None
    if row is not None and found is None:
        if row.md5 and _keep_found(file, row):
            return None
        log.warning("parts_lost", key=row.object_key)
        row.delete()
        row = None
    sizes = part_sizes(file.size_bytes, file.part_bytes)
    done = {
        number: md5
        for number, (size_bytes, md5) in (found or {}).items()
        if number <= len(sizes) and size_bytes == sizes[number - 1]
    }
    row = row or _begun(file)
    missing = [number for number in range(1, len(sizes) + 1) if number not in done]
    first = _signed(row, sizes, [(number, None) for number in missing[:SIGNED_AT_FIRST]])
    return Parts(row.pk, file.part_bytes, len(sizes), done, first)


def part_targets(
    file: File, upload: int, asked: Sequence[tuple[int, str | None]]
) -> list[dict[str, Any]]:
    """Where to PUT parts, for (number, MD5 if storage is to check it); signing needs no network.

    Raises DomainError parts_bad for numbers that the file does not have, parts_restarted if
    `upload` is not the try that is under way, parts_unwanted, checksum_bad.
    """
    if not file.part_bytes or file.etag:
        raise _unwanted(file)
    _check_md5s(file, [md5 for _, md5 in asked if md5 is not None])
    sizes = part_sizes(file.size_bytes, file.part_bytes)
    if len(asked) > SIGNED_AT_ONCE or any(not 1 <= number <= len(sizes) for number, _ in asked):
        raise DomainError("parts_bad", field="parts", name=file.name, count=len(sizes))
    row = _row(file)
    if row is None or row.pk != upload:
        raise DomainError("parts_restarted", status=409, name=file.name)
    return _signed(row, sizes, asked)


def _signed(
    row: PartedUpload, sizes: Sequence[int], asked: Iterable[tuple[int, str | None]]
) -> list[dict[str, Any]]:
    targets = []
    for number, md5 in asked:
        url, headers = storage.presign_part(
            row.object_key, row.upload_id, number, size_bytes=sizes[number - 1], md5=md5
        )
        targets.append({"number": number, "url": url, "headers": headers})
    return targets


def join_upload_parts(file: File, md5s: Sequence[str]) -> None:
    """Make the file of its parts, to which the sender gives these MD5s. Repeating it is fine.

    Raises DomainError upload_missing if parts are not there; upload_damaged if they are not what
    he sent, or storage refuses to join what it has listed: then all of them are dropped;
    parts_unwanted, checksum_bad, storage_unreachable.
    """
    if not file.part_bytes:
        raise _unwanted(file)
    _check_md5s(file, md5s)
    if file.etag:
        if file.md5 != md5_of_parts(md5s):
            raise DomainError("upload_damaged", status=409, files=file.name)
        return
    row = _row(file)
    if row is None:
        raise DomainError("upload_missing", status=409, files=file.name)
    found = storage.parts_stored(row.object_key, row.upload_id)
    if found is not None:
        _check(file, row, found, md5s)
        row.md5 = md5_of_parts(md5s)
        # gone if another request joined them meanwhile: then the file says what it is
        if not PartedUpload.objects.filter(pk=row.pk).update(md5=row.md5):
            file.refresh_from_db()
            return join_upload_parts(file, md5s)
        if etag := _joined(file, row, md5s):
            # not looked at once more: some storage reads all of it to tell its sum
            return _keep(file, row, etag)
    if not row.md5 or not _keep_found(file, row):
        row.delete()
        raise DomainError("upload_missing", status=409, files=file.name)


def _joined(file: File, row: PartedUpload, md5s: Sequence[str]) -> str:
    """Have storage join the parts; returns the object's ETag, empty if storage has no such parts.

    Another request has joined them at the same time then, or gave them up. Raises DomainError.
    """
    try:
        return storage.join_upload_parts(row.object_key, row.upload_id, md5s)
    except PartsRefusedError as error:
        # rclone 1.75, now and then, where a part came a second time after a break
        raise _dropped(file, row) from error
    except DomainError as error:
        if error.code != "object_missing":
            raise
        return ""


def _check(
    file: File, row: PartedUpload, found: Mapping[int, tuple[int, str]], md5s: Sequence[str]
) -> None:
    """Whether storage has all parts as the sender names them. Raises DomainError."""
    sizes = part_sizes(file.size_bytes, file.part_bytes)
    if len(md5s) != len(sizes) or set(found) < set(range(1, len(sizes) + 1)):
        raise DomainError("upload_missing", status=409, files=file.name)
    wanted = dict(enumerate(zip(sizes, md5s, strict=True), start=1))
    if found != wanted:
        raise _dropped(file, row)


def _dropped(file: File, row: PartedUpload) -> DomainError:
    """Some storage cannot replace a part that it has: all of them must be sent again."""
    storage.parts_abort(row.object_key, row.upload_id)
    row.delete()
    return DomainError("upload_damaged", status=409, files=file.name)


def _keep_found(file: File, row: PartedUpload) -> bool:
    """Note that the parts of `row` were joined by somebody; False if storage has no such object.

    Only `join_upload_parts` ever makes an object of this key, after it has looked at every part.
    """
    found = storage.head(row.object_key)
    if found is None or found[0] != file.size_bytes:
        return False
    _keep(file, row, found[1])
    return True


@transaction.atomic
def _keep(file: File, row: PartedUpload, etag: str) -> None:
    """Note that the parts of `row` were joined, and what storage calls that."""
    PartedUpload.objects.filter(pk=row.pk).delete()
    if isinstance(file, TaskFile):
        mark_file_stored(file, md5=row.md5, etag=etag)
    else:
        file.md5, file.etag = row.md5, etag
        file.save(update_fields=["md5", "etag"])


def sweep_parts() -> None:
    """One round: what nobody will send to the end leaves storage."""
    task_waits = Q(task_file__task__state=TaskState.INITIATED)
    upload_waits = Q(opened_file__upload__state=ProfileUpload.State.INITIATED)
    # in any order: the first that storage refuses ends the round, and is not always the same
    unwanted = PartedUpload.objects.exclude(task_waits).exclude(upload_waits).order_by("?")
    for row in unwanted[:ABORT_LIMIT]:
        try:
            storage.parts_abort(row.object_key, row.upload_id)
        except DomainError:  # storage is away
            log.warning("abort_failed", key=row.object_key)
            return
        row.delete()


def _begun(file: File) -> PartedUpload:
    upload_id = storage.parts_begin(file.object_key)
    owner = {"task_file" if isinstance(file, TaskFile) else "opened_file": file}
    row, is_new = PartedUpload.objects.get_or_create(
        object_key=file.object_key, defaults={"upload_id": upload_id, **owner}
    )
    if not is_new:  # asked twice at once
        storage.parts_abort(file.object_key, upload_id)
    return row


def _row(file: File) -> PartedUpload | None:
    return PartedUpload.objects.filter(object_key=file.object_key).first()


def _check_md5s(file: File, md5s: Sequence[str]) -> None:
    if not all(_MD5.fullmatch(md5) for md5 in md5s):
        raise DomainError("checksum_bad", field="parts", name=file.name)


def _unwanted(file: File) -> DomainError:
    return DomainError("parts_unwanted", status=409, name=file.name)
