"""Transfer files by presigned GET and PUT, verified by size and MD5; use the cache if possible."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import httpx2

from agent.link.cache import ContentCache
from agent.link.downloads import Incoming, TransferError, explained
from agent.link.retries import Policies, may_pass
from agent.protocol.messages import FileOffer, InputFile, StoredFile, UploadTarget
from agent.protocol.multipart import Checksum
from agent.protocol.notes import Note

log = logging.getLogger(__name__)

_BLOCK = 1 << 18
_MOST_PAIRS = 4096
#: number of files that are downloaded concurrently
_PARALLEL = 4
#: limit for all downloads of an attempt, in case a server sends very slowly
DOWNLOAD_LIMIT_S = 3600.0
#: read timeout: a silent storage server has lost the connection
_SILENT_S = 15.0
#: after an upload the read timeout is longer, because storage hashes and writes the file first
_TAKES_BYTES_PER_S = 10e6
_TIMEOUT = httpx2.Timeout(connect=10, read=_SILENT_S, write=_SILENT_S * 2, pool=60)
#: connections are kept for the next task, since a new TLS handshake costs round trips
_LIMITS = httpx2.Limits(max_keepalive_connections=8, keepalive_expiry=120)


class _Connections:
    """An HTTP client with persistent connections, replaced as a whole after a timeout.

    A firewall or router that has dropped one idle connection has usually dropped all of them, and
    each would cost another timeout.
    """

    def __init__(self) -> None:
        self._client = self._new_client()
        #: number of requests in progress by client, including replaced clients
        self._users: dict[httpx2.AsyncClient, int] = {}

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Provide the client for one request."""
        client = self._client
        self._users[client] = self._users.get(client, 0) + 1
        try:
            yield client
        except httpx2.TimeoutException:
            if client is self._client:
                self._client = self._new_client()
            raise
        finally:
            self._users[client] -= 1
            if not self._users[client]:
                del self._users[client]
                if client is not self._client:
                    await client.aclose()

    async def close(self) -> None:
        for client in {self._client, *self._users}:
            await client.aclose()

    @staticmethod
    def _new_client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=_ssl_context(), timeout=_TIMEOUT, limits=_LIMITS, follow_redirects=False
        )


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return the context of all clients: reading the certificates takes 20 ms of CPU time."""
    return httpx2.create_ssl_context()


class Transfer:
    """Downloads and uploads of the agent, with its cache and its persistent connections."""

    def __init__(self, policies: Policies, cache: ContentCache) -> None:
        self._policy, self._cache = policies.download, cache
        #: (sha256, md5) pairs that are known to belong to the same content
        self._same: set[tuple[str, str]] = set()
        self._connections = _Connections()
        self._gate = asyncio.Semaphore(_PARALLEL)
        #: bytes of all downloads in progress
        self._expected_bytes = 0

    async def close(self) -> None:
        await self._connections.close()

    async def fetch_all(self, files: tuple[InputFile, ...], folder: Path) -> tuple[StoredFile, ...]:
        """Download all files into the folder; return their digests. Raises TransferError."""
        tasks = [asyncio.create_task(self._obtain(file, folder / file.name)) for file in files]
        try:
            async with asyncio.timeout(DOWNLOAD_LIMIT_S):
                return tuple(await asyncio.gather(*tasks))
        except TimeoutError as exc:
            note = Note.of("download_slow", seconds=DOWNLOAD_LIMIT_S)
            raise TransferError(note, is_transient=False) from exc
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def store(self, path: Path, offer: FileOffer, target: UploadTarget) -> None:
        """Upload one file by PUT, without retries. Raises TransferError."""
        headers = {**target.headers, "Content-Length": str(offer.size_bytes)}
        try:
            async with self._connections.client() as client:
                response = await client.put(
                    target.url,
                    headers=headers,
                    content=_blocks(path),
                    timeout=_storing(offer.size_bytes),
                )
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
            raise explained(offer.name, exc) from exc
        if not response.is_success:
            # 403: the URL has expired; the next try gets a new one
            is_transient = response.status_code == 403 or may_pass(response.status_code)
            note = Note.of("storage_status", name=offer.name, status=response.status_code)
            raise TransferError(note, is_transient=is_transient)

    async def _obtain(self, file: InputFile, path: Path) -> StoredFile:
        """Take a file from the cache, or download it and add it to the cache."""
        known = file.sha256
        if known is not None and await asyncio.to_thread(self._take, file, path, known):
            log.info("file_from_cache file=%s", file.name)
            return StoredFile(name=file.name, sha256=known)
        self._expected_bytes += file.size_bytes
        try:
            await asyncio.to_thread(self._cache.make_room, self._expected_bytes)
            sha256 = await self._fetch_patiently(Incoming(file, path))
        finally:
            self._expected_bytes -= file.size_bytes
        await asyncio.to_thread(self._cache.keep, path, sha256)
        self._note(sha256, file.md5)
        return StoredFile(name=file.name, sha256=sha256)

    def _take(self, file: InputFile, path: Path, sha256: str) -> bool:
        """Copy the file from the cache if it is there. Reads the file: call it in a thread.

        The MD5 comes from the user's browser. The SHA-256 was reported by an agent, possibly that
        of another device, and could name any content of this cache. Therefore the MD5 of the cached
        file is checked, once per pair of digests; after that, the cache's own check of the SHA-256
        is sufficient, so that a repeated run does not wait for a second hash.
        """
        if not self._cache.take(sha256, file.size_bytes, path):
            return False
        if (sha256, file.md5) in self._same:
            return True
        try:
            if _checksum_of(path, file.part_bytes) == file.md5:
                self._note(sha256, file.md5)
                return True
            log.warning("cache_other_content file=%s", file.name)
            path.unlink()
        except OSError as exc:
            log.warning("cache_not_read file=%s cause=%r", file.name, exc.strerror)
        return False

    def _note(self, sha256: str, md5: str) -> None:
        if len(self._same) >= _MOST_PAIRS:
            self._same.clear()
        self._same.add((sha256, md5))

    async def _fetch_patiently(self, incoming: Incoming) -> str:
        """Download with retries; a try that received new bytes resets the retry count."""
        async with self._gate:
            delays, furthest = self._policy.delays(), 0
            while True:
                try:
                    return await self._fetch(incoming)
                except TransferError as exc:
                    if not exc.is_transient:
                        raise
                    if incoming.size_bytes > furthest:
                        delays, furthest = self._policy.delays(), incoming.size_bytes
                    delay = next(delays, None)
                    if delay is None:
                        raise
                    log.warning(
                        "download_repeated file=%s from=%d cause=%r",
                        incoming.name,
                        incoming.size_bytes,
                        str(exc),
                    )
                await asyncio.sleep(delay)

    async def _fetch(self, incoming: Incoming) -> str:
        """Try once to stream the missing part to disk; return the SHA-256. Raises TransferError."""
        headers = incoming.headers()
        try:
            async with (
                self._connections.client() as client,
                client.stream("GET", incoming.url, headers=headers) as response,
            ):
                incoming.begin(response.status_code, response.headers)
                with incoming.opened() as target:
                    async for block in response.aiter_raw(_BLOCK):
                        # blocks are small: a thread per block would cost more than the write
                        incoming.take(block, target)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
            raise explained(incoming.name, exc) from exc
        return incoming.end()


def _storing(size_bytes: int) -> httpx2.Timeout:
    limits = _TIMEOUT.as_dict()
    return httpx2.Timeout(**limits | {"read": _SILENT_S + size_bytes / _TAKES_BYTES_PER_S})


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as source:
        while block := source.read(_BLOCK):
            yield block


def offer_file(path: Path) -> FileOffer:
    """Return the offer for a file, with its size and MD5. Reads the file: call it in a thread."""
    size, md5 = path.stat().st_size, _checksum_of(path)
    return FileOffer(name=path.name, size_bytes=size, md5=md5)


def _checksum_of(path: Path, part_bytes: int = 0) -> str:
    checksum = Checksum(part_bytes)
    with path.open("rb") as source:
        while block := source.read(_BLOCK):
            checksum.update(block)
    return checksum.hexdigest()
