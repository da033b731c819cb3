"""Store the files of imported profiles: from a browser, a local disk, or an attempt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from django.db.models import Max

from accounts.models import User
from agent.protocol.artifacts import TRACE_NAMES, profile_number
from profiles.formats.detection import HEAD_BYTES, FileKind, kind_of, other_kind, read_head
from profiles.imports.uploads import (
    FileToOpen,
    confirm_import,
    create_import,
    delete_import,
    in_order_of_passes,
)
from profiles.models import OpenedFile, Profile, ProfileUpload
from profiles.parts import upload_target_of
from profiles.retention.deletion import refuse_removed
from tasks.models import Artifact, Attempt, Task
from tasks.states import TaskState
from tasks.submission.uploads import confirm_object, copy_object, discarding
from webprofile.client.batchfile.local_files import LocalFile, look_at
from webprofile.errors import DomainError
from webprofile.storage import storage

Source = TypeVar("Source")


def upload_targets(upload: ProfileUpload) -> list[dict[str, Any]]:
    """Upload targets of the files that are not complete in storage, in the order of the files.

    Raises the errors of `upload_target_of`.
    """
    return [
        {"file": row.number, **target}
        for row in upload.files.all()
        if (target := upload_target_of(row))
    ]


def submit_import(upload: ProfileUpload, files: Sequence[OpenedFile] | None = None) -> None:
    """Queue the import for reading if storage holds all files as announced. Idempotent.

    files: its files, with the keys of objects that were copied already
    Raises the errors of `confirm_import`, and DomainError storage_unreachable.
    """
    files = list(upload.files.all()) if files is None else files
    with discarding(files) as is_saved:
        is_open = upload.state == ProfileUpload.State.INITIATED
        stored = {row.number: confirm_object(row) for row in files} if is_open else {}
        is_saved[0] = confirm_import(upload, stored, files)


def _store_and_submit(
    upload: ProfileUpload,
    sources: Iterable[Source],
    put: Callable[[OpenedFile, Source], object],
) -> ProfileUpload:
    """Store the files of an upload and queue it for reading; on failure, delete the upload."""
    try:
        files = list(upload.files.all())
        for row, source in zip(files, sources, strict=True):
            put(row, source)
        submit_import(upload, files)
    except BaseException:  # including Ctrl-C and a server shutdown
        delete_import(upload)
        raise
    return upload


@dataclass(frozen=True)
class FolderContents:
    """The profiles in folders.

    profiles: the files of each profile, in the order of the passes
    left_out: files of unsupported formats, each with its error
    """

    profiles: list[tuple[Path, ...]]
    left_out: list[tuple[Path, DomainError]]


def profiles_below(paths: Sequence[Path], *, folder_is_one: bool) -> FolderContents:
    """Find the profiles in these files and folders by the files' content.

    A file in `paths` is a profile of its own. Folders are searched recursively, and each supported
    file becomes a profile, except that a graph.json belongs to the StaticMemoryInfo.json in the
    same folder. With `folder_is_one`, all files of one folder are one profile. Raises OSError.
    """
    contents = FolderContents([], [])
    for path in paths:
        if not path.is_dir():
            contents.profiles.append((path,))
            continue
        folders: dict[Path, list[Path]] = {}
        for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
            folders.setdefault(file.parent, []).append(file)
        for files in folders.values():
            _add_folder(contents, files, is_one=folder_is_one)
    return contents


def _add_folder(contents: FolderContents, files: Sequence[Path], *, is_one: bool) -> None:
    kinds: dict[Path, FileKind] = {}
    for file in files:
        head = read_head(file)
        if other := other_kind(head):
            contents.left_out.append((file, DomainError(f"opened_{other}", name=file.name)))
        else:
            kinds[file] = kind_of(head)
    openable = list(kinds)
    if is_one:
        order = in_order_of_passes([file.name for file in openable])
        contents.profiles.extend([tuple(openable[index] for index in order)] if order else [])
        return
    plans = [file for file in openable if kinds[file] == "static_memory"]
    graphs = [file for file in openable if kinds[file] == "graph"]
    is_pair = len(plans) == len(graphs) == 1
    for file in openable:
        if file in graphs and not is_pair:
            error = DomainError("opened_graph_alone", name=file.name)
            contents.left_out.append((file, error))
        elif file not in graphs:
            contents.profiles.append((file, *graphs) if is_pair and file in plans else (file,))


@dataclass(frozen=True)
class ImportResult:
    """An import; `is_new` is False if the owner had imported the same files before."""

    upload: ProfileUpload
    is_new: bool


def import_profile(owner: User, files: Sequence[Path], *, again: bool = False) -> ImportResult:
    """Store the passes of one profile and queue it for reading.

    Returns the existing import of the same files if the owner has one.
    again: store the files even then
    Raises DomainError or BatchError for files that cannot be imported; nothing is stored then.
    """
    local_files = look_at(files)
    checksums = [(local_files[path].md5, local_files[path].size_bytes) for path in files]
    existing = None if again else opened_before(owner, checksums)
    return ImportResult(existing or _stored(owner, files, local_files), existing is None)


def opened_before(owner: User, checksums: Sequence[tuple[str, int]]) -> ProfileUpload | None:
    """The owner's import of exactly these files, given as (MD5, bytes) in their order."""
    kept = (ProfileUpload.State.PROCESSING, ProfileUpload.State.READY)
    first = OpenedFile.objects.filter(number=1, md5=checksums[0][0], upload__owner=owner)
    for row in first.filter(upload__state__in=kept).select_related("upload"):
        if list(row.upload.files.values_list("md5", "size_bytes")) == list(checksums):
            return row.upload
    return None


def _stored(
    owner: User, files: Sequence[Path], local_files: Mapping[Path, LocalFile]
) -> ProfileUpload:
    described = [
        FileToOpen(path.name, local_files[path].size_bytes, local_files[path].md5, read_head(path))
        for path in files
    ]
    return _store_and_submit(create_import(owner=owner, files=described), files, _put)


def _put(row: OpenedFile, path: Path) -> None:
    with path.open("rb") as file:
        storage.write_from(row.upload_key, file)


def is_recorded(name: str) -> bool:
    """Whether an artifact of this name can be imported as a profile."""
    return profile_number(name) is not None or name in TRACE_NAMES


def attempts_to_open(task: Task) -> set[int]:
    """Numbers of the task's attempts that ended without a result and stored importable files.

    While a task is being processed, its last attempt is excluded: its files are being read and may
    become the result.
    """
    artifacts = Artifact.objects.filter(attempt__task=task, is_stored=True)
    ended = artifacts.exclude(attempt__ended_at=None).exclude(attempt__profile__isnull=False)
    numbers = {
        number for number, name in ended.values_list("attempt__number", "name") if is_recorded(name)
    }
    if task.state == TaskState.PROCESSING:
        numbers.discard(task.attempts.aggregate(last=Max("number"))["last"])
    return numbers


def import_attempt(attempt: Attempt, *, owner: User) -> ImportResult:
    """Import the recorded files of an attempt as one run, by copying them inside storage.

    The import counts towards the limits of `owner`; the same files are not imported twice. A file
    that cannot be part of a run, such as an empty one, is left out if there are others.
    Raises DomainError attempt_has_result, attempt_recorded_nothing, removed_by_rule,
    object_missing, storage_unreachable, and the errors of `create_import`.
    """
    recorded = _recorded_artifacts(attempt)
    described = [_file_to_open(artifact) for artifact in recorded]
    usable = [index for index, file in enumerate(described) if other_kind(file.head) is None]
    if usable:
        recorded = [recorded[index] for index in usable]
        described = [described[index] for index in usable]
    if existing := opened_before(owner, [(file.md5, file.size_bytes) for file in described]):
        return ImportResult(existing, is_new=False)
    task = attempt.task
    name = f"{task.title or task.model_name} #{task.pk}-{attempt.number}"
    upload = create_import(owner=owner, files=described, name=name)
    return ImportResult(_store_and_submit(upload, recorded, _copy), is_new=True)


def _recorded_artifacts(attempt: Attempt) -> list[Artifact]:
    """The attempt's importable artifacts: passes by number, then trace and memory flow.

    Raises DomainError attempt_has_result, removed_by_rule, attempt_recorded_nothing.
    """
    if Profile.objects.filter(attempt=attempt).exists():
        raise DomainError("attempt_has_result", status=409, task=attempt.task_id)
    known = [artifact for artifact in attempt.artifacts.all() if is_recorded(artifact.name)]
    stored = [artifact for artifact in known if artifact.is_stored]
    if not stored:
        for artifact in known:
            refuse_removed(artifact)
    if not stored or attempt.number not in attempts_to_open(attempt.task):
        raise DomainError("attempt_recorded_nothing", status=409, number=attempt.number)
    return sorted(stored, key=lambda row: (profile_number(row.name) or 1_000, row.name))


def _file_to_open(artifact: Artifact) -> FileToOpen:
    head = b""
    if artifact.size_bytes:
        head = storage.read_start(artifact.object_key, size_bytes=HEAD_BYTES)
    return FileToOpen(artifact.name, artifact.size_bytes, artifact.md5, head)


def _copy(row: OpenedFile, source: Artifact) -> None:
    copy_object(source.object_key, row)
