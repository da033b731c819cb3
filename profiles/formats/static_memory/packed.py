"""Unpack the zip in which a device stores the files of a memory plan."""

import zipfile
import zlib
from pathlib import Path

from profiles.formats.errors import ProfileFormatError

#: as MegEngine names them
PLAN_NAME, GRAPH_NAME = "StaticMemoryInfo.json", "graph.json"
#: maximum number of files in the zip; a device packs two
_MOST_FILES = 1_000
_PIECE_BYTES = 1 << 20
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError,
    ValueError, LookupError,
)  # fmt: skip


def unpack(path: Path, folder: Path, *, max_bytes: int) -> tuple[Path, Path | None]:
    """Extract plan and graph from the zip at `path` into `folder`; the graph may be missing.

    max_bytes: limit of each file, whatever size the zip declares
    Raises ProfileFormatError static_memory_zip, too_large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) > _MOST_FILES or PLAN_NAME not in names:
                raise _wrong(f"{PLAN_NAME} is not in it")
            folder.mkdir()
            plan = _unpack_file(archive, PLAN_NAME, folder, max_bytes)
            has_graph = GRAPH_NAME in names
            return plan, _unpack_file(archive, GRAPH_NAME, folder, max_bytes) if has_graph else None
    except ProfileFormatError:
        raise
    except _DAMAGE as error:
        raise _wrong(str(error) or type(error).__name__) from None


def _unpack_file(archive: zipfile.ZipFile, name: str, folder: Path, max_bytes: int) -> Path:
    target = folder / name
    left = max_bytes
    with archive.open(name) as source, target.open("wb") as file:
        while piece := source.read(_PIECE_BYTES):
            left -= len(piece)
            if left < 0:
                text = f"{name} in the archive has more than {max_bytes} bytes."
                raise ProfileFormatError("too_large", text)
            file.write(piece)
    return target


def _wrong(why: str) -> ProfileFormatError:
    return ProfileFormatError("static_memory_zip", f"It holds no memory plan: {why}.")
