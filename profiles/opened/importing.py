"""Profiles on this machine's disk, opened for a user as the page opens them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accounts.models import User
from profiles.models import OpenedFile, ProfileUpload
from profiles.opened.uploads import (
    FileToOpen,
    in_order_of_passes,
    upload_confirm,
    upload_create,
    upload_delete,
)
from profiles.parsers.first_look import HEAD_BYTES, FileKind, kind_of, other_kind
from tasks.submitting import StoredObject
from webprofile.batchfile.local_files import LocalFile, look_at
from webprofile.errors import DomainError
from webprofile.storage import storage


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


def profile_import(owner: User, files: Sequence[Path], *, again: bool = False) -> Imported:
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
    upload = upload_create(owner=owner, files=described)
    stored: dict[int, StoredObject | None] = {}
    try:
        for row, path in zip(upload.files.all(), files, strict=True):
            with path.open("rb") as file:
                storage.write_from(row.object_key, file)
            head_of = storage.head(row.object_key)
            stored[row.number] = StoredObject(*head_of) if head_of else None
        upload_confirm(upload, stored)
    except BaseException:  # Ctrl-C too
        upload_delete(upload)
        raise
    return upload
