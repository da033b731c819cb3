"""Files over HTTP: presigned GET and PUT, checked against size and MD5; or from the cache."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2

from agent.cache import ContentCache
from agent.protocol import FileOffer, InputFile, StoredFile, UploadTarget
from agent.retry import Policies, is_transport, may_pass

log = logging.getLogger(__name__)

_BLOCK = 1 << 18
_MOST_PAIRS = 4096
#: how many files of one attempt are fetched at the same time
_PARALLEL = 4
#: even a server that drips bytes must not hold a device for longer
DOWNLOAD_LIMIT_S = 3600.0
_TIMEOUT = httpx2.Timeout(connect=10, read=60, write=60, pool=60)
#: a device asks for its next files soon after the last ones; setting up TLS anew costs round trips
_LIMITS = httpx2.Limits(max_keepalive_connections=8, keepalive_expiry=120)


class TransferError(RuntimeError):
    """A file could not be moved; the text names it and the cause, never its address.

    `passing` tells whether another try (or, for an upload, a new address) may help.
    """

    def __init__(self, text: str, *, passing: bool) -> None:
        self.passing = passing
        super().__init__(text)


class Transfer:
    """One HTTP client for the agent's life, so that connections are warm."""

    def __init__(self, policies: Policies, cache: ContentCache | None = None) -> None:
        self._policy, self._cache = policies.download, cache
        #: (sha256, md5) that were seen to belong to one content
        self._same: set[tuple[str, str]] = set()
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, follow_redirects=False)
        self._gate = asyncio.Semaphore(_PARALLEL)

    async def close(self) -> None:
        await self._client.aclose()

    async def fetch_all(self, files: tuple[InputFile, ...], folder: Path) -> tuple[StoredFile, ...]:
        """Put every file into the folder; return what arrived. Raises TransferError."""
        tasks = [asyncio.create_task(self._obtain(file, folder / file.name)) for file in files]
        try:
            async with asyncio.timeout(DOWNLOAD_LIMIT_S):
                return tuple(await asyncio.gather(*tasks))
        except TimeoutError as exc:
            text = f"the files did not arrive within {DOWNLOAD_LIMIT_S:g} s"
            raise TransferError(text, passing=False) from exc
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def store(self, path: Path, offer: FileOffer, target: UploadTarget) -> None:
        """PUT one file, once. Raises TransferError."""
        headers = {**target.headers, "Content-Length": str(offer.size_bytes)}
        try:
            response = await self._client.put(target.url, headers=headers, content=_blocks(path))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
            raise _explain(offer.name, exc) from exc
        if not response.is_success:
            # 403: the address has expired; the next try gets a new one
            passing = response.status_code == 403 or may_pass(response.status_code)
            text = f"{offer.name}: the storage answered {response.status_code}"
            raise TransferError(text, passing=passing)

    async def _obtain(self, file: InputFile, path: Path) -> StoredFile:
        """From the cache if it is there; what was fetched is there the next time."""
        cache = self._cache
        known = file.sha256
        taken = False
        if cache is not None and known is not None:
            taken = await asyncio.to_thread(self._take, cache, file, path, known)
        if taken and known:
            log.info("file_from_cache file=%s", file.name)
            return StoredFile(name=file.name, sha256=known)
        sha256 = await self._fetch_patiently(file, path)
        if cache is not None:
            await asyncio.to_thread(cache.keep, path, sha256)
            self._note(sha256, file.md5)
        return StoredFile(name=file.name, sha256=sha256)

    def _take(self, cache: ContentCache, file: InputFile, path: Path, sha256: str) -> bool:
        """Take the file from the cache if that has it. Reads it: call it in a thread.

        The MD5 is what the user's browser announced; the SHA-256 is what an agent, maybe another
        device's, has reported of the file, so by itself it could name any content of this cache.
        That both are of one content is checked for any size, but once only: from then on the
        cache's own check of the SHA-256 says as much, and a repeated run waits for no second hash.
        """
        if not cache.take(sha256, file.size_bytes, path):
            return False
        if (sha256, file.md5) in self._same:
            return True
        try:
            if _md5_of(path) == file.md5:
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

    async def _fetch_patiently(self, file: InputFile, path: Path) -> str:
        async with self._gate:
            for delay in self._policy.delays():
                try:
                    return await self._fetch(file, path)
                except TransferError as exc:
                    if not exc.passing:
                        raise
                    log.warning("download_repeated file=%s cause=%r", file.name, str(exc))
                await asyncio.sleep(delay)
            return await self._fetch(file, path)

    async def _fetch(self, file: InputFile, path: Path) -> str:
        """One try: stream to disk, stop at the first byte too many. Returns the SHA-256."""
        # storage must hand out the bytes that the size and the MD5 are about
        headers = {"Accept-Encoding": "identity"}
        try:
            async with self._client.stream("GET", file.url, headers=headers) as response:
                if response.status_code != 200:
                    raise _refusal(file.name, response.status_code)
                return await _save(file, path, response)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as exc:
            raise _explain(file.name, exc) from exc


async def _save(file: InputFile, path: Path, response: httpx2.Response) -> str:
    digest, content, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    # disk writes in the loop: blocks are small, and a thread per block would cost more than it
    with path.open("wb") as target:
        async for block in response.aiter_raw(_BLOCK):
            size += len(block)
            if size > file.size_bytes:
                break
            digest.update(block)
            content.update(block)
            target.write(block)
    if size != file.size_bytes:
        text = f"{file.name}: {size} bytes arrived instead of {file.size_bytes}"
        raise TransferError(text, passing=True)
    if digest.hexdigest() != file.md5:
        raise TransferError(f"{file.name}: MD5 differs from what was announced", passing=True)
    return content.hexdigest()


def _refusal(name: str, status: int) -> TransferError:
    hint = ": its address has expired or was refused" if status == 403 else ""
    return TransferError(f"{name}: the storage answered {status}{hint}", passing=may_pass(status))


def _explain(name: str, error: Exception) -> TransferError:
    """The error's text may hold the address, and with it the signature: only its kind is told."""
    if isinstance(error, OSError):
        return TransferError(f"{name}: {error.strerror or type(error).__name__}", passing=False)
    text = f"{name}: no connection to the storage ({type(error).__name__})"
    return TransferError(text, passing=is_transport(error))


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as source:
        while block := source.read(_BLOCK):
            yield block


def offer_file(path: Path) -> FileOffer:
    """Measure a file. Reads all of it: call it in a thread."""
    size, md5 = path.stat().st_size, _md5_of(path)
    return FileOffer(name=path.name, size_bytes=size, md5=md5)


def _md5_of(path: Path) -> str:
    with path.open("rb") as source:
        digest = hashlib.file_digest(source, lambda: hashlib.md5(usedforsecurity=False))
    return digest.hexdigest()
