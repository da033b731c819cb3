"""Content-addressed cache of downloaded files: `<spool>/cache/<sha256>`.

A run gets a copy. With a hard link, a run that writes into its model would corrupt the cache for
later runs. A copy inside the kernel is free on file systems with reflinks (btrfs, XFS) and takes
1 s for 1 to 3 GB on others, which is faster than any network.

The size of a copy is always verified. Its hash is verified for files up to 64 MiB (at most 0.15 s),
and for larger files unless this agent has hashed the same inode before and it has not changed
since. Only the agent can write here, so these checks are for damage by a crash or a power cut;
therefore writes do not call fsync, which would delay the start of runs.

The cache leaves a reserve of the disk free for runs, and gives space back before a download that
needs it: what is cached can be downloaded again, but a run cannot start on a full disk.
"""

import contextlib
import errno
import hashlib
import logging
import os
import re
import shutil
import threading
import uuid
from pathlib import Path

log = logging.getLogger(__name__)

_NAME = re.compile(r"[0-9a-f]{64}")
_PARTIAL = "partial-"
HASHED_ALWAYS_BYTES = 64 << 20
_BLOCK_BYTES = 1 << 24
#: disk space that the cache leaves free: the smaller of these bytes and this share of a small disk
_RESERVE_BYTES = 2 << 30
_RESERVE_SHARE = 0.1
#: errors that mean that the file itself is unreadable
_UNREADABLE = {errno.EIO, errno.EACCES, errno.EISDIR, errno.EBADMSG, errno.EUCLEAN, errno.ESTALE}


class ContentCache:
    """LRU cache of at most `limit_bytes` of files, fewer on a full disk; 0 disables it.

    It is safe to use from several threads of one agent; the lock of the spool excludes other
    agents. All methods block on disk I/O.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        """Remove partial files of a crash, and files over the limit. Raises OSError."""
        self._folder, self._limit_bytes = folder, limit_bytes
        self._lock = threading.Lock()
        #: files whose content was checked: inode, size and time of last change
        self._known: dict[str, tuple[int, int, int]] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name) is None:
                path.unlink()
        self._shrink(min(limit_bytes, self._room()))

    def take(self, sha256: str, size_bytes: int, target: Path) -> bool:
        """Copy the file to `target`, which must not exist; return False if it must be downloaded.

        A cached file that is damaged or unreadable is dropped. I/O errors are logged and treated as
        a cache miss: the download then reports whether `target` is writable. Raises ValueError for
        an invalid sha256.
        """
        path = self._path(sha256)
        try:
            taken = self._copy_out(path, sha256, size_bytes, target)
        except FileNotFoundError:
            taken = False
        except OSError as exc:
            log.warning("cache_not_read file=%s cause=%r", sha256, exc.strerror)
            # a full disk does not mean that the cached file is damaged
            if exc.errno in _UNREADABLE:
                self._drop(path)
            taken = False
        if taken:
            self._touch(path, sha256)
        else:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
        return taken

    def keep(self, path: Path, sha256: str) -> bool:
        """Add a copy of a file whose content was verified and that is not being written to.

        Call it before the run starts. Returns False if it exceeds the cache or the disk is full.
        """
        kept, partial = self._path(sha256), self._folder / f"{_PARTIAL}{uuid.uuid4().hex}"
        try:
            size = path.stat().st_size
            with self._lock:
                self._remove(kept)
                most = min(self._limit_bytes, self._room())
                if size > most:
                    return False
                self._shrink(most - size)
                with path.open("rb") as source, partial.open("xb") as sink:
                    _copy(source.fileno(), sink.fileno(), size)
                partial.chmod(0o400)
                partial.replace(kept)
        except OSError as exc:
            log.warning("cache_not_written cause=%r", exc.strerror)
            return False
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        return True

    def make_room(self, size: int) -> None:
        """Remove the least recently used files until a download of `size` bytes leaves the reserve.

        Nothing is removed if the disk is too small even without them. Errors are logged: the
        download reports whether it fits.
        """
        try:
            with self._lock:
                if size <= self._held() + shutil.disk_usage(self._folder).free:
                    self._shrink(self._room() - size)
        except OSError as exc:
            log.warning("cache_not_shrunk cause=%r", exc.strerror)

    def _copy_out(self, path: Path, sha256: str, size_bytes: int, target: Path) -> bool:
        """Copy and verify a file; return False if it does not match. Raises OSError."""
        with path.open("rb") as source:
            # another thread may evict the file now, but an open file stays readable
            size = os.fstat(source.fileno()).st_size
            if size != size_bytes:
                # either the caller's size or the cached file is wrong
                if sha256_of(path) != sha256:
                    self._drop(path)
                return False
            with target.open("xb") as sink:
                _copy(source.fileno(), sink.fileno(), size)
            stamp = _stamp(os.fstat(source.fileno()))
        is_checked = size > HASHED_ALWAYS_BYTES and self._known.get(sha256) == stamp
        if not is_checked and sha256_of(target) != sha256:
            self._drop(path)
            return False
        return True

    def _path(self, sha256: str) -> Path:
        if _NAME.fullmatch(sha256) is None:
            raise ValueError("a sha256 has 64 hexadecimal digits")
        return self._folder / sha256

    def _touch(self, path: Path, sha256: str) -> None:
        """Mark the file as used, and record its stamp afterwards, since utime changes the ctime."""
        with self._lock, contextlib.suppress(OSError):
            os.utime(path)
            self._known[sha256] = _stamp(path.stat())

    def _drop(self, path: Path) -> None:
        log.warning("cache_damaged file=%s", path.name)
        # on a file system that has become read-only the file stays, and is found damaged again
        with contextlib.suppress(OSError):
            self._remove(path)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._known.pop(path.name, None)

    def _room(self) -> int:
        """Return the possible size of the cache in bytes without using the reserve of the disk."""
        disk = shutil.disk_usage(self._folder)
        reserve = min(_RESERVE_BYTES, int(disk.total * _RESERVE_SHARE))
        return self._held() + disk.free - reserve

    def _held(self) -> int:
        return sum(size for _, size, _ in self._entries())

    def _shrink(self, most: int) -> None:
        """Remove the least recently used files until at most `most` bytes are left."""
        held = self._held()
        for _, size, path in sorted(self._entries()):
            if held <= most:
                return
            self._remove(path)
            held -= size

    def _entries(self) -> list[tuple[int, int, Path]]:
        """Return (time of last use, size, path) of every file."""
        entries = []
        for entry in os.scandir(self._folder):
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(FileNotFoundError):
                    known = entry.stat()
                    entries.append((known.st_mtime_ns, known.st_size, Path(entry.path)))
        return entries


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file. Reads the file: call it in a thread. Raises OSError."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_ctime_ns


def _copy(source: int, sink: int, size: int) -> None:
    """Copy inside the kernel, by reflink if the file system supports it. Raises OSError."""
    done = 0
    try:
        while done < size:
            copied = os.copy_file_range(source, sink, min(size - done, _BLOCK_BYTES))
            if not copied:
                return
            done += copied
    except (OSError, AttributeError):
        # another file system, or a kernel or C library without copy_file_range
        _copy_rest(source, sink, done)


def _copy_rest(source: int, sink: int, done: int) -> None:
    os.lseek(source, done, os.SEEK_SET)
    os.lseek(sink, done, os.SEEK_SET)
    with os.fdopen(os.dup(source), "rb") as reader, os.fdopen(os.dup(sink), "wb") as writer:
        shutil.copyfileobj(reader, writer, 1 << 20)
