"""State of a download that can be resumed.

After a broken connection only the missing part is requested (Range), and only of the same object:
by If-Match, and by the ETag of the response, since not every server honours If-Match.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from agent.link.retries import is_transport, may_pass
from agent.protocol.messages import CAUSE_DIGEST, InputFile
from agent.protocol.multipart import Checksum
from agent.protocol.notes import Note

_RANGE = re.compile(r"bytes (\d{1,19})-\d{1,19}/(\d{1,19})")


class TransferError(RuntimeError):
    """A file could not be transferred; the note contains the file and the cause, never its URL.

    `is_transient` is True if another try (for an upload, one with a new URL) may succeed. `cause`
    is a code for the server, or empty.
    """

    def __init__(self, note: Note, *, is_transient: bool, cause: str = "") -> None:
        self.note, self.is_transient, self.cause = note, is_transient, cause
        super().__init__(str(note))


class Incoming:
    """A file that is being downloaded: its URL, the size on disk so far, and the checksums."""

    def __init__(self, file: InputFile, path: Path) -> None:
        self.name, self.url = file.name, file.url
        self._file, self._path = file, path
        #: a damaged transfer differs once; an object with other bytes differs again
        self._has_differed = False
        self._forget()

    def _forget(self) -> None:
        """Reset, so that the next try starts from the beginning."""
        self.size_bytes = 0
        self._etag = ""
        self._checksum, self._content = Checksum(self._file.part_bytes), hashlib.sha256()

    def headers(self) -> dict[str, str]:
        """Return the headers of the next request, which asks for unencoded bytes."""
        plain = {"Accept-Encoding": "identity"}
        if not self._etag:  # without an ETag, the rest could be of another object
            self._forget()
        if not self.size_bytes:
            return plain
        return plain | {"Range": f"bytes={self.size_bytes}-", "If-Match": self._etag}

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Check the response: it must contain the whole file or the missing rest.

        Raises TransferError.
        """
        etag, content_range = headers.get("ETag", ""), headers.get("Content-Range", "")
        # some servers (rclone 1.75) send a range with status 200: the header decides
        if status in (200, 206) and content_range:
            if etag == self._etag and self._is_rest(content_range):
                return
            status = 412
        if status in (412, 416):
            self._forget()
            raise TransferError(Note.of("file_replaced", name=self.name), is_transient=True)
        if status != 200:
            raise _refusal(self.name, status)
        self._forget()
        self._etag = etag

    def opened(self) -> BinaryIO:
        """Open the file on disk at the position of the next byte. Raises OSError."""
        if not self.size_bytes:
            return self._path.open("wb")
        target = self._path.open("r+b")
        target.seek(self.size_bytes)
        return target

    def take(self, block: bytes, target: BinaryIO) -> None:
        """Write the next bytes. Raises OSError, and TransferError if the file gets too large."""
        if self.size_bytes + len(block) > self._file.size_bytes:
            raise self._of_another_size(self.size_bytes + len(block))
        target.write(block)
        self._checksum.update(block)
        self._content.update(block)
        self.size_bytes += len(block)

    def end(self) -> str:
        """Return the SHA-256 of the file. Raises TransferError if size or MD5 are wrong."""
        if self.size_bytes != self._file.size_bytes:
            raise self._of_another_size(self.size_bytes)
        if self._checksum.hexdigest() != self._file.md5:
            self._forget()
            is_first, self._has_differed = not self._has_differed, True
            raise TransferError(
                Note.of("file_digest", name=self.name),
                is_transient=is_first,
                cause=CAUSE_DIGEST,
            )
        return self._content.hexdigest()

    def _of_another_size(self, size_bytes: int) -> TransferError:
        self._forget()
        sizes = {"size": size_bytes, "expected": self._file.size_bytes}
        return TransferError(Note.of("file_size", name=self.name, **sizes), is_transient=True)

    def _is_rest(self, content_range: str) -> bool:
        match = _RANGE.fullmatch(content_range)
        expected = (self.size_bytes, self._file.size_bytes)
        return match is not None and (int(match[1]), int(match[2])) == expected


def _refusal(name: str, status: int) -> TransferError:
    code = "storage_forbidden" if status == 403 else "storage_status"
    return TransferError(Note.of(code, name=name, status=status), is_transient=may_pass(status))


def explained(name: str, error: Exception) -> TransferError:
    """Return a TransferError for any error, without its text: that may contain a presigned URL."""
    if isinstance(error, OSError):
        cause = error.strerror or type(error).__name__
        return TransferError(Note.of("file_failed", name=name, cause=cause), is_transient=False)
    note = Note.of("storage_connection", name=name, cause=type(error).__name__)
    return TransferError(note, is_transient=is_transport(error))
