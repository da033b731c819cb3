"""Unpack an untrusted zip file: all entries are checked before the first one is written."""

import io
import os
import stat
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from agent.execution.watchdog import amount
from agent.protocol.inputs import InputError, InputErrorCode

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
            raise InputError.of("too_large", "zip_directory", archive=Path(str(self.name)).name)
        return super().read(size)

    def seek(self, position: int, whence: int = 0, /) -> int:
        try:
            return super().seek(position, whence)
        except OSError as error:  # a position before the start of the file
            raise zipfile.BadZipFile("it refers to a position outside of the file") from error


def unpack(archive: Path, target: Path) -> list[str]:
    """Unpack into the empty folder `target`; return the paths of the files, sorted.

    Raises InputError, which contains the names of the archive and the file in it, and OSError.
    """
    try:
        with _LimitedFile(archive) as file, zipfile.ZipFile(file) as zip_file:
            entries = _checked_entries(zip_file, archive)
            for info, path in entries:
                _write(zip_file, info, archive, target / path)
    except InputError:  # a ValueError
        raise
    except _BROKEN as error:
        message = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError.of("format", "zip_failed", archive=archive.name, cause=message) from error
    return sorted(str(path) for info, path in entries if not info.is_dir())


def _checked_entries(
    zip_file: zipfile.ZipFile, archive: Path
) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Check all entries; return them with their paths. Raises InputError."""
    infos = [info for info in zip_file.infolist() if info.filename.split("/")[0] != _IGNORED]
    if len(infos) > MOST_FILES:
        counts = {"count": len(infos), "limit": MOST_FILES}
        raise InputError.of("too_large", "zip_files", archive=archive.name, **counts)
    total, packed = sum(info.file_size for info in infos), archive.stat().st_size
    if total > MOST_BYTES:
        sizes = {"size": amount(total), "limit": amount(MOST_BYTES)}
        raise InputError.of("too_large", "zip_size", archive=archive.name, **sizes)
    if total > _RATIO_FROM_BYTES and total > MOST_RATIO * packed:
        ratios = {"ratio": total // max(packed, 1), "limit": MOST_RATIO}
        raise InputError.of("too_large", "zip_ratio", archive=archive.name, **ratios)
    entries = [(info, _path_of(info, archive)) for info in infos]
    is_folder: dict[PurePosixPath, bool] = {}
    for info, path in entries:
        if path in is_folder and not (is_folder[path] and info.is_dir()):
            raise _refusal("name", "zip_twice", archive, info)
        is_folder[path] = info.is_dir()
    for path in is_folder:
        if any(is_folder.get(parent) is False for parent in path.parents):
            raise InputError.of(
                "name", "zip_below_file", archive=archive.name, name=ascii(str(path)[:100])
            )
    return entries


def _path_of(info: zipfile.ZipInfo, archive: Path) -> PurePosixPath:
    """Return the relative path of an entry. Raises InputError if path or type are not allowed."""
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    if not name.isprintable() or "\\" in name:
        raise _refusal("name", "zip_characters", archive, info)
    if any(part in ("", ".", "..") for part in parts) or (len(parts[0]) == 2 and ":" in parts[0]):
        raise _refusal("name", "zip_outside", archive, info)
    longest = max(len(part.encode()) for part in parts)
    too_deep = len(parts) > _MOST_DEPTH or len(name.encode()) > _MOST_PATH_BYTES
    if too_deep or longest > _MOST_NAME_BYTES:
        raise _refusal("name", "zip_path", archive, info)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refusal("format", "zip_link", archive, info)
    if info.flag_bits & 0x1:
        raise _refusal("format", "zip_encrypted", archive, info)
    if info.compress_type not in _METHODS:
        raise _refusal("format", "zip_method", archive, info)
    return PurePosixPath(*parts)


def _refusal(
    code: InputErrorCode, rule: str, archive: Path, info: zipfile.ZipInfo, **data: int
) -> InputError:
    name = ascii(info.orig_filename[:100])
    return InputError.of(code, rule, archive=archive.name, name=name, **data)


def _write(zip_file: zipfile.ZipFile, info: zipfile.ZipInfo, archive: Path, path: Path) -> None:
    """Create one file or folder; zipfile itself stops at the size in the zip's directory."""
    (path if info.is_dir() else path.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
    if info.is_dir():
        return
    with zip_file.open(info) as source, path.open("xb") as sink:
        while block := source.read(_BLOCK):
            sink.write(block)
    if difference := path.stat().st_size - info.file_size:
        raise _refusal("format", "zip_length", archive, info, count=abs(difference))
    path.chmod(0o700 if (info.external_attr >> 16) & stat.S_IXUSR else 0o600)
