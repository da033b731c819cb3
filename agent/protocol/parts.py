"""A large file in parts: how it is cut, and its checksum, as S3 servers form both.

The checksum of a file in N parts is the MD5 of its parts' MD5s (16 bytes each), then "-N": what AWS
and MinIO give as ETag of an object that came in parts.
"""

import hashlib
from collections.abc import Iterable

MIB = 1 << 20
#: of a part but the last; storage takes no less than 5 MiB. While the last ones are on their
#: way the line is not full: the larger they are, the longer
PART_BYTES = 8 * MIB
MOST_PARTS = 10_000
#: a file from this size on is better sent in parts
PARTS_FROM_BYTES = 64 * MIB


def part_bytes_of(size_bytes: int) -> int:
    """How large the parts of a file of this size are."""
    part_bytes = PART_BYTES
    while part_bytes * MOST_PARTS < size_bytes:
        part_bytes *= 2
    return part_bytes


def part_sizes(size_bytes: int, part_bytes: int) -> list[int]:
    """The sizes of all parts, in their order; their numbers begin at 1."""
    whole, rest = divmod(size_bytes, part_bytes)
    return [part_bytes] * whole + [rest] * (rest > 0)


def md5_of_parts(md5s: Iterable[str]) -> str:
    """The checksum of a file from the hexadecimal MD5s of its parts."""
    sums = [bytes.fromhex(md5) for md5 in md5s]
    whole = hashlib.md5(b"".join(sums), usedforsecurity=False)
    return f"{whole.hexdigest()}-{len(sums)}"


class Checksum:
    """A file's checksum, fed piece by piece: over parts, or with `part_bytes` 0 its plain MD5."""

    def __init__(self, part_bytes: int = 0) -> None:
        self._part_bytes = part_bytes
        self._left = part_bytes
        self._parts: list[str] = []
        self._sum = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Take in the next bytes."""
        if not self._part_bytes:
            self._sum.update(data)
            return
        rest = memoryview(data)
        while rest:
            if not self._left:
                self._end_part()
            piece = rest[: self._left]
            self._sum.update(piece)
            self._left -= len(piece)
            rest = rest[len(piece) :]

    def hexdigest(self) -> str:
        """What was fed so far must be all of the file. Call it once."""
        if not self._part_bytes:
            return self._sum.hexdigest()
        self._end_part()
        return md5_of_parts(self._parts)

    def _end_part(self) -> None:
        self._parts.append(self._sum.hexdigest())
        self._sum = hashlib.md5(usedforsecurity=False)
        self._left = self._part_bytes
