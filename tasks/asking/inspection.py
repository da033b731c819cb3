"""What an uploaded input file says about itself: dtype and shape, read from its first bytes.

Bytes in, result out. The readers are those of the agent, too (`agent.protocol.inputs`): nothing is
unpickled, no array is made, and no header is believed. What the device would refuse after a wait is
refused here.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from agent.protocol.inputs import InputError, Kind
from agent.protocol.inputs.json_inputs import LONGEST_JSON, check_json_size, parse_json
from agent.protocol.inputs.npy import HEAD_BYTES, parse_header
from agent.protocol.inputs.pictures import parse_picture
from webprofile.errors import DomainError


@dataclass(frozen=True)
class ArrayHeader:
    """One array of a file; `name` is the input variable where the file itself names it (JSON)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def as_row(self) -> dict[str, Any]:
        """The entry of `TaskFile.arrays`."""
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}


def bytes_wanted(name: str, size_bytes: int) -> int:
    """How many bytes from its begin `inspect` wants of a file."""
    if _suffix(name) == ".json" and size_bytes <= LONGEST_JSON:
        return size_bytes
    return min(size_bytes, HEAD_BYTES)


def inspect(name: str, head: bytes, size_bytes: int, *, kind: str = "wheel") -> list[ArrayHeader]:
    """Return what the data file `name` holds, empty if it is not looked into.

    head: its first `bytes_wanted` bytes; size_bytes: of the whole file; kind: of the runtime

    Raises DomainError `input_*`, naming file and cause, if it cannot be an input.
    """
    if not head:
        return []
    try:
        return _read(name, head, size_bytes, "binary" if kind == "binary" else "wheel")
    except InputError as error:
        raise DomainError(
            f"input_{error.rule}", field="data", **{"name": name, **error.data}
        ) from error


def _read(name: str, head: bytes, size_bytes: int, kind: Kind) -> list[ArrayHeader]:
    suffix = _suffix(name)
    if suffix == ".json":
        check_json_size(name, size_bytes)
        inputs = parse_json(name, head)
        return [ArrayHeader(each.name, each.dtype, each.shape) for each in inputs]
    if suffix in (".ppm", ".pgm"):
        shape, _ = parse_picture(name, head, size_bytes)
        return [ArrayHeader("", "uint8", shape)]
    header = parse_header(name, head, size_bytes, kind)
    return [ArrayHeader("", header.dtype.newbyteorder("=").name, header.shape)]


def _suffix(name: str) -> str:
    return PurePosixPath(name.lower()).suffix
