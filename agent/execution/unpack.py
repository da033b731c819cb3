"""Unpacking a zip file of a stranger's: all of it is judged before the first byte is written."""

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
#: programs and data shrink to a hundredth at best; beside this a small file may be all zeros
MOST_RATIO = 200
_RATIO_FROM_BYTES = 64 << 20
_MOST_DEPTH = 32
_MOST_NAME_BYTES = 255
_MOST_PATH_BYTES = 1000
#: zipfile reads the list of files at once, and makes 700 bytes of objects of each 46 at least
_MOST_READ_BYTES = 4 << 20
_BLOCK = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: what macOS adds to each file
_LITTER = "__MACOSX"
#: what zipfile raises for a file that is none, beside BadZipFile
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError,
    UnicodeError, ValueError, OverflowError,
)  # fmt: skip


class _ReadsLittle(io.FileIO):
    """A file of which no one can ask much at a time."""

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > _MOST_READ_BYTES:
            raise InputError("too_large", "the zip file's list of files is too long")
        return super().read(size)

    def seek(self, position: int, whence: int = 0, /) -> int:
        try:
            return super().seek(position, whence)
        except OSError as error:  # before its begin
            raise zipfile.BadZipFile("it names a place outside of itself") from error


def unpack(archive: Path, target: Path) -> list[str]:
    """Unpack into the empty folder `target`; return the paths of the files, sorted.

    Raises InputError, whose text names the archive and the file in it; OSError of the disk.
    """
    try:
        with _ReadsLittle(archive) as file, zipfile.ZipFile(file) as opened:
            entries = _judged(opened, archive)
            for info, path in entries:
                _write(opened, info, target / path)
    except InputError as error:
        raise InputError(error.code, f"{archive.name}: {error.text}") from None
    except _BROKEN as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError("format", f"{archive.name} cannot be unpacked: {words}") from error
    return sorted(str(path) for info, path in entries if not info.is_dir())


def _judged(opened: zipfile.ZipFile, archive: Path) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Return what is to be made, if all of it may be. Raises InputError."""
    infos = [info for info in opened.infolist() if info.filename.split("/")[0] != _LITTER]
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
            raise InputError("name", f"{_shown(info)} is in it twice")
        is_folder[path] = info.is_dir()
    for path in is_folder:
        if any(is_folder.get(parent) is False for parent in path.parents):
            raise InputError("name", f"{str(path)!r} lies below a file")
    return entries


def _path_of(info: zipfile.ZipInfo) -> PurePosixPath:
    """Where an entry goes. Raises InputError if that, or what it is, may not be."""
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    if not name.isprintable() or "\\" in name or not _is_utf8(name):
        raise InputError("name", f"{_shown(info)}: a name has characters that no file here may")
    if any(part in ("", ".", "..") for part in parts) or (len(parts[0]) == 2 and ":" in parts[0]):
        raise InputError("name", f"{_shown(info)} would lie outside the program's folder")
    longest = max(len(part.encode()) for part in parts)
    too_deep = len(parts) > _MOST_DEPTH or len(name.encode()) > _MOST_PATH_BYTES
    if too_deep or longest > _MOST_NAME_BYTES:
        raise InputError("name", f"{_shown(info)}: its path is too long or too deep")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InputError("format", f"{_shown(info)} is a link or a device, not a file")
    if info.flag_bits & 0x1:
        raise InputError("format", f"{_shown(info)} is encrypted: pack it without a password")
    if info.compress_type not in _METHODS:
        raise InputError("format", f"{_shown(info)} is packed in a way other than deflate")
    return PurePosixPath(*parts)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(info: zipfile.ZipInfo) -> str:
    return ascii(info.orig_filename[:100])


def _write(opened: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> None:
    """Make one file or folder; zipfile itself stops at the size that the list of files tells."""
    (path if info.is_dir() else path.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
    if info.is_dir():
        return
    with opened.open(info) as source, path.open("xb") as sink:
        while block := source.read(_BLOCK):
            sink.write(block)
    if sink_size := path.stat().st_size - info.file_size:
        raise InputError("format", f"{_shown(info)} is {abs(sink_size)} bytes off its size")
    path.chmod(0o700 if (info.external_attr >> 16) & stat.S_IXUSR else 0o600)
