"""Read tensor dumps of `load_and_run --bin_io_dump`: a folder or zip, one file per variable.

A file consists of u32 name_len, u32 dtype, u32 7, u32 shape[7] (0-padded), the name and the raw
numbers, all little-endian (`mgb::debug::dump_tensor`). A zip is never extracted to disk and its
metadata is not trusted: entries are counted, and each is read only up to its declared size.
"""

import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from profiles.formats.errors import CodedError

MOST_FILES = 20_000
MOST_BYTES = 8 << 30
MOST_NAME_BYTES = 64 * 1024
MOST_AXES = 7
#: deflate compresses by at most about 1000; sparse tensors come near it, so the total size is
#: limited as well
MOST_RATIO = 1100

# ValueError: a negative offset. RuntimeError, including NotImplementedError: a compression that
# zipfile does not support. struct.error: a truncated header
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
_HEADER = struct.Struct("<III")
#: limit of a zip's central directory, which zipfile reads as a whole; an entry of a dump has about
#: 100 bytes
_MOST_LIST_BYTES = MOST_FILES * 128
_FILE_NAME = re.compile(r"[0-9a-f]{1,16}")
_TYPE = re.compile(r"\w+(?:::\w+)*")
_SLOT = re.compile(r"\d{1,6}")
_LONGEST_TYPE = 600

_BFLOAT16 = "BFloat16"
#: dtype code (`megdnn::DTypeEnum`) -> its name and the numpy dtype of its numbers
_DTYPES: dict[int, tuple[str, str]] = {
    0: ("Float32", "<f4"),
    1: ("Uint8", "u1"),
    2: ("Int8", "i1"),
    3: ("Int16", "<i2"),
    4: ("Int32", "<i4"),
    8: ("Byte", "u1"),
    9: ("Float16", "<f2"),
    11: (_BFLOAT16, "<u2"),
    100000: ("Quantized8Asymm", "u1"),
    100001: ("QuantizedS32", "<i4"),
    100002: ("QuantizedS8", "i1"),
    100005: ("QuantizedS16", "<i2"),
}


class DumpError(CodedError[str]):
    """A dump that cannot be read."""


@dataclass(frozen=True)
class TensorHeader:
    """The header of one variable's file. `id` is the variable's id, from the file name.

    name: the variable's name, or MegEngine's whole description if it cannot be parsed
    owner, type: name and type of the operator that computes the variable
    numbers: number of elements; numpy: their dtype in the file (sub-byte types are read as raw
        bytes)
    is_raw: the dtype is unknown, so that the numbers are bit patterns
    """

    file: str
    id: int
    name: str
    slot: int
    owner: str
    type: str
    dtype: str
    shape: tuple[int, ...]
    numpy: np.dtype[Any]
    numbers: int
    offset: int
    is_raw: bool = False


@dataclass
class Dump:
    """The files of a dump: sizes in bytes by name; `open` opens one as a stream."""

    sizes: dict[str, int]
    open: Callable[[str], IO[bytes]] = field(repr=False)

    def headers(self) -> dict[str, TensorHeader]:
        """The header of each file, by its name. Raises DumpError."""
        headers = {}
        for file, size in sorted(self.sizes.items()):
            with self._reading(file), self.open(file) as stream:
                headers[file] = read_header(file, stream, size)
        return headers

    def blocks(self, header: TensorHeader, count: int) -> Iterator[NDArray[Any]]:
        """Yield the numbers of a tensor, flattened, in blocks of `count`. Raises DumpError."""
        with self._reading(header.file), self.open(header.file) as stream:
            _skip(stream, header.offset)
            left = header.numbers
            while left:
                size_bytes = min(count, left) * header.numpy.itemsize
                data = _read_exactly(stream, size_bytes, header.file)
                block = np.frombuffer(data, dtype=header.numpy)
                yield _float32(block) if header.dtype == _BFLOAT16 else block
                left -= min(count, left)

    @contextmanager
    def _reading(self, file: str) -> Iterator[None]:
        try:
            yield
        except DumpError:
            raise
        except _UNREADABLE as error:
            raise DumpError("damaged", f"`{file}` of the dump is damaged: {error}.") from error


def open_folder(folder: Path) -> Dump:
    """Open a dump folder of load_and_run. Raises DumpError."""
    try:
        entries = [entry for entry in os.scandir(folder) if _FILE_NAME.fullmatch(entry.name)]
    except OSError as error:
        raise DumpError("unreadable", f"`{folder}` cannot be read: {error.strerror}.") from error
    # symbolic links are skipped: they could point to any file of this machine
    sizes = {}
    for entry in entries:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            sizes[entry.name] = status.st_size
    _check_sizes(sizes)
    return Dump(sizes, lambda name: (folder / name).open("rb"))


def open_zip(file: IO[bytes], *, most_bytes: int = MOST_BYTES) -> Dump:
    """Open a dump that the agent stored as a zip; `file` must stay open. Raises DumpError."""
    guarded = _ListReader(file)
    try:
        # _ListReader has the methods of a binary file that zipfile uses
        archive = zipfile.ZipFile(cast(IO[bytes], guarded))
    except DumpError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DumpError("not_zip", f"The dump is not a readable zip archive: {error}.") from error
    guarded.most_bytes = None
    entries: dict[str, zipfile.ZipInfo] = {}
    if len(archive.infolist()) > MOST_FILES:
        raise DumpError("too_many", _too_many(len(archive.infolist())))
    for entry in archive.infolist():
        name = entry.filename.rpartition("/")[2]
        if not _FILE_NAME.fullmatch(name):
            continue
        if name in entries:
            raise DumpError("twice", f"The dump holds `{name}` twice.")
        if entry.flag_bits & 1:
            raise DumpError("encrypted", "The dump is encrypted.")
        if entry.file_size > max(entry.compress_size, 64) * MOST_RATIO:
            raise DumpError("too_large", f"`{name}` of the dump is packed too tightly to be one.")
        entries[name] = entry
    sizes = {name: entry.file_size for name, entry in entries.items()}
    _check_sizes(sizes, most_bytes)
    # zipfile stops at the declared size and verifies the CRC
    return Dump(sizes, lambda name: archive.open(entries[name]))


class _ListReader:
    """File wrapper that limits the size of a single read to that of a zip's central directory.

    zipfile reads the whole central directory and creates an object per entry before the number of
    entries is known.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.most_bytes: int | None = _MOST_LIST_BYTES
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes. Raises DumpError beyond the limit of a central directory."""
        most = self.most_bytes
        if most is None:
            return self._file.read(size)
        # zipfile reads the end of the archive without a size
        data = self._file.read(most + 1 if size < 0 else min(size, most + 1))
        if len(data) > most:
            raise DumpError(
                "too_many", f"The dump's list of files has over {most} bytes, which is too many."
            )
        return data


def _check_sizes(sizes: dict[str, int], most_bytes: int = MOST_BYTES) -> None:
    if not sizes:
        raise DumpError("empty", "There is no dump: no file is named like a variable (00001f).")
    if len(sizes) > MOST_FILES:
        raise DumpError("too_many", _too_many(len(sizes)))
    total = sum(sizes.values())
    if total > most_bytes:
        raise DumpError("too_large", f"The dump has {total} bytes; at most {most_bytes} are read.")


def _too_many(count: int) -> str:
    return f"The dump has {count} files; at most {MOST_FILES} are read."


def read_header(file: str, stream: IO[bytes], size: int) -> TensorHeader:
    """Read the header of one file of `size` bytes. Raises DumpError."""
    name_len, code, axes = _HEADER.unpack(_read_exactly(stream, _HEADER.size, file))
    if axes != MOST_AXES:
        raise DumpError("damaged", f"`{file}` is no tensor: it has room for {axes} axes, not 7.")
    if name_len > MOST_NAME_BYTES:
        raise DumpError("damaged", f"`{file}` is no tensor: its name has {name_len} bytes.")
    shape = struct.unpack("<7I", _read_exactly(stream, 28, file))
    while shape and shape[-1] == 0:
        shape = shape[:-1]
    text = _read_exactly(stream, name_len, file).decode("utf-8", "replace")
    offset = _HEADER.size + 28 + name_len
    dtype, numpy, numbers = _numbers(file, code, shape, size - offset)
    name, slot, owner, kind = _names(text)
    return TensorHeader(
        file, int(file, 16), name, slot, owner, kind, dtype, shape, numpy, numbers, offset,
        is_raw=code not in _DTYPES,
    )  # fmt: skip


def _float32(bits: NDArray[Any]) -> NDArray[np.float32]:
    """Convert bfloat16 numbers, which are the upper halves of float32 numbers."""
    return (bits.astype("<u4") << 16).view("<f4")


def _numbers(
    file: str, code: int, shape: tuple[int, ...], body: int
) -> tuple[str, np.dtype[Any], int]:
    """(name of the dtype, numpy dtype, number of elements); checks the size of the body."""
    name, kind = _DTYPES.get(code, (f"dtype {code}", ""))
    count = math.prod(shape)
    if not kind:
        # for an unknown dtype only its width can be derived, and not even that for sub-byte types
        width = body // count if count and body % count == 0 else 0
        kind = {1: "u1", 2: "<u2", 4: "<u4", 8: "<u8"}.get(width, "u1")
        return name, np.dtype(kind), body // np.dtype(kind).itemsize
    dtype = np.dtype(kind)
    if not shape and body == 0:
        count = 0
    if count * dtype.itemsize != body:
        raise DumpError(
            "damaged",
            f"`{file}` promises {count} numbers of {name} and holds {body} bytes of them.",
        )
    return name, dtype, count


def _names(text: str) -> tuple[str, int, str, str]:
    """Parse (variable, slot, operator, operator's type) from MegEngine's description of a variable.

    The text is `var={id:7, layout:.., .., owner:NAME{TYPE}, name:NAME, slot:0, ..`; names come from
    the model and may contain commas. Each marker is searched for once, from left to right.
    """
    unknown = text[:1000], 0, "", ""
    owner = text.find(", owner:")
    if not text.startswith("var={id:") or owner < 0:
        return unknown
    owner += len(", owner:")
    for mark, name in _occurrences(text, "}, name:", owner):
        brace = text.rfind("{", max(owner, mark - _LONGEST_TYPE), mark)
        kind = _TYPE.fullmatch(text, brace + 1, mark) if brace >= 0 else None
        if kind is None:
            continue
        for slot, number in _occurrences(text, ", slot:", name):
            if match := _SLOT.match(text, number):
                return text[name:slot], int(match[0]), text[owner:brace], kind[0]
        break
    return unknown


def _occurrences(text: str, mark: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each occurrence of `mark` from `begin` on."""
    while (position := text.find(mark, begin)) >= 0:
        begin = position + len(mark)
        yield position, begin


def _read_exactly(stream: IO[bytes], count: int, file: str) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise DumpError("damaged", f"`{file}` of the dump is cut short.")
    return data


def _skip(stream: IO[bytes], count: int) -> None:
    while count:
        count -= len(stream.read(min(count, 1 << 20))) or count
