"""Everything that changes a profile which a user opened. No function here talks to a network.

A row goes from initiated (files on their way) over processing to ready or failed, and to deleted
from each of them. `_move` alone writes the state: the row count of its UPDATE decides who won.
The rows are the outbox, as those of tasks are: what is queued after a commit only shortens the
wait, `profiles.imports.sweep` finds the same rows.
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
from django.db.models import Q, Sum
from django.utils import timezone

from accounts.audit import record_audit_entry
from accounts.models import User
from agent.protocol.parts import part_bytes_of
from profiles.formats.detection import FileKind, kind_of, other_kind
from profiles.imports.wakeups import opened_changed_on_commit
from profiles.models import OpenedFile, Profile, ProfileUpload
from profiles.size_limits import announced_limit
from tasks.submission.files import MIB, check_file
from tasks.submission.request import FileRequest
from tasks.submission.submit import StoredObject
from webprofile.background import enqueue_on_commit
from webprofile.errors import DomainError

log = structlog.get_logger()

State = ProfileUpload.State

#: of one run; *thorough* makes as many profiled passes
FILES_LIMIT = 20
NAME_LIMIT = 255
#: one actor may read so long; an actor has less time than this
CLAIM = datetime.timedelta(seconds=330)
#: failures that were not the file's fault: reading it once more may help; the last one is of an
#: earlier version, which did not open such files
RETRIED = ("timed_out", "broke", "storage_lost", "trace_without_operators")
_LIVE = (State.INITIATED, State.PROCESSING, State.READY, State.FAILED)
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True)
class FileToOpen:
    """A file that is to be opened; `head` are its first bytes, as many as are known."""

    name: str
    size_bytes: int
    md5: str
    head: bytes = b""


def in_order_of_passes(names: Sequence[str]) -> list[int]:
    """Return the places of `names` in the order of their passes.

    Names that differ in numbers alone are passes, in the order of these: `profile.json` comes
    before `profile-2.json`. All else stays as it was chosen, since the first is what is shown.
    """

    def key(place: int) -> list[tuple[int, str]]:
        parts = re.split(r"(\d{1,18})", PurePath(names[place]).stem)
        return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]

    families: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        families.setdefault(_family(PurePath(name).stem), []).append(place)
    return [place for family in families.values() for place in sorted(family, key=key)]


def _family(stem: str) -> str:
    """What the names of one run's passes have in common: `p` of `p`, `p-2` and `p (3)`."""
    return re.sub(r"([-_. (]*#\)?)+$", "", re.sub(r"\d+", "#", stem))


def initiated_check(upload: ProfileUpload) -> None:
    """Raises DomainError opened_gone for one whose files are on their way no more."""
    if upload.state != State.INITIATED:
        raise DomainError("opened_gone", status=409)


@transaction.atomic
def create_import(*, owner: User, files: Sequence[FileToOpen], name: str = "") -> ProfileUpload:
    """Register a profile in state initiated; its passes are in the order given.

    Raises DomainError if these files cannot be one, or the owner keeps too many.
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
    """files: (name, MD5); one in parts has no MD5 yet. Raises DomainError opened_twice."""
    sums = [md5 for _, md5 in files]
    for place, (name, md5) in enumerate(files):
        if md5 and (first := sums.index(md5)) != place:
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
def confirm_import(upload: ProfileUpload, stored: Mapping[int, StoredObject | None]) -> None:
    """Have the files read, if they are what was announced. Repeating it changes nothing.

    `stored` maps numbers of files to what storage holds (None: nothing). Raises DomainError
    upload_missing or upload_damaged, naming the files; opened_gone if it was deleted.
    """
    if upload.state == State.DELETED:
        raise DomainError("opened_gone", status=409)
    files = list(upload.files.all())
    missing = [file.name for file in files if stored.get(file.number) is None]
    if missing:
        raise DomainError("upload_missing", status=409, files=", ".join(missing))
    damaged = [
        file.name
        for file in files
        if stored[file.number] != StoredObject(file.size_bytes, file.stored_md5)
    ]
    if damaged:
        raise DomainError("upload_damaged", status=409, files=", ".join(damaged))
    _check_different([(file.name, file.md5) for file in files])
    _queue(upload, State.INITIATED)


@transaction.atomic
def retry_import(upload: ProfileUpload) -> None:
    """Read the files once more after a failure that was not theirs."""
    if upload.problem in RETRIED:
        _queue(upload, State.FAILED)


def _queue(upload: ProfileUpload, source: State) -> None:
    moved = _move(
        upload,
        State.PROCESSING,
        [source],
        problem="",
        problem_detail="",
        deadline_at=_from_now(settings.PROCESSING_DEADLINE_S),
        hinted_at=timezone.now(),
        claimed_until=None,
    )
    if moved:
        enqueue_on_commit("build_opened", upload.pk, queue="profiles")


@transaction.atomic
def claim_import(upload: ProfileUpload) -> bool:
    """Whether the caller is the one who reads this upload now."""
    now = timezone.now()
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    processing = ProfileUpload.objects.filter(free, pk=upload.pk, state=State.PROCESSING)
    return bool(processing.update(claimed_until=now + CLAIM))


def set_file_kind(file: OpenedFile, kind: FileKind) -> None:
    """Note of which kind a file turned out to be, which its sender may not have told."""
    if file.kind != kind:
        OpenedFile.objects.filter(pk=file.pk).update(kind=kind)


@transaction.atomic
def release_import(upload: ProfileUpload) -> None:
    """Let another one read it: the caller could not, for a cause that may pass."""
    ProfileUpload.objects.filter(pk=upload.pk).update(claimed_until=None)


@transaction.atomic
def finish_import(upload: ProfileUpload, profile: Profile) -> bool:
    """Keep the profile of an upload. Returns whether it was this call that moved it."""
    if not _move(upload, State.READY, [State.PROCESSING], deadline_at=None):
        return False
    profile.upload = upload
    profile.save()
    return True


@transaction.atomic
def fail_import(upload: ProfileUpload, problem: str, detail: str = "") -> bool:
    """End an upload that cannot become a profile; its files stay."""
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
    """Take a profile and what was made of it from everybody's sight; the sweep removes the files.

    So a storage that is away keeps nobody from deleting.
    by: who asks for it, None for the site itself; deleting another one's is noted in the audit log
    """
    if _move(upload, State.DELETED, _LIVE, deadline_at=None):
        if by is not None and by.pk != upload.owner_id:
            before = {"name": upload.name, "owner": upload.owner.email}
            record_audit_entry("profile.delete", upload, by=by, before=before)
        Profile.objects.filter(upload=upload).delete()


@transaction.atomic
def forget_import(upload: ProfileUpload) -> None:
    """Note that nothing of a deleted profile is in storage any more.

    The row stays until nobody can write there: until then a presigned address may bring a file
    back, and an actor that began before may end. The second time the row goes.
    """
    deleted = ProfileUpload.objects.filter(pk=upload.pk, state=State.DELETED)
    files, _ = OpenedFile.objects.filter(upload=upload).delete()
    if files:
        pause_s = 2 * settings.PRESIGN_EXPIRY_S  # the last PUT may begin at the end, and take long
        deleted.update(deadline_at=_from_now(max(pause_s, CLAIM.total_seconds())))
    else:
        deleted.delete()


@transaction.atomic
def rename_import(upload: ProfileUpload, name: str) -> None:
    """Raises DomainError opened_name for a name without a character to be seen."""
    clean = _name(name)
    if not clean:
        raise DomainError("opened_name", field="name", limit=NAME_LIMIT)
    ProfileUpload.objects.filter(pk=upload.pk).update(name=clean)
    upload.name = clean


def _name(text: str) -> str:
    return _UNWRITABLE.sub(" ", text).strip()[:NAME_LIMIT]


def _move(upload: ProfileUpload, to: State, sources: Iterable[State], **changes: Any) -> bool:
    """Move an upload if it is in one of `sources`. Of two racing callers one wins."""
    found = ProfileUpload.objects.filter(pk=upload.pk, state__in=list(sources))
    moved = found.update(state=to, **changes)
    if moved:  # otherwise even the row may be gone
        upload.refresh_from_db()
        opened_changed_on_commit(upload.pk)
        log.info("upload_moved", upload=upload.pk, state=str(to), problem=upload.problem)
    return bool(moved)


def _from_now(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
