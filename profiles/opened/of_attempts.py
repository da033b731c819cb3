"""What an attempt recorded without becoming a result, opened as if its files had been uploaded."""

from collections.abc import Iterable

from accounts.models import User
from agent.protocol.artifacts import TRACE_NAMES, profile_number
from profiles.models import Profile, ProfileUpload
from profiles.opened.importing import Imported, opened_before
from profiles.opened.uploads import FileToOpen, upload_confirm, upload_create, upload_delete
from profiles.parsers.first_look import HEAD_BYTES, other_kind
from profiles.removal import refuse_removed
from tasks.models import Artifact, Attempt, Task
from tasks.submitting import StoredObject
from webprofile.errors import DomainError
from webprofile.storage import storage


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


def attempt_open(attempt: Attempt, *, owner: User) -> Imported:
    """Copy the recorded files of an attempt inside storage and have them read as one run.

    They count to what `owner` keeps opened, and the same files are not opened twice. A file that
    is surely none of a run, as an empty one, is left out if there is another.
    Raises DomainError attempt_has_result, attempt_recorded_nothing, removed_by_rule,
    object_missing, storage_unreachable, and as `upload_create`.
    """
    recorded = _recorded(attempt)
    described = [_described(each) for each in recorded]
    usable = [place for place, file in enumerate(described) if other_kind(file.head) is None]
    if usable:
        recorded = [recorded[place] for place in usable]
        described = [described[place] for place in usable]
    if found := opened_before(owner, [(file.md5, file.size_bytes) for file in described]):
        return Imported(found, is_new=False)
    upload = upload_create(owner=owner, files=described, name=_name_of(attempt))
    _copied(upload, recorded)
    return Imported(upload, is_new=True)


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


def _copied(upload: ProfileUpload, sources: Iterable[Artifact]) -> None:
    """Raises DomainError; nothing is left of the upload then."""
    stored: dict[int, StoredObject | None] = {}
    try:
        for row, source in zip(upload.files.all(), sources, strict=True):
            stored[row.number] = StoredObject(*storage.copy(source.object_key, row.object_key))
        upload_confirm(upload, stored)
    except BaseException:  # also of a server that stops
        upload_delete(upload)
        raise
