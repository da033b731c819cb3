"""How the files of opened profiles come into storage: from a browser, a disk, or an attempt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from accounts.models import User
from agent.protocol.artifacts import TRACE_NAMES, profile_number
from profiles.formats.detection import HEAD_BYTES, FileKind, kind_of, other_kind
from profiles.imports.uploads import (
    FileToOpen,
    confirm_import,
    create_import,
    delete_import,
    in_order_of_passes,
)
from profiles.models import OpenedFile, Profile, ProfileUpload
from profiles.parts import target_of
from profiles.retention.deletion import refuse_removed
from tasks.models import Artifact, Attempt, Task
from tasks.submission.submit import StoredObject
from tasks.submission.uploads import what_is_stored
from webprofile.client.batchfile.local_files import LocalFile, look_at
from webprofile.errors import DomainError
from webprofile.storage import storage

Source = TypeVar("Source")


def upload_targets(upload: ProfileUpload) -> list[dict[str, Any]]:
    """Where to PUT the files that are not whole, in their order.

    Raises DomainError as `target_of`.
    """
    return [
        {"file": row.number, **target} for row in upload.files.all() if (target := target_of(row))
    ]


def submit_import(upload: ProfileUpload) -> None:
    """Have the files read if storage holds all of them as they were announced.

    Raises DomainError as `confirm_import`, and storage_unreachable.
    """
    confirm_import(upload, {row.number: what_is_stored(row) for row in upload.files.all()})


def _filled(
    upload: ProfileUpload,
    sources: Iterable[Source],
    put: Callable[[OpenedFile, Source], StoredObject | None],
) -> ProfileUpload:
    """Store the files of an upload and have them read. If that fails, nothing is left of it."""
    try:
        pairs = zip(upload.files.all(), sources, strict=True)
        confirm_import(upload, {row.number: put(row, source) for row, source in pairs})
    except BaseException:  # also Ctrl-C, or of a server that stops
        delete_import(upload)
        raise
    return upload


@dataclass(frozen=True)
class Below:
    """What folders hold.

    profiles: the files of each, in the order of their passes
    left_out: files that do not open, and why
    """

    profiles: list[tuple[Path, ...]]
    left_out: list[tuple[Path, DomainError]]


def profiles_below(paths: Sequence[Path], *, folder_is_one: bool) -> Below:
    """The profiles in these files and folders, told by what the files hold.

    A file is a profile of its own. A folder stands for all files that open, those below it
    included: each a profile, but for a graph.json, which belongs to the StaticMemoryInfo.json
    beside it; or with `folder_is_one` those of one folder together. Raises OSError.
    """
    found = Below([], [])
    for path in paths:
        if not path.is_dir():
            found.profiles.append((path,))
            continue
        folders: dict[Path, list[Path]] = {}
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            folders.setdefault(file.parent, []).append(file)
        for files in folders.values():
            _add_folder(found, files, is_one=folder_is_one)
    return found


def _add_folder(found: Below, files: Sequence[Path], *, is_one: bool) -> None:
    kinds: dict[Path, FileKind] = {}
    for file in files:
        with file.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
        if other := other_kind(head):
            found.left_out.append((file, DomainError(f"opened_{other}", name=file.name)))
        else:
            kinds[file] = kind_of(head)
    openable = list(kinds)
    if is_one:
        order = in_order_of_passes([file.name for file in openable])
        found.profiles.extend([tuple(openable[place] for place in order)] if order else [])
        return
    plans = [file for file in openable if kinds[file] == "static_memory"]
    graphs = [file for file in openable if kinds[file] == "graph"]
    is_pair = len(plans) == len(graphs) == 1
    for file in openable:
        if file in graphs and not is_pair:
            error = DomainError("opened_graph_alone", name=file.name)
            found.left_out.append((file, error))
        elif file not in graphs:
            found.profiles.append((file, *graphs) if is_pair and file in plans else (file,))


@dataclass(frozen=True)
class Imported:
    """is_new: whether it was stored now; otherwise its owner had opened the same files before."""

    upload: ProfileUpload
    is_new: bool


def import_profile(owner: User, files: Sequence[Path], *, again: bool = False) -> Imported:
    """Store the passes of one profile and have them read; the same files not twice.

    again: store them also if they are there
    Raises DomainError and BatchError for files that cannot be one; nothing is left then.
    """
    looked = look_at(files)
    wanted = [(looked[path].md5, looked[path].size_bytes) for path in files]
    found = None if again else opened_before(owner, wanted)
    return Imported(found or _stored(owner, files, looked), found is None)


def opened_before(owner: User, wanted: Sequence[tuple[str, int]]) -> ProfileUpload | None:
    """The owner's profile of these very files; wanted: (MD5, bytes) of each, in their order."""
    kept = (ProfileUpload.State.PROCESSING, ProfileUpload.State.READY)
    first = OpenedFile.objects.filter(number=1, md5=wanted[0][0], upload__owner=owner)
    for row in first.filter(upload__state__in=kept).select_related("upload"):
        if list(row.upload.files.values_list("md5", "size_bytes")) == list(wanted):
            return row.upload
    return None


def _stored(owner: User, files: Sequence[Path], looked: Mapping[Path, LocalFile]) -> ProfileUpload:
    described = []
    for path in files:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        found = looked[path]
        described.append(FileToOpen(path.name, found.size_bytes, found.md5, head))
    return _filled(create_import(owner=owner, files=described), files, _put)


def _put(row: OpenedFile, path: Path) -> StoredObject | None:
    with path.open("rb") as file:
        storage.write_from(row.object_key, file)
    return what_is_stored(row)


def is_recorded(name: str) -> bool:
    """Whether an artifact of this name is one that a profile can be made of."""
    return profile_number(name) is not None or name in TRACE_NAMES


def attempts_to_open(task: Task) -> set[int]:
    """Numbers of the task's attempts that ended without a result and left what can be opened.

    While the last one's files are still being read it may become the result, and is none of them.
    """
    names = Artifact.objects.filter(attempt__task=task, is_stored=True)
    ended = names.exclude(attempt__ended_at=None).exclude(attempt__profile__isnull=False)
    found = {
        number for number, name in ended.values_list("attempt__number", "name") if is_recorded(name)
    }
    return found - ({max(found)} if found and task.is_live else set())


def import_attempt(attempt: Attempt, *, owner: User) -> Imported:
    """Copy the recorded files of an attempt inside storage and have them read as one run.

    They count to what `owner` keeps opened, and the same files are not opened twice. A file that
    is surely none of a run, as an empty one, is left out if there is another.
    Raises DomainError attempt_has_result, attempt_recorded_nothing, removed_by_rule,
    object_missing, storage_unreachable, and as `create_import`.
    """
    recorded = _recorded(attempt)
    described = [_described(each) for each in recorded]
    usable = [place for place, file in enumerate(described) if other_kind(file.head) is None]
    if usable:
        recorded = [recorded[place] for place in usable]
        described = [described[place] for place in usable]
    if found := opened_before(owner, [(file.md5, file.size_bytes) for file in described]):
        return Imported(found, is_new=False)
    upload = create_import(owner=owner, files=described, name=_name_of(attempt))
    return Imported(_filled(upload, recorded, _copied), is_new=True)


def _recorded(attempt: Attempt) -> list[Artifact]:
    """Passes by their numbers, then the trace and the memory. Raises DomainError."""
    if Profile.objects.filter(attempt=attempt).exists():
        raise DomainError("attempt_has_result", status=409, task=attempt.task_id)
    known = [each for each in attempt.artifacts.all() if is_recorded(each.name)]
    stored = [each for each in known if each.is_stored]
    if not stored:
        for each in known:
            refuse_removed(each)
    if not stored or attempt.number not in attempts_to_open(attempt.task):
        raise DomainError("attempt_recorded_nothing", status=409, number=attempt.number)
    return sorted(stored, key=_place)


def _place(artifact: Artifact) -> tuple[int, str]:
    return (profile_number(artifact.name) or 1_000, artifact.name)


def _described(artifact: Artifact) -> FileToOpen:
    head = b""
    if artifact.size_bytes:
        head = storage.read_start(artifact.object_key, size_bytes=HEAD_BYTES)
    return FileToOpen(artifact.name, artifact.size_bytes, artifact.md5, head)


def _name_of(attempt: Attempt) -> str:
    task = attempt.task
    return f"{task.title or task.model_name} #{task.pk}-{attempt.number}"


def _copied(row: OpenedFile, source: Artifact) -> StoredObject:
    return StoredObject(*storage.copy(source.object_key, row.object_key))
