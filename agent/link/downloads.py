"""A file on its way to this device, as far as it has arrived.

When a connection breaks, only the rest is asked for (Range), and only of the very same object
(If-Match, and the answer's own ETag, since not every server minds the question's).
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from agent.link.retries import is_transport, may_pass
from agent.protocol import InputFile
from agent.protocol.parts import Checksum

_RANGE = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19})")


class TransferError(RuntimeError):
    """A file could not be moved; the text names it and the cause, never its address.

    `passing` tells whether another try (or, for an upload, a new address) may help.
    """

    def __init__(self, text: str, *, passing: bool) -> None:
        self.passing = passing
        super().__init__(text)


class Incoming:
    """One file: where it comes from, what of it is on the disk, and the sums of that."""

    def __init__(self, file: InputFile, path: Path) -> None:
        self.name, self.url = file.name, file.url
        self._file, self._path = file, path
        self._forget()

    def _forget(self) -> None:
        """Start over with the next try."""
        self.size_bytes = 0
        self._etag = ""
        self._checksum, self._content = Checksum(self._file.part_bytes), hashlib.sha256()

    def headers(self) -> dict[str, str]:
        """Of the next question; storage must hand out the bytes that size and MD5 are about."""
        plain = {"Accept-Encoding": "identity"}
        if not self._etag:  # what is missing could be another object's
            self._forget()
        if not self.size_bytes:
            return plain
        return plain | {"Range": f"bytes={self.size_bytes}-", "If-Match": self._etag}

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """What comes now is all of the file, or what is missing. Raises TransferError."""
        etag, content_range = headers.get("ETag", ""), headers.get("Content-Range", "")
        # some servers (rclone 1.75) send a range with status 200: the header tells what it is
        if status in (200, 206) and content_range:
            if etag == self._etag and self._is_rest(content_range):
                return
            status = 412
        if status in (412, 416):
            self._forget()
            raise TransferError(f"{self.name}: it was replaced meanwhile", passing=True)
        if status != 200:
            raise _refusal(self.name, status)
        self._forget()
        self._etag = etag

    def opened(self) -> BinaryIO:
        """The file on the disk, to write what comes now. Raises OSError."""
        if not self.size_bytes:
            return self._path.open("wb")
        target = self._path.open("r+b")
        target.seek(self.size_bytes)
        return target

    def take(self, block: bytes, target: BinaryIO) -> None:
        """Keep the next bytes. Raises TransferError at the first byte too many; OSError."""
        if self.size_bytes + len(block) > self._file.size_bytes:
            raise self._of_another_size(self.size_bytes + len(block))
        target.write(block)
        self._checksum.update(block)
        self._content.update(block)
        self.size_bytes += len(block)

    def end(self) -> str:
        """Return the SHA-256 of the whole file. Raises TransferError if it is another."""
        if self.size_bytes != self._file.size_bytes:
            raise self._of_another_size(self.size_bytes)
        if self._checksum.hexdigest() != self._file.md5:
            self._forget()
            raise TransferError(f"{self.name}: MD5 differs from what was announced", passing=True)
        return self._content.hexdigest()

    def _of_another_size(self, size_bytes: int) -> TransferError:
        self._forget()
        text = f"{self.name}: {size_bytes} bytes arrived instead of {self._file.size_bytes}"
        return TransferError(text, passing=True)

    def _is_rest(self, content_range: str) -> bool:
        match = _RANGE.fullmatch(content_range)
        expected = (self.size_bytes, self._file.size_bytes)
        return match is not None and (int(match[1]), int(match[2])) == expected


def _refusal(name: str, status: int) -> TransferError:
    hint = ": its address has expired or was refused" if status == 403 else ""
    return TransferError(f"{name}: the storage answered {status}{hint}", passing=may_pass(status))


def explained(name: str, error: Exception) -> TransferError:
    """The error's text may hold the address, and with it the signature: only its kind is told."""
    if isinstance(error, OSError):
        return TransferError(f"{name}: {error.strerror or type(error).__name__}", passing=False)
    text = f"{name}: no connection to the storage ({type(error).__name__})"
    return TransferError(text, passing=is_transport(error))
