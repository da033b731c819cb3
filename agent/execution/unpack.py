"""Unpack an untrusted zip file: all entries are checked before the first one is written."""

import io
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from agent.protocol.inputs import InputError

MOST_FILES = 10_000
MOST_BYTES = 1 << 30
#: largest ratio of unpacked to packed size; real programs and data reach 100 at most
MOST_RATIO = 200
#: smaller totals have no limit of the ratio
_RATIO_FROM_BYTES = 64 << 20
_MOST_DEPTH = 32
_MOST_NAME_BYTES = 255
_MOST_PATH_BYTES = 1000
#: limit for the zip's directory, which zipfile reads at once: an entry of 46 bytes takes 700 bytes
#: of memory
_MOST_READ_BYTES = 4 << 20
_BLOCK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: folder that macOS adds to zip files
_IGNORED = "__MACOSX"
#: exceptions of zipfile for a damaged file
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError,
    UnicodeError, ValueError, OverflowError,
)  # fmt: skip


class _LimitedFile(io.FileIO):
    """A file that rejects large reads."""

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > _MOST_READ_BYTES:
            raise InputError("too_large", "the zip file's list of files is too long")
        return super().read(size)

    def seek(self, position: int, whence: int = 0, /) -> int:
        try:
            return super().seek(position, whence)
        except OSError as error:  # a position before the begin of the file
            raise zipfile.BadZipFile("it names a place outside of itself") from error


def unpack(archive: Path, target: Path) -> list[str]:
    """Unpack into the empty folder `target`; return the paths of the files, sorted.

    Raises InputError, whose text names the archive and the file in it, and OSError.
    """
    try:
        with _LimitedFile(archive) as file, zipfile.ZipFile(file) as zip_file:
            entries = _checked_entries(zip_file, archive)
            for info, path in entries:
                _write(zip_file, info, target / path)
    except InputError as error:
        raise InputError(error.code, f"{archive.name}: {error.text}") from None
    except _BROKEN as error:
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError("format", f"{archive.name} cannot be unpacked: {message}") from error
    return sorted(str(path) for info, path in entries if not info.is_dir())


def _checked_entries(
    zip_file: zipfile.ZipFile, archive: Path
) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Check all entries; return them with their paths. Raises InputError."""
    infos = [info for info in zip_file.infolist() if info.filename.split("/")[0] != _IGNORED]
    if len(infos) > MOST_FILES:
        text = f"it holds {len(infos)} files, at most {MOST_FILES} are unpacked"
        raise InputError("too_large", text)
    total, packed = sum(info.file_size for info in infos), archive.stat().st_size
    if total > MOST_BYTES:
        text = f"its files are {total >> 20} MiB, at most {MOST_BYTES >> 20} MiB are unpacked"
        raise InputError("too_large", text)
    if total > _RATIO_FROM_BYTES and total > MOST_RATIO * packed:
        text = f"its files are {total // max(packed, 1)} times as large as it is"
        raise InputError("too_large", f"{text}, at most {MOST_RATIO} times are unpacked")
    entries = [(info, _path_of(info)) for info in infos]
    is_folder: dict[PurePosixPath, bool] = {}
    for info, path in entries:
        if path in is_folder and not (is_folder[path] and info.is_dir()):
            raise InputError("name", f"{_name(info)} is in it twice")
        is_folder[path] = info.is_dir()
    for path in is_folder:
        if any(is_folder.get(parent) is False for parent in path.parents):
            raise InputError("name", f"{str(path)!r} lies below a file")
    return entries


def _path_of(info: zipfile.ZipInfo) -> PurePosixPath:
    """Return the relative path of an entry. Raises InputError if path or type are not allowed."""
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    if not name.isprintable() or "\\" in name:
        raise InputError("name", f"{_name(info)}: a name has characters that no file here may")
    if any(part in ("", ".", "..") for part in parts) or (len(parts[0]) == 2 and ":" in parts[0]):
        raise InputError("name", f"{_name(info)} would lie outside the program's folder")
    longest = max(len(part.encode()) for part in parts)
    too_deep = len(parts) > _MOST_DEPTH or len(name.encode()) > _MOST_PATH_BYTES
    if too_deep or longest > _MOST_NAME_BYTES:
        raise InputError("name", f"{_name(info)}: its path is too long or too deep")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InputError("format", f"{_name(info)} is a link or a device, not a file")
    if info.flag_bits & 0x1:
        raise InputError("format", f"{_name(info)} is encrypted: pack it without a password")
    if info.compress_type not in _METHODS:
        raise InputError("format", f"{_name(info)} is packed in a way other than deflate")
    return PurePosixPath(*parts)


def _name(info: zipfile.ZipInfo) -> str:
    return ascii(info.orig_filename[:100])


def _write(zip_file: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> None:
    """Create one file or folder; zipfile itself stops at the size in the zip's directory."""
    (path if info.is_dir() else path.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
    if info.is_dir():
        return
    with zip_file.open(info) as source, path.open("xb") as sink:
        while block := source.read(_BLOCK):
            sink.write(block)
    if difference := path.stat().st_size - info.file_size:
        raise InputError("format", f"{_name(info)} is {abs(difference)} bytes off its size")
    path.chmod(0o700 if (info.external_attr >> 16) & stat.S_IXUSR else 0o600)
