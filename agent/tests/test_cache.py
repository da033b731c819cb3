"""The cache of downloaded files: content-addressed, verified, limited in size."""

import errno
import hashlib
import os
import shutil
import threading
from types import SimpleNamespace

import pytest

from agent.link import cache as module
from agent.link.cache import ContentCache, sha256_of
from agent.protocol.messages import Hello


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class CacheFolder:
    """A cache, and a folder for files that are downloaded or taken from it."""

    def __init__(self, folder, limit_bytes=1000):
        self.folder, self.limit_bytes = folder, limit_bytes
        self.cache = ContentCache(folder / "cache", limit_bytes)
        self.taken = 0

    def keep(self, content: bytes) -> bool:
        path = self.folder / "downloaded"
        path.write_bytes(content)
        return self.cache.keep(path, digest(content))

    def take(self, content: bytes) -> bytes | None:
        """Return the cached content, None for a miss."""
        self.taken += 1
        target = self.folder / f"taken{self.taken}"
        is_cached = self.cache.take(digest(content), len(content), target)
        assert is_cached == target.exists()
        return target.read_bytes() if is_cached else None

    def path(self, content: bytes):
        return self.folder / "cache" / digest(content)

    def names(self):
        return {path.name for path in (self.folder / "cache").iterdir()}


@pytest.fixture
def store(tmp_path):
    return CacheFolder(tmp_path)


def failing(code: int):
    """Return a function that raises this OSError."""

    def fail(*_):
        raise OSError(code, os.strerror(code))

    return fail


def damage(path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


def test_a_change_of_the_copy_does_not_change_the_cache(store):
    assert store.take(b"model") is None
    assert store.keep(b"model")
    assert store.take(b"model") == b"model"
    (store.folder / "taken2").write_bytes(b"spoilt")
    assert store.take(b"model") == b"model"


def test_the_least_recently_used_file_is_evicted_first(store):
    first, second, third = (bytes([n]) * 400 for n in (1, 2, 3))
    for age, content in enumerate((first, second)):
        store.keep(content)
        os.utime(store.path(content), ns=(age, age))
    assert store.take(first) == first  # used now: the second is the oldest
    store.keep(third)
    assert store.names() == {digest(first), digest(third)}


def test_a_file_larger_than_the_cache_evicts_no_other(store):
    store.keep(b"small")
    assert not store.keep(b"x" * 1001)
    assert store.names() == {digest(b"small")}
    assert store.keep(b"y" * 1000)
    assert store.names() == {digest(b"y" * 1000)}


async def test_an_agent_without_a_cache_removes_an_earlier_one(device, server):
    device.changes["cache_bytes"] = 0
    earlier = device.spool / "cache" / digest(b"earlier")
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"earlier")
    device.start()
    await server.expect(Hello)
    assert not earlier.exists()


def test_a_cache_with_a_limit_of_0_bytes_keeps_nothing(tmp_path):
    store = CacheFolder(tmp_path, 0)
    assert not store.keep(b"model")
    assert store.take(b"model") is None


@pytest.mark.parametrize("content", [b"other", b"longer than before"])
def test_a_damaged_file_is_removed_and_a_miss(store, content):
    store.keep(b"model")
    damage(store.path(b"model"), content)
    assert store.take(b"model") is None
    assert store.names() == set()
    assert store.keep(b"model")
    assert store.take(b"model") == b"model"


def test_a_wrong_size_is_a_miss_and_keeps_the_file(store):
    store.keep(b"model")
    assert not store.cache.take(digest(b"model"), 7, store.folder / "target")
    assert store.names() == {digest(b"model")}


def test_a_large_file_is_hashed_once_and_again_after_a_change(store, monkeypatch):
    hashed = []
    monkeypatch.setattr(module, "HASHED_ALWAYS_BYTES", 3)
    monkeypatch.setattr(module, "sha256_of", lambda path: hashed.append(path) or sha256_of(path))
    store.keep(b"model")
    assert [store.take(b"model") for _ in range(3)] == [b"model"] * 3
    assert len(hashed) == 1
    damage(store.path(b"model"), b"MODEL")
    assert store.take(b"model") is None
    assert store.names() == set()


def test_a_new_cache_removes_partial_files_and_keeps_the_others(store):
    store.keep(b"model")
    (store.folder / "cache" / "partial-123").write_bytes(b"mod")
    reopened = CacheFolder(store.folder)
    assert reopened.names() == {digest(b"model")}
    assert reopened.take(b"model") == b"model"


def test_a_smaller_limit_evicts_files_at_the_start(store):
    store.keep(b"x" * 600)
    store.keep(b"y" * 300)
    assert CacheFolder(store.folder, 400).names() == {digest(b"y" * 300)}


def test_an_invalid_sha256_is_an_error(store, tmp_path):
    for name in ("../../etc/passwd", "", "A" * 64):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            store.cache.take(name, 1, tmp_path / "target")


def test_files_are_copied_without_copy_file_range(store, monkeypatch):
    monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    content = b"m" * 900
    assert store.keep(content)
    assert store.take(content) == content


def test_threads_share_one_cache(tmp_path):
    store = CacheFolder(tmp_path, 4096)
    contents = [bytes([n]) * 1024 for n in range(8)]
    wrong = []

    def use(number: int) -> None:
        for turn in range(40):
            content = contents[(number + turn) % 8]
            source = tmp_path / f"source{number}"
            source.write_bytes(content)
            store.cache.keep(source, digest(content))
            target = tmp_path / f"target{number}-{turn}"
            if store.cache.take(digest(content), 1024, target) and target.read_bytes() != content:
                wrong.append(target)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 1 <= len(store.names()) <= 4
    assert all(not name.startswith("partial") for name in store.names())


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_an_unreadable_file_is_removed_and_a_miss(store, monkeypatch, code):
    store.keep(b"model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_copy", failing(code))
        assert store.take(b"model") is None
    assert store.names() == set()
    assert store.keep(b"model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "sha256_of", failing(code))
        assert store.take(b"model") is None
    assert store.names() == set()


def test_a_folder_in_place_of_a_file_is_a_miss(store):
    store.path(b"model").mkdir()
    assert store.take(b"model") is None


def test_a_full_disk_is_a_miss_and_keeps_the_file(store, monkeypatch):
    store.keep(b"model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_copy", failing(errno.ENOSPC))
        assert store.take(b"model") is None
    assert store.take(b"model") == b"model"


@pytest.fixture
def small_disk(store, monkeypatch):
    """Limit the disk of the cache: its files and 1500 more bytes, a reserve of 500 included."""
    monkeypatch.setattr(module, "_RESERVE_BYTES", 500)

    def usage(_):
        held = sum(path.stat().st_size for path in (store.folder / "cache").iterdir())
        return SimpleNamespace(total=1 << 40, free=1500 - held)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    return store


def test_a_download_gets_the_disk_space_of_the_least_recently_used_files(small_disk):
    contents = [bytes([n]) * 300 for n in range(3)]
    for age, content in enumerate(contents):
        assert small_disk.keep(content)
        os.utime(small_disk.path(content), ns=(age, age))
    small_disk.cache.make_room(100)
    assert len(small_disk.names()) == 3
    small_disk.cache.make_room(500)
    assert small_disk.names() == {digest(contents[2])}
    # no space that the cache could give back is enough
    small_disk.cache.make_room(1501)
    assert small_disk.names() == {digest(contents[2])}


def test_the_cache_leaves_the_reserve_of_the_disk_free(small_disk):
    small_disk.limit_bytes = small_disk.cache._limit_bytes = 10_000
    for number in range(4):
        assert small_disk.keep(bytes([number]) * 400)
    assert len(small_disk.names()) == 2
    assert not small_disk.keep(b"x" * 1001)
    assert len(small_disk.names()) == 2


def test_a_cache_on_a_disk_that_others_have_filled_shrinks_at_the_start(small_disk, monkeypatch):
    assert small_disk.keep(b"x" * 300)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=100))
    assert CacheFolder(small_disk.folder).names() == set()
