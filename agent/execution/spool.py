"""What must survive a restart of the agent: one folder per attempt, deleted after the last ack.

    <spool>/lock
    <spool>/attempts/<uuid>/record.json   the Record below, replaced atomically
                            output        what the process printed, as it came
                            work/         model, data, profile; the process's own folder
                            given/        of a script: its files as they came, for each run anew
                            result/       what is uploaded: log.txt, profile.json
    <spool>/warm/<uuid>/                  folder of a process that waits for an attempt; it becomes
                                          the attempt's by a rename

No presigned URL is written: an attempt that a restart interrupted is never run again.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from uuid import UUID

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.protocol import AttemptFinished

log = logging.getLogger(__name__)


class SpoolBusy(RuntimeError):
    """Another agent uses this spool."""


class ProcessMark(BaseModel):
    """A process, named so that it is not mistaken for a later one with the same pid.

    `ticks` is its start in clock ticks since boot, `boot` the kernel's id of that boot.
    """

    model_config = ConfigDict(frozen=True)

    pid: int
    ticks: int
    boot: str


class Record(BaseModel):
    """How far an attempt came. `uploaded` is true once `ended` names its files.

    `mark`: what its processes carry in their environment, if that is not the attempt's id.
    """

    model_config = ConfigDict(frozen=True)

    attempt: UUID
    process: ProcessMark | None = None
    mark: UUID | None = None
    task: int | None = None
    ended: AttemptFinished | None = None
    uploaded: bool = False


class Folder:
    """One attempt's folder. Not thread-safe: one caller at a time."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path, self.record = path, record
        self.work, self.result = path / "work", path / "result"
        self.given = path / "given"
        self.output = path / "output"

    def write(self, *, durable: bool = True, **changes: object) -> None:
        """Replace the record. `durable` waits for the disk: needed before we speak of it.

        What only matters while the machine stays up (a process's pid) need not wait: a rename alone
        survives the death of the agent.
        """
        self.record = self.record.model_copy(update=changes)
        new = self.path / "record.new"
        with new.open("w", encoding="utf-8") as file:
            file.write(self.record.model_dump_json())
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.replace(self.path / "record.json")
        if durable:
            _sync_folder(self.path)

    def remove_work(self) -> None:
        """Delete model, data and whatever the process left."""
        remove_tree(self.work)
        remove_tree(self.given)

    def remove(self) -> None:
        """Forget the attempt. The record goes first: without it the rest is litter."""
        (self.path / "record.json").unlink(missing_ok=True)
        remove_tree(self.path)


class Spool:
    """All attempts that the server has not seen the end of. Holds a lock until `close`."""

    def __init__(self, root: Path) -> None:
        """Raises SpoolBusy, OSError."""
        self._attempts, self._warm = root / "attempts", root / "warm"
        for folder in (self._attempts, self._warm):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock_spool(root)

    def close(self) -> None:
        self._lock.close()

    def make_folder(self, attempt: UUID) -> Folder:
        """Make an attempt's empty folders; nothing counts before `open_attempt`."""
        path = self._attempts / str(attempt)
        remove_tree(path)
        return _make_folder(path, attempt)

    def make_warm_folder(self, mark: UUID) -> Folder:
        """Make the folder of a process whose attempt is not known yet."""
        return _make_folder(self._warm / str(mark), mark)

    def adopt_folder(self, warm: Folder, attempt: UUID) -> Folder:
        """Do as `make_folder`, with a folder that a process works in already."""
        path = self._attempts / str(attempt)
        remove_tree(path)
        warm.path.rename(path)
        return Folder(path, Record(attempt=attempt))

    def warm_folders(self) -> Iterator[Path]:
        """Yield what an earlier agent left; each is named by its process's mark."""
        yield from self._warm.iterdir()

    def open_attempt(self, folder: Folder) -> None:
        """Put the attempt on disk: when this returns it survives a power cut."""
        folder.write()
        _sync_folder(self._attempts)

    def folders(self) -> Iterator[Folder]:
        """Yield what an earlier agent left; folders without a readable record are deleted."""
        for path in sorted(self._attempts.iterdir()):
            try:
                text = (path / "record.json").read_text(encoding="utf-8")
                record = Record.model_validate_json(text)
            except (OSError, ValidationError):
                log.warning("spool_litter_removed folder=%s", path.name)
                remove_tree(path)
            else:
                yield Folder(path, record)


def _make_folder(path: Path, name: UUID) -> Folder:
    folder = Folder(path, Record(attempt=name))
    for made in (path, folder.work, folder.result):
        made.mkdir(mode=0o700)
    return folder


def lock_spool(root: Path) -> IO[bytes]:
    """Keep every agent away from a spool until the file is closed. Raises SpoolBusy, OSError."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (root / "lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        file.close()
        raise SpoolBusy(f"another agent uses the spool {root}: stop it first") from exc
    return file


def _sync_folder(path: Path) -> None:
    """A new or renamed entry is on disk only when its folder is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Delete a folder even if the process took its own rights away; what stays is logged."""
    if not path.exists():
        return
    # Python before 3.13 goes down by calling itself
    with contextlib.suppress(RecursionError):
        _remove(path)
    if path.exists():  # deeper than Python may go, or than a path may be long
        subprocess.run(["rm", "-rf", "--", str(path)], check=False, capture_output=True)
    if path.exists():
        log.warning("folder_not_removed folder=%s", path.name)


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for parent, names, _ in os.walk(path):
        for name in names:
            inner = os.path.join(parent, name)
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)
