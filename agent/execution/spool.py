"""The spool: state of attempts on disk, one folder per attempt, deleted after the last ack.

It survives restarts of the agent.

    <spool>/lock
    <spool>/attempts/<uuid>/record.json   the Record below, replaced atomically
                            output        the raw output of the process
                            work/         model, data, profile; the process's own folder
                            before/       profiles of passes that are run again
                            given/        for a script: its downloaded files, copied for each run
                            result/       files to upload: log.txt, profile.json
    <spool>/canary.json                  readings of the canary, see `agent.device.canary`
    <spool>/tuning.json                  former settings of the kernel, see `agent.tune`
    <spool>/warm/<uuid>/                  folder of a pre-started process; renamed to the folder of
                                          the attempt that uses the process

Presigned URLs are not stored, because an attempt that was interrupted by a restart is never run
again.
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

from pydantic import ValidationError

from agent.protocol.messages import AttemptFinished, Frozen

log = logging.getLogger(__name__)


class SpoolBusy(RuntimeError):
    """Another agent uses this spool."""


class ProcessMark(Frozen):
    """Identity of a process that distinguishes it from a later one with the same pid.

    `ticks` is its start time in clock ticks since boot, `boot` the kernel's boot id.
    """

    pid: int
    ticks: int
    boot: str


class Record(Frozen):
    """Progress of an attempt. `uploaded` is true once `ended` lists the uploaded files.

    `mark` is the value of ATTEMPT_VARIABLE in its processes, if that is not the attempt's id.
    """

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
        self.script_files = path / "given"
        self.output = path / "output"

    def write(self, *, durable: bool = True, **changes: object) -> None:
        """Replace the record atomically. `durable` calls fsync, which is needed before an ack.

        Data that only matters until the machine stops (a pid) needs no fsync: a rename survives the
        end of the agent process.
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
            sync_folder(self.path)

    def remove_work(self) -> None:
        """Delete model, data and all files of the process."""
        remove_tree(self.work)
        remove_tree(self.script_files)

    def remove(self) -> None:
        """Delete the attempt, its record first, so that the rest is removed at the next start."""
        (self.path / "record.json").unlink(missing_ok=True)
        remove_tree(self.path)


class Spool:
    """All attempts whose end the server has not acknowledged. Holds a lock until `close`."""

    def __init__(self, root: Path) -> None:
        """Raises SpoolBusy, OSError."""
        self.root = root
        self._attempts, self._warm = root / "attempts", root / "warm"
        for folder in (self._attempts, self._warm):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock_spool(root)

    def close(self) -> None:
        self._lock.close()

    def make_folder(self, attempt: UUID) -> Folder:
        """Create an attempt's empty folders; the attempt is only stored by `open_attempt`."""
        path = self._attempts / str(attempt)
        remove_tree(path)
        return _make_folder(path, attempt)

    def make_warm_folder(self, mark: UUID) -> Folder:
        """Create the folder of a pre-started process."""
        return _make_folder(self._warm / str(mark), mark)

    def adopt_folder(self, warm: Folder, attempt: UUID) -> Folder:
        """Turn the folder of a pre-started process into the folder of an attempt."""
        path = self._attempts / str(attempt)
        remove_tree(path)
        warm.path.rename(path)
        return Folder(path, Record(attempt=attempt))

    def warm_folders(self) -> Iterator[Path]:
        """Yield the folders of an earlier agent's pre-started processes, named by their mark."""
        yield from self._warm.iterdir()

    def open_attempt(self, folder: Folder) -> None:
        """Store the attempt durably: it survives a power cut after this returns."""
        folder.write()
        sync_folder(self._attempts)

    def folders(self) -> Iterator[Folder]:
        """Yield the attempts of an earlier agent; delete folders without a readable record."""
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
    for directory in (path, folder.work, folder.result):
        directory.mkdir(mode=0o700)
    return folder


def lock_spool(root: Path) -> IO[bytes]:
    """Lock a spool against other agents until the file is closed. Raises SpoolBusy, OSError."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (root / "lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        file.close()
        raise SpoolBusy(f"another agent uses the spool {root}: stop it first") from exc
    return file


def sync_folder(path: Path) -> None:
    """Sync a folder, which makes new and renamed entries durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Delete a folder, even one whose permissions the process removed; log it if that fails."""
    if not path.exists():
        return
    # rmtree is recursive in Python before 3.13
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # locked, or deeper than the recursion limit or PATH_MAX
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], check=False, capture_output=True)
    if path.exists():
        log.warning("folder_not_removed folder=%s", path.name)
