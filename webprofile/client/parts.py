"""Multipart uploads of large files: parallel parts, and only missing parts after an interruption.

Storage computes and returns the MD5 of each part, so the client does not hash what it sends. It
hashes only parts that storage had before, to check that they belong to this file.
"""

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import httpx2

from webprofile.client.api import ATTEMPTS, Api, pause_s
from webprofile.client.batchfile.local_files import LocalFile
from webprofile.client.errors import ClientError, ProblemError, UnreachableError

PARALLEL = 4
#: part URLs in one request, which is sent while the parts before are uploaded; few enough that the
#: URLs do not expire on a slow network
_URLS_PER_REQUEST = 8
#: uploads of a file that storage may lose before the client gives up
_TRIES = 3
#: smallest part size that a site has ever used
_SMALLEST_PART_BYTES = 8 << 20
_MD5 = re.compile(r"[0-9a-f]{32}")


class _LostError(Exception):
    """Storage no longer knows the upload, or its content differs from what was sent."""


@dataclass
class _Upload:
    """One attempt to upload a file.

    path: path of the file in the API
    parts: the upload as the API describes it (`PartsAnswer`)
    md5s: MD5s of the stored parts by number
    stored_bytes: sizes of the stored parts by number
    """

    api: Api
    file: LocalFile
    path: str
    parts: Mapping[str, Any]
    sent: Callable[[int], object]
    md5s: dict[int, str] = field(default_factory=dict)
    stored_bytes: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_over: threading.Event = field(default_factory=threading.Event)

    def note(self, number: int, size_bytes: int, md5: str) -> None:
        """Record a stored part and report the progress."""
        with self.lock:
            self.md5s[number] = md5
            self.stored_bytes[number] = size_bytes
            self.sent(sum(self.stored_bytes.values()))


def send_in_parts(
    api: Api,
    task: int,
    target: Mapping[str, Any],
    file: LocalFile,
    sent: Callable[[int], object] = lambda size_bytes: None,
) -> str:
    """Upload a task's file; return its checksum, which the site derives from those of the parts.

    target: the upload of the file from the site's response
    sent: called with the number of bytes that are stored so far

    Raises UnreachableError; ClientError if the file cannot be read any more, or changed meanwhile;
    ProblemError.
    """
    path = f"tasks/{task}/files/{target['file']}/"
    state = _state(file)
    parts = target["parts"]
    for left in reversed(range(_TRIES)):
        upload = _Upload(api, file, path, parts, sent)
        try:
            return _send(upload, state)
        except _LostError as lost:
            if not left:
                raise UnreachableError(f"The storage lost {file.name} {_TRIES} times") from lost
            renewed = renewed_target(api, task, target["file"])
            if renewed is None:
                return md5_in_parts(file, int(parts["part_bytes"]))
            parts = renewed["parts"]
    raise AssertionError  # the loop returns or raises


def renewed_target(api: Api, task: int, file: int) -> Mapping[str, Any] | None:
    """Return a new target of an upload; None if another client has uploaded the file."""
    uploads = api.post(f"tasks/{task}/uploads/", repeatable=True)["uploads"]
    return next((target for target in uploads if target["file"] == file), None)


def md5_in_parts(file: LocalFile, part_bytes: int) -> str:
    """Return the MD5 of the parts' MD5s, "-" and the number of parts. Raises ClientError."""
    count = -(-file.size_bytes // part_bytes)
    md5s = [_md5(_read(file, n, part_bytes)) for n in range(count)]
    return f"{_md5(bytes.fromhex(''.join(md5s)))}-{count}"


def has_sum(file: LocalFile, md5: str) -> bool:
    """Return whether a file has this multipart checksum, for any part size. Raises ClientError."""
    count = md5.rpartition("-")[2]
    part_bytes = _SMALLEST_PART_BYTES
    while count.isdecimal() and -(-file.size_bytes // part_bytes) > int(count):
        part_bytes *= 2
    return md5_in_parts(file, part_bytes) == md5


def _send(upload: _Upload, state: tuple[int, ...]) -> str:
    """Upload the missing parts and join them; return the checksum.

    Raises _LostError, and the exceptions of `send_in_parts`.
    """
    with ThreadPoolExecutor(PARALLEL + 1) as pool:
        running: set[Future[None]] = set()
        try:
            for part in _missing(upload, pool):
                # limits the parts in memory to PARALLEL
                running = _wait_until(running, at_most=PARALLEL - 1)
                running.add(pool.submit(_put, upload, part))
            _wait_until(running, at_most=0)
        except BaseException:
            upload.is_over.set()
            raise
    # parts of two versions of a file are each valid, but not together
    if _state(upload.file) != state:
        raise ClientError(f"{upload.file.path} changed while it was sent")
    md5s = [upload.md5s[number] for number in sorted(upload.md5s)]
    try:
        joined = upload.api.post(f"{upload.path}join/", {"md5s": md5s}, repeatable=True)
    except ProblemError as error:
        if error.code in {"upload_damaged", "upload_missing"}:
            raise _LostError from error
        raise
    return str(joined["md5"])


def _state(file: LocalFile) -> tuple[int, ...]:
    """Return size, modification time and inode of a file, to notice a change.

    Raises ClientError if the file is missing or has another size than before.
    """
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise ClientError(f"{file.path}: {error.strerror or error}") from error
    if status.st_size != file.size_bytes:
        raise ClientError(f"{file.path} changed while it was sent")
    return status.st_size, status.st_mtime_ns, status.st_ino


def _wait_until(running: set[Future[None]], *, at_most: int) -> set[Future[None]]:
    """Wait until at most `at_most` futures run; re-raise the exception of a finished one."""
    while len(running) > at_most:
        ended, running = wait(running, return_when=FIRST_COMPLETED)
        for future in ended:
            future.result()
    return running


def _missing(upload: _Upload, pool: ThreadPoolExecutor) -> Iterator[Mapping[str, Any]]:
    """Yield the parts that storage does not have, with their presigned URLs."""
    known = {int(part["number"]): part for part in upload.parts["addresses"]}
    missing = _not_stored(upload, pool)
    unknown = [number for number in missing if number not in known]
    requests = (
        pool.submit(_request_urls, upload, unknown[at : at + _URLS_PER_REQUEST])
        for at in range(0, len(unknown), _URLS_PER_REQUEST)
    )
    pending = next(requests, None)
    yield from (known[number] for number in missing if number in known)
    while pending is not None:
        parts = pending.result()
        pending = next(requests, None)  # the next URLs are requested in advance
        yield from parts


def _not_stored(upload: _Upload, pool: ThreadPoolExecutor) -> list[int]:
    """Return the numbers of the parts that storage does not have, and record those that it has.

    Raises ClientError if a stored part belongs to another file, since not every storage can replace
    a part.
    """
    done = {int(number): md5 for number, md5 in upload.parts["done"].items()}
    hashed = list(pool.map(lambda number: (number, *_size_and_md5(upload, number)), done))
    for number, size_bytes, md5 in hashed:
        if md5 != done[number]:
            raise ClientError(
                f"{upload.file.path} differs from the file that was sent before: start again with "
                "another --key"
            )
        upload.note(number, size_bytes, md5)
    numbers = range(1, int(upload.parts["count"]) + 1)
    return [number for number in numbers if number not in upload.md5s]


def _size_and_md5(upload: _Upload, number: int) -> tuple[int, str]:
    data = _data(upload, number)
    return len(data), _md5(data)


def _request_urls(upload: _Upload, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return the presigned URLs of parts; raise _LostError if the upload was restarted."""
    body = {"upload": upload.parts["upload"], "parts": [{"number": number} for number in numbers]}
    try:
        answer = upload.api.post(f"{upload.path}parts/", body, repeatable=True)
    except ProblemError as error:
        if error.code == "parts_restarted":
            raise _LostError from error
        raise
    return list(answer["parts"])


def _put(upload: _Upload, part: Mapping[str, Any]) -> None:
    """Upload one part, with retries and with a new URL if the old one expired."""
    number, url, headers = part["number"], part["url"], part["headers"]
    data = _data(upload, number)
    for attempt in range(1, ATTEMPTS + 1):
        if upload.is_over.is_set():
            return
        status, outcome, etag = _put_once(upload, url, headers, data)
        if 200 <= status < 300:
            # if the ETag is not an MD5, the site compares ours when it joins the parts
            upload.note(number, len(data), etag if _MD5.fullmatch(etag) else _md5(data))
            return
        if status in {400, 404}:
            raise _LostError
        if attempt == ATTEMPTS or (status < 500 and status not in {0, 403, 429}):
            raise UnreachableError(
                f"Uploading a part of {upload.file.name} failed: the storage {outcome}"
            )
        upload.is_over.wait(pause_s(attempt))
        if status == 403:
            (part,) = _request_urls(upload, [number])
            url, headers = part["url"], part["headers"]


def _put_once(
    upload: _Upload, url: str, headers: Mapping[str, str], data: bytes
) -> tuple[int, str, str]:
    """Return (status, outcome for an error message, ETag); status 0 without a response."""
    try:
        answer = upload.api.put(url, headers, data)
    except httpx2.TransportError as error:
        return 0, f"did not answer ({error})", ""
    etag = answer.headers.get("ETag", "").strip('"')
    return answer.status_code, f"answered {answer.status_code}", etag


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _data(upload: _Upload, number: int) -> bytes:
    return _read(upload.file, number - 1, int(upload.parts["part_bytes"]))


def _read(file: LocalFile, index: int, part_bytes: int) -> bytes:
    """Read a part of a file, index from 0; raise ClientError if it is missing or shorter."""
    start = index * part_bytes
    size_bytes = min(part_bytes, file.size_bytes - start)
    try:
        with file.path.open("rb") as stream:
            stream.seek(start)
            data = stream.read(size_bytes)
    except OSError as error:
        raise ClientError(f"{file.path}: {error.strerror or error}") from error
    if len(data) != size_bytes:
        raise ClientError(f"{file.path} changed while it was sent")
    return data
