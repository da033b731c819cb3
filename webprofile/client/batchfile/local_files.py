"""Names, sizes and checksums of local files that a task needs."""

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from webprofile.client.batchfile import BatchError

_PIECE_BYTES = 1 << 20
#: most programs in a message
_NAMED = 8


def size_of(paths: Iterable[Path]) -> int:
    """Return the total size of files in bytes; missing files are reported by `look_at`."""
    total = 0
    for path in paths:
        with suppress(OSError):
            total += path.stat().st_size
    return total


@dataclass(frozen=True)
class LocalFile:
    """Size and hexadecimal MD5 of a local file; the MD5 is empty if the file was not read."""

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
    """Return size and MD5 of each file; each is read once.

    advance: called with the number of bytes of each chunk
    unread_from_bytes: files of at least this size are not read, and their MD5 is empty

    Raises BatchError with all files that cannot be read.
    """
    files, mistakes = {}, []
    for path in dict.fromkeys(paths):
        try:
            files[path] = _look(path, advance, unread_from_bytes)
        except OSError as error:
            mistakes.append((str(path), error.strerror or str(error)))
    if mistakes:
        raise BatchError(mistakes)
    return files


def _look(path: Path, advance: Callable[[int], object], unread_from: int | None) -> LocalFile:
    # MD5 detects corrupted uploads, and every S3 server supports it
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
    """Return what is wrong with the entry point of a zip archive, empty if nothing is.

    The client checks it before the upload, since the site can read an archive only afterwards.
    Archives that Python cannot read are left to the site.
    """
    if path.suffix.lower() != ".zip":
        return ""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return ""  # the site reports an invalid archive
    if entry in names:
        return ""
    programs = [name for name in names if name.endswith(".py")]
    names_text = ", ".join(programs[:_NAMED]) + (", …" if len(programs) > _NAMED else "") or "–"
    if entry is None:
        return f"Choose the program in “{path.name}” to start. Programs in it: {names_text}."
    return f"The archive “{path.name}” has no “{entry}”. Programs in it: {names_text}."
