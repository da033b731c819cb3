"""Large files in parts: several on their way at once, and after a break only what is missing.

Storage forms the MD5 of each part and answers it, so what is sent is not summed here as well. Only
what storage had before is: it must be of this very file.
"""

import hashlib
import itertools
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
#: parts whose addresses are asked for at once, and while those before are on their way: so few
#: that also a slow network needs none after its time is over
_ASKED_AT_ONCE = 8
#: how often storage may lose the whole upload before it is called broken
_TRIES = 3
#: the least that a site makes parts of, now or before
_LEAST_PART_BYTES = 8 << 20
_MD5 = re.compile(r"[0-9a-f]{32}")


class _LostError(Exception):
    """Storage does not know the upload any more, or what it has is not what was sent."""


@dataclass
class _Sending:
    """One try of one file. `sums` are the MD5s of its parts, `arrived` bytes by part."""

    api: Api
    file: LocalFile
    place: str
    parts: Mapping[str, Any]
    sent: Callable[[int], object]
    sums: dict[int, str] = field(default_factory=dict)
    arrived: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_over: threading.Event = field(default_factory=threading.Event)

    def note(self, number: int, size_bytes: int, md5: str) -> None:
        with self.lock:
            self.sums[number] = md5
            self.arrived[number] = size_bytes
            self.sent(sum(self.arrived.values()))


def send_in_parts(
    api: Api,
    task: int,
    target: Mapping[str, Any],
    file: LocalFile,
    sent: Callable[[int], object] = lambda size_bytes: None,
) -> str:
    """Upload a task's file; return its checksum, as the site forms it from those of the parts.

    target: as the site's answer has it; sent: hears how many bytes have arrived so far
    Raises UnreachableError; ClientError if the file cannot be read any more, or changed meanwhile;
    ProblemError.
    """
    place = f"tasks/{task}/files/{target['file']}/"
    state = _state(file)
    parts = target["parts"]
    for left in reversed(range(_TRIES)):
        sending = _Sending(api, file, place, parts, sent)
        try:
            return _send(sending, state)
        except _LostError as lost:
            if not left:
                raise UnreachableError(f"The storage lost {file.name} {_TRIES} times") from lost
            renewed = api.post(f"tasks/{task}/uploads/", repeatable=True)["uploads"]
            found = [each for each in renewed if each["file"] == target["file"]]
            if not found:  # another one has sent it meanwhile
                return md5_in_parts(file, int(parts["part_bytes"]))
            parts = found[0]["parts"]
    raise AssertionError  # the loop returns or raises


def md5_in_parts(file: LocalFile, part_bytes: int) -> str:
    """The MD5 of its parts' MD5s, then "-" and how many there are. Raises ClientError."""
    count = -(-file.size_bytes // part_bytes)
    sums = [hashlib.md5(_read(file, n, part_bytes), usedforsecurity=False) for n in range(count)]
    whole = hashlib.md5(b"".join(each.digest() for each in sums), usedforsecurity=False)
    return f"{whole.hexdigest()}-{count}"


def has_sum(file: LocalFile, md5: str) -> bool:
    """Whether a file has this checksum over parts, whatever their size. Raises ClientError."""
    count = md5.rpartition("-")[2]
    part_bytes = _LEAST_PART_BYTES
    while count.isdecimal() and -(-file.size_bytes // part_bytes) > int(count):
        part_bytes *= 2
    return md5_in_parts(file, part_bytes) == md5


def _send(sending: _Sending, state: tuple[int, ...]) -> str:
    """Raises _LostError, and as `send_in_parts`."""
    with ThreadPoolExecutor(PARALLEL + 1) as pool:
        running: set[Future[None]] = set()
        try:
            for part in _missing(sending, pool):
                # no more than these are held in memory
                running = _some_ended(running, at_most=PARALLEL - 1)
                running.add(pool.submit(_put, sending, part))
            _some_ended(running, at_most=0)
        except BaseException:
            sending.is_over.set()
            raise
    # parts of two states of a file are whole each, and no file together
    if _state(sending.file) != state:
        raise ClientError(f"{sending.file.path} changed while it was sent")
    sums = [sending.sums[number] for number in sorted(sending.sums)]
    try:
        joined = sending.api.post(f"{sending.place}join/", {"md5s": sums}, repeatable=True)
    except ProblemError as error:
        if error.code in {"upload_damaged", "upload_missing"}:
            raise _LostError from error
        raise
    return str(joined["md5"])


def _state(file: LocalFile) -> tuple[int, ...]:
    """What changes when somebody writes to a file or replaces it. Raises ClientError."""
    try:
        found = os.stat(file.path)
    except OSError as error:
        raise ClientError(f"{file.path}: {error.strerror or error}") from error
    if found.st_size != file.size_bytes:
        raise ClientError(f"{file.path} changed while it was sent")
    return found.st_size, found.st_mtime_ns, found.st_ino


def _some_ended(running: set[Future[None]], *, at_most: int) -> set[Future[None]]:
    """Wait until no more than so many run; raises what one of those that ended raised."""
    while len(running) > at_most:
        ended, running = wait(running, return_when=FIRST_COMPLETED)
        for each in ended:
            each.result()
    return running


def _missing(sending: _Sending, pool: ThreadPoolExecutor) -> Iterator[Mapping[str, Any]]:
    """The parts that storage does not have, with their addresses."""
    # not of a site from before there were any
    told = {int(part["number"]): part for part in sending.parts.get("addresses", ())}
    missing = _not_arrived(sending, pool)
    numbers = iter([number for number in missing if number not in told])
    groups = iter(lambda: list(itertools.islice(numbers, _ASKED_AT_ONCE)), [])
    coming = [pool.submit(_ask, sending, group) for group in itertools.islice(groups, 1)]
    yield from (told[number] for number in missing if number in told)
    while coming:
        parts = coming.pop().result()
        # ahead of need: no sender waits for the site
        coming = [pool.submit(_ask, sending, group) for group in itertools.islice(groups, 1)]
        yield from parts


def _not_arrived(sending: _Sending, pool: ThreadPoolExecutor) -> list[int]:
    """Numbers of the parts that storage does not have. Raises ClientError if it has another file's.

    Not every storage can replace a part that it has.
    """
    done = {int(number): md5 for number, md5 in sending.parts["done"].items()}
    for found in list(pool.map(lambda number: (number, *_summed(sending, number)), done)):
        number, size_bytes, md5 = found
        if md5 != done[number]:
            raise ClientError(
                f"{sending.file.path} is not what was sent before: begin anew, with another --key"
            )
        sending.note(number, size_bytes, md5)
    every = range(1, int(sending.parts["count"]) + 1)
    return [number for number in every if number not in sending.sums]


def _summed(sending: _Sending, number: int) -> tuple[int, str]:
    data = _data(sending, number)
    return len(data), _md5(data)


def _ask(sending: _Sending, numbers: Sequence[int]) -> list[dict[str, Any]]:
    asked = [{"number": number} for number in numbers]
    body = {"upload": sending.parts["upload"], "parts": asked}
    try:
        answer = sending.api.post(f"{sending.place}parts/", body, repeatable=True)
    except ProblemError as error:
        if error.code == "parts_restarted":
            raise _LostError from error
        raise
    return list(answer["parts"])


def _put(sending: _Sending, part: Mapping[str, Any]) -> None:
    """One part; what fails for a moment is tried again, an address that ran out is replaced."""
    number, url, headers = part["number"], part["url"], part["headers"]
    data = _data(sending, number)
    for attempt in range(1, ATTEMPTS + 1):
        if sending.is_over.is_set():
            return
        status, why, etag = _put_once(sending, url, headers, data)
        if 200 <= status < 300:
            # its own sum where storage's answer is none: then joining compares that
            sending.note(number, len(data), etag if _MD5.fullmatch(etag) else _md5(data))
            return
        if status in {400, 404}:
            raise _LostError
        if attempt == ATTEMPTS or (status < 500 and status not in {0, 403, 429}):
            raise UnreachableError(f"The storage {why} to a part of {sending.file.name}")
        sending.is_over.wait(pause_s(attempt))
        if status == 403:
            (part,) = _ask(sending, [number])
            url, headers = part["url"], part["headers"]


def _put_once(
    sending: _Sending, url: str, headers: Mapping[str, str], data: bytes
) -> tuple[int, str, str]:
    """(status, what storage did, what it calls what it got); 0 if there was no answer."""
    try:
        answer = sending.api.put(url, headers, data)
    except httpx2.TransportError as error:
        return 0, f"did not answer ({error})", ""
    etag = answer.headers.get("ETag", "").strip('"')
    return answer.status_code, f"answered {answer.status_code}", etag


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _data(sending: _Sending, number: int) -> bytes:
    return _read(sending.file, number - 1, int(sending.parts["part_bytes"]))


def _read(file: LocalFile, place: int, part_bytes: int) -> bytes:
    """Raises ClientError if it is not there, or not as long as it was."""
    start = place * part_bytes
    wanted = min(part_bytes, file.size_bytes - start)
    try:
        with file.path.open("rb") as opened:
            opened.seek(start)
            data = opened.read(wanted)
    except OSError as error:
        raise ClientError(f"{file.path}: {error.strerror or error}") from error
    if len(data) != wanted:
        raise ClientError(f"{file.path} changed while it was sent")
    return data
