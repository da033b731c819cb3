"""Check the names of an attempt's input files, and collect its artifacts."""

import logging
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.execution.spool import Folder
from agent.execution.watchdog import amount
from agent.link.log_tail import LogTail
from agent.protocol.artifacts import LOG_NAME, PROFILE_NAME, TOTAL_LIMIT_BYTES, limit_of
from agent.protocol.input_rules import can_be_given
from agent.protocol.messages import LOG_END_CHARACTERS, Start
from agent.protocol.notes import Note
from agent.protocol.options import OPTIONS, artifact_of

log = logging.getLogger(__name__)


class ResultError(Exception):
    """A required artifact is missing (`missing` is True) or too large."""

    def __init__(self, note: Note, *, missing: bool) -> None:
        self.note, self.missing = note, missing
        super().__init__(str(note))


def check_files(order: Start) -> None:
    """Reject names that clash or that no runtime accepts. Raises ValueError.

    `agent.inputs` checks the names of variables for the kind of the runtime: a compiled
    load_and_run splits `--input` at `;` and each part at its first `:`, so that a name with one of
    them could refer to a file of the device.
    """
    names = [PROFILE_NAME, order.model.name, *(file.name for file in order.data)]
    if len(set(names)) != len(names):
        raise ValueError("two files have the same name")
    fed = [file.input for file in order.data if file.input]
    fed += [entry.name for entry in order.inputs]
    if len(set(fed)) != len(fed):
        raise ValueError("an input is given twice")
    for name in fed:
        if not can_be_given(name, "wheel"):
            raise ValueError(f"input {name!r} cannot be given to load_and_run")
    for file in order.data:
        if file.option and file.name != OPTIONS[file.option].file:
            raise ValueError(f"the file of option {file.option} has the wrong name")


def make_folders(folder: Folder, arguments: Iterable[str]) -> None:
    """Create the folders in these arguments: a compiled load_and_run aborts if they are missing."""
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        option = OPTIONS.get(name)
        if option is not None and option.file == f"{value}/":
            (folder.work / value).mkdir(exist_ok=True)


def keep_log(folder: Folder, tail: LogTail) -> None:
    """Delete the raw output, and write `log.txt` as it was sent to the server.

    In this order, because the output may have filled the disk. A write error is logged, and no
    partial file is left behind: a result without its log is better than none.
    """
    folder.output.unlink(missing_ok=True)
    path = folder.result / LOG_NAME
    try:
        path.write_text(tail.text(), encoding="utf-8", newline="")
    except OSError as exc:
        log.warning("log_not_written cause=%r", exc.strerror)
        path.unlink(missing_ok=True)


def end_of_log(folder: Folder) -> str:
    """Return the end of the log that fits into a frame. Call it after `keep_log`."""
    try:
        text = (folder.result / LOG_NAME).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""  # the disk was full
    return text[-LOG_END_CHARACTERS:]


def keep_profile(folder: Folder, source: str, name: str) -> bool:
    """Move the profile `source` to the results; return False if it is missing, empty or too large.

    Links are rejected, since they would let the process upload any file of the device.
    """
    path = folder.work / source
    size = size_of_plain_file(path)
    if not size or size > (limit_of(name) or 0):
        return False
    path.rename(folder.result / name)
    return True


def keep_artifacts(folder: Folder, options: Iterable[str]) -> None:
    """Move the artifacts of these options to the results, folders as zip files.

    Raises ResultError; artifacts that were moved before stay there.
    """
    total = sum(path.stat().st_size for path in folder.result.iterdir())
    for option in options:
        source = folder.work / OPTIONS[option].file.removesuffix("/")
        target = folder.result / artifact_of(option)
        if OPTIONS[option].file.endswith("/"):
            _pack(option, source, target)
        else:
            _move(option, source, target)
        total += target.stat().st_size
        if total > TOTAL_LIMIT_BYTES:
            target.unlink()
            note = Note.of("artifacts_limit", limit=amount(TOTAL_LIMIT_BYTES))
            raise ResultError(note, missing=False)


def _move(option: str, source: Path, target: Path) -> None:
    size = size_of_plain_file(source)
    if not size:
        raise ResultError(Note.of("option_no_file", option=option), missing=True)
    _check_size(option, size, target.name)
    source.rename(target)


def _pack(option: str, source: Path, target: Path) -> None:
    """Zip the plain files of a folder, with their names only. Folders are packed without links."""
    files = list(plain_files(source))
    if not files:
        raise ResultError(Note.of("option_no_file", option=option), missing=True)
    _check_size(option, sum(path.stat().st_size for path in files), target.name)
    # not in the result folder, whose files are all uploaded, and not in the process's folder, where
    # a link of this name would make the agent write to another file
    packed = target.parent.with_name(f"{target.name}.partial")
    # level 1: dumps of random weights hardly shrink, those of activations do by half; boards
    # without a clock live in 1970, which zip does not know
    with zipfile.ZipFile(
        packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False
    ) as archive:
        for path in files:
            archive.write(path, path.name)
    packed.rename(target)


def _check_size(option: str, size: int, name: str) -> None:
    limit = limit_of(name) or 0
    if size > limit:
        sizes = {"size": amount(size), "limit": amount(limit)}
        raise ResultError(Note.of("option_file_limit", option=option, **sizes), missing=False)


def plain_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files in a folder, sorted by name; none if it is a link or missing."""
    try:
        names = sorted(os.listdir(folder)) if not folder.is_symlink() else []
    except OSError:
        return
    for name in names:
        if size_of_plain_file(folder / name) is not None:
            yield folder / name


def size_of_plain_file(path: Path) -> int | None:
    """Return the size of a regular file with a single hard link, None for anything else."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
        return None
    return state.st_size
