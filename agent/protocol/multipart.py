"""Part sizes and checksums of multipart uploads, as S3 defines them.

The checksum of a file in N parts is the MD5 of the concatenated MD5s of its parts (16 bytes each),
followed by "-N". AWS and MinIO return it as the ETag of an object that was uploaded in parts.
"""

import hashlib
from collections.abc import Iterable

MIB = 1 << 20
#: size of all parts except the last; S3 requires at least 5 MiB. Larger parts leave the connection
#: idle for longer while the last ones are being sent
PART_BYTES = 8 * MIB
MOST_PARTS = 10_000
#: files of at least this size are uploaded in parts
PARTS_FROM_BYTES = 64 * MIB


def part_bytes_of(size_bytes: int) -> int:
    """Return the part size for a file of this size."""
    part_bytes = PART_BYTES
    while part_bytes * MOST_PARTS < size_bytes:
        part_bytes *= 2
    return part_bytes


def part_sizes(size_bytes: int, part_bytes: int) -> list[int]:
    """Return the sizes of all parts, in order; part numbers begin at 1."""
    whole, rest = divmod(size_bytes, part_bytes)
    return [part_bytes] * whole + [rest] * (rest > 0)


def md5_of_parts(md5s: Iterable[str]) -> str:
    """Return the checksum of a file, given the hexadecimal MD5s of its parts."""
    sums = [bytes.fromhex(md5) for md5 in md5s]
    whole = hashlib.md5(b"".join(sums), usedforsecurity=False)
    return f"{whole.hexdigest()}-{len(sums)}"


class Checksum:
    """Incremental checksum of a file: over parts, or the plain MD5 if `part_bytes` is 0."""

    def __init__(self, part_bytes: int = 0) -> None:
        self._part_bytes = part_bytes
        self._left = part_bytes
        self._parts: list[str] = []
        self._sum = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """Add the next bytes of the file."""
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
        """Return the checksum of the bytes added so far. Call it once, at the end of the file."""
        if not self._part_bytes:
            return self._sum.hexdigest()
        self._end_part()
        return md5_of_parts(self._parts)

    def _end_part(self) -> None:
        self._parts.append(self._sum.hexdigest())
        self._sum = hashlib.md5(usedforsecurity=False)
        self._left = self._part_bytes
