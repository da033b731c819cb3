"""Services that change the state of imports (`ProfileUpload`); none of them accesses the network.

An import is initiated (files are being uploaded), then processing, then ready or failed; it can be
deleted from each of these states. Only `_move` writes the state, and the row count of its UPDATE
decides which of two concurrent callers wins. The rows are the outbox: the message that is sent
after a commit only shortens the wait, since `sweep_readings` finds the same rows.
"""

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from agent.protocol.multipart import part_bytes_of
from profiles.formats.detection import FileKind, kind_of, other_kind
from profiles.imports.progress import opened_changed_on_commit
from profiles.models import OpenedFile, Profile, ProfileUpload
from profiles.size_limits import announced_limit
from tasks.submission.files import MIB, check_file
from tasks.submission.request import FileRequest
from tasks.submission.uploads import StoredObject, check_uploads, save_confirmed
from webprofile.background import enqueue_on_commit
from webprofile.errors import DomainError
from webprofile.texts import without_unusable

log = structlog.get_logger()

State = ProfileUpload.State

#: files of one run; the plan *thorough* makes as many profiled passes
FILES_LIMIT = 20
NAME_LIMIT = 255
#: how long an actor's claim on an import lasts; longer than the actor's time limit
CLAIM = datetime.timedelta(seconds=330)
#: failures that are not the file's fault, so that a retry may succeed
RETRIED = ("timed_out", "broke", "storage_lost")
_LIVE = (State.INITIATED, State.PROCESSING, State.READY, State.FAILED)


@dataclass(frozen=True)
class FileToOpen:
    """A file to import; `head` holds as many of its first bytes as are known."""

    name: str
    size_bytes: int
    md5: str
    head: bytes = b""


def in_order_of_passes(names: Sequence[str]) -> list[int]:
    """Return the indices of `names` in the order of the passes.

    Names that differ only in numbers are passes and are sorted by these numbers: `profile.json`
    precedes `profile-2.json`. All other names keep their order, since the first file is shown.
    """

    def key(index: int) -> list[tuple[int, str]]:
        parts = re.split(r"(\d{1,18})", PurePath(names[index]).stem)
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    families: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        families.setdefault(_family(PurePath(name).stem), []).append(index)
    return [index for family in families.values() for index in sorted(family, key=key)]


def _family(stem: str) -> str:
    """The common part of the names of one run's passes: `p` for `p`, `p-2` and `p (3)`."""
    text = re.sub(r"\d+", "#", stem)
    # backwards, since each separator would begin another search forwards
    numbers = re.match(r"(?:\)?#[-_. (]*+)*+", text[::-1])
    return text[: len(text) - numbers.end()] if numbers else text


def initiated_check(upload: ProfileUpload) -> None:
    """Raise DomainError opened_gone unless the import still accepts files."""
    if upload.state != State.INITIATED:
        raise DomainError("opened_gone", status=409)


@transaction.atomic
def create_import(*, owner: User, files: Sequence[FileToOpen], name: str = "") -> ProfileUpload:
    """Create an import in state initiated, with its files in the given order.

    Raises DomainError if the files are not importable, or the owner's limits are exceeded.
    """
    _check_files(files)
    size_bytes = sum(file.size_bytes for file in files)
    _check_room(owner, size_bytes)
    upload = ProfileUpload.objects.create(
        owner=owner,
        name=_name(name) or _name(PurePath(files[0].name).stem) or files[0].name,
        size_bytes=size_bytes,
        deadline_at=_from_now(settings.UPLOAD_DEADLINE_S),
    )
    OpenedFile.objects.bulk_create(
        OpenedFile(
            upload=upload,
            number=number,
            kind=kind_of(file.head),
            name=file.name,
            size_bytes=file.size_bytes,
            md5=file.md5,
            part_bytes=0 if file.md5 else part_bytes_of(file.size_bytes),
        )
        for number, file in enumerate(files, start=1)
    )
    return upload


def _check_files(files: Sequence[FileToOpen]) -> None:
    if not files:
        raise DomainError("opened_none", field="files")
    if len(files) > FILES_LIMIT:
        raise DomainError("opened_many_files", field="files", limit=FILES_LIMIT)
    for file in files:
        limit = announced_limit(file.head)
        check_file(FileRequest("data", file.name, file.size_bytes, file.md5), "files", limit)
        if file.head and (kind := other_kind(file.head)):
            raise DomainError(f"opened_{kind}", field="files", name=file.name)
    _check_different([(file.name, file.md5) for file in files])


def _check_different(files: Sequence[tuple[str, str]]) -> None:
    """Raise DomainError opened_twice if two files have the same content.

    files: (name, MD5); the MD5 of a file that is uploaded in parts is still empty
    """
    sums = [md5 for _, md5 in files]
    for index, (name, md5) in enumerate(files):
        if md5 and (first := sums.index(md5)) != index:
            raise DomainError("opened_twice", field="files", name=name, other=files[first][0])


def _check_room(owner: User, size_bytes: int) -> None:
    kept = ProfileUpload.objects.filter(owner=owner, state__in=_LIVE)
    if kept.count() >= settings.OPENED_PROFILES_LIMIT:
        raise DomainError("opened_too_many", field="files", limit=settings.OPENED_PROFILES_LIMIT)
    used = kept.aggregate(total=Sum("size_bytes"))["total"] or 0
    if used + size_bytes > settings.OPENED_BYTES_LIMIT:
        raise DomainError(
            "opened_too_much", field="files", limit_mib=settings.OPENED_BYTES_LIMIT // MIB
        )


@transaction.atomic
def confirm_import(
    upload: ProfileUpload,
    stored: Mapping[int, StoredObject | None],
    files: Sequence[OpenedFile] | None = None,
) -> bool:
    """Queue the import for reading if its files are stored as announced. Idempotent.

    stored: the stored object of each file number, None if there is none
    files: its files with the keys of their confirmed objects, as `confirm_object` sets them
    Returns whether this call queued it.
    Raises DomainError upload_missing or upload_damaged with the names of the files, opened_gone if
    the import was deleted.
    """
    if upload.state == State.DELETED:
        raise DomainError("opened_gone", status=409)
    if upload.state != State.INITIATED:
        return False
    files = list(upload.files.all()) if files is None else files
    try:
        check_uploads([(file, stored.get(file.number)) for file in files])
    except DomainError:
        # as in `tasks.submission.uploads.submit_task`
        upload.refresh_from_db()
        if upload.state not in (State.INITIATED, State.DELETED):
            return False
        raise
    _check_different([(file.name, file.md5) for file in files])
    is_moved = _queue(upload, State.INITIATED)
    if is_moved:
        save_confirmed(files)
    return is_moved


@transaction.atomic
def retry_import(upload: ProfileUpload) -> None:
    """Queue a failed import again if the files did not cause the failure."""
    if upload.problem in RETRIED:
        _queue(upload, State.FAILED)


def _queue(upload: ProfileUpload, source: State) -> bool:
    moved = _move(
        upload,
        State.PROCESSING,
        [source],
        problem="",
        problem_detail="",
        deadline_at=None,  # it counts from the start of the reading
        hinted_at=timezone.now(),
        claimed_until=None,
    )
    if moved:
        enqueue_on_commit("build_opened", upload.pk, queue="profiles")
    return moved


@transaction.atomic
def claim_import(upload: ProfileUpload) -> bool:
    """Claim the import for reading; returns whether the caller got the claim.

    The first claim sets the deadline of the reading.
    """
    deadline = Coalesce("deadline_at", Value(_from_now(settings.PROCESSING_DEADLINE_S)))
    waiting = waiting_imports().filter(pk=upload.pk)
    return bool(waiting.update(claimed_until=timezone.now() + CLAIM, deadline_at=deadline))


def waiting_imports() -> QuerySet[ProfileUpload]:
    """The imports that wait to be read; those whose reading was interrupted come first."""
    free = Q(claimed_until=None) | Q(claimed_until__lt=timezone.now())
    waiting = ProfileUpload.objects.filter(free, state=State.PROCESSING)
    return waiting.order_by(F("deadline_at").asc(nulls_last=True), "pk")


def set_file_kind(file: OpenedFile, kind: FileKind) -> None:
    """Save the detected kind of a file, which may differ from the announced one."""
    if file.kind != kind:
        OpenedFile.objects.filter(pk=file.pk).update(kind=kind)


@transaction.atomic
def release_import(upload: ProfileUpload) -> None:
    """Release the claim after a temporary failure, so that another actor can read the import."""
    ProfileUpload.objects.filter(pk=upload.pk).update(claimed_until=None)


@transaction.atomic
def finish_import(upload: ProfileUpload, profile: Profile) -> bool:
    """Save the profile and mark the import ready; returns whether this call changed the state."""
    if not _move(upload, State.READY, [State.PROCESSING], deadline_at=None):
        return False
    profile.upload = upload
    profile.save()
    return True


@transaction.atomic
def fail_import(upload: ProfileUpload, problem: str, detail: str = "") -> bool:
    """Mark an import failed; its files are kept. Returns whether this call changed the state."""
    return _move(
        upload,
        State.FAILED,
        [State.PROCESSING],
        problem=problem,
        problem_detail=detail[:500],
        deadline_at=None,
    )


@transaction.atomic
def delete_import(upload: ProfileUpload, *, by: User | None = None) -> None:
    """Mark an import deleted and delete its profile row; the sweep removes the files later.

    Deletion therefore works while storage is unreachable.
    by: the acting user, None for the site; deleting another user's import is recorded in the
        audit log
    """
    if _move(upload, State.DELETED, _LIVE, deadline_at=None):
        if by is not None and by.pk != upload.owner_id:
            before = {"name": upload.name, "owner": upload.owner.email}
            record_audit_entry("profile.delete", upload, by=by, before=before)
        Profile.objects.filter(upload=upload).delete()


@transaction.atomic
def forget_import(upload: ProfileUpload) -> None:
    """Record that the objects of a deleted import were removed from storage.

    The first call keeps the row until presigned URLs have expired and running actors have ended,
    since both may still write objects. The second call deletes the row.
    """
    deleted = ProfileUpload.objects.filter(pk=upload.pk, state=State.DELETED)
    files, _ = OpenedFile.objects.filter(upload=upload).delete()
    if files:
        pause_s = 2 * settings.PRESIGN_EXPIRY_S  # a PUT may start just before expiry and take long
        deleted.update(deadline_at=_from_now(max(pause_s, CLAIM.total_seconds())))
    else:
        deleted.delete()


@transaction.atomic
def rename_import(upload: ProfileUpload, name: str) -> None:
    """Rename an import. Raises DomainError opened_name for a name without printable characters."""
    clean = _name(name)
    if not clean:
        raise DomainError("opened_name", field="name", limit=NAME_LIMIT)
    ProfileUpload.objects.filter(pk=upload.pk).update(name=clean)
    upload.name = clean


def _name(text: str) -> str:
    return without_unusable(text).strip()[:NAME_LIMIT]


def _move(upload: ProfileUpload, to: State, sources: Iterable[State], **changes: Any) -> bool:
    """Change the state if it is one of `sources`; of two concurrent callers only one succeeds."""
    rows = ProfileUpload.objects.filter(pk=upload.pk, state__in=list(sources))
    moved = rows.update(state=to, **changes)
    if moved:  # otherwise the row may not even exist
        upload.refresh_from_db()
        opened_changed_on_commit(upload.pk)
        log.info("upload_moved", upload=upload.pk, state=str(to), problem=upload.problem)
    return bool(moved)


def _from_now(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
