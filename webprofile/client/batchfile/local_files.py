"""Files on this machine's disk, as a site wants to hear of them."""

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from webprofile.client.batchfile.mistakes import BatchError

_PIECE_BYTES = 1 << 20
#: programs that a sentence names
_NAMED = 8


def size_of(paths: Iterable[Path]) -> int:
    """Of all files together, in bytes; one that went away meanwhile is for `look_at` to tell."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += path.stat().st_size
    return total


@dataclass(frozen=True)
class LocalFile:
    """A file as it was when it was looked at; `md5` is hexadecimal, empty if it was not read."""

    path: Path
    size_bytes: int
    md5: str

    @property
    def name(self) -> str:
        return self.path.name


def look_at(
    paths: Iterable[Path],
    advance: Callable[[int], object] = lambda size_bytes: None,
    *,
    unread_from_bytes: int | None = None,
) -> dict[Path, LocalFile]:
    """Size and MD5 of each file, which is read once; `advance` hears of each piece's bytes.

    unread_from_bytes: larger ones are not read, their MD5 stays empty
    Raises BatchError for files that cannot be read.
    """
    found, mistakes = {}, []
    for path in dict.fromkeys(paths):
        try:
            found[path] = _look(path, advance, unread_from_bytes)
        except OSError as error:
            mistakes.append((str(path), error.strerror or str(error)))
    if mistakes:
        raise BatchError(mistakes)
    return found


def _look(path: Path, advance: Callable[[int], object], unread_from: int | None) -> LocalFile:
    # MD5 guards an upload against accidents: it is what every S3 server knows
    md5, size_bytes = hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        whole_bytes = os.fstat(file.fileno()).st_size
        if unread_from is not None and whole_bytes >= unread_from:
            advance(whole_bytes)
            return LocalFile(path, whole_bytes, "")
        while piece := file.read(_PIECE_BYTES):
            md5.update(piece)
            size_bytes += len(piece)
            advance(len(piece))
    return LocalFile(path, size_bytes, md5.hexdigest())


def entry_mistake(path: Path, entry: str | None) -> str:
    """What is wrong with the entry point of a zip; empty if nothing is, or only a device can tell.

    Told before anything is sent: a site learns what is in an archive when all of it has arrived.
    """
    if path.suffix.lower() != ".zip":
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return ""  # the site has words for a zip that is none
    if entry in names:
        return ""
    programs = [name for name in names if name.endswith(".py")]
    shown = ", ".join(programs[:_NAMED]) + (", …" if len(programs) > _NAMED else "")
    if entry is None:
        return f"Name the program within “{path.name}” to start. Programs in it: {shown or '–'}."
    return f"The archive “{path.name}” has no “{entry}”. Programs in it: {shown or '–'}."
