"""The cache of downloaded files: content-addressed, verified, limited in size."""

import errno
import hashlib
import os
import threading

import pytest

from agent.link import cache as module
from agent.link.cache import ContentCache, sha256_of


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
def cached(tmp_path):
    return CacheFolder(tmp_path)


def failing(code: int):
    """Return a function that raises this OSError."""

    def fail(*_):
        raise OSError(code, os.strerror(code))

    return fail


def damage(path, content: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(content)


def test_a_kept_file_is_given_as_a_copy_that_a_run_may_spoil(cached):
    assert cached.take(b"model") is None
    assert cached.keep(b"model")
    assert cached.take(b"model") == b"model"
    (cached.folder / "taken2").write_bytes(b"spoilt")
    assert cached.take(b"model") == b"model"


def test_what_was_used_least_recently_leaves_first(cached):
    first, second, third = (bytes([n]) * 400 for n in (1, 2, 3))
    for age, content in enumerate((first, second)):
        cached.keep(content)
        os.utime(cached.path(content), ns=(age, age))
    assert cached.take(first) == first  # used now: the second is the oldest
    cached.keep(third)
    assert cached.names() == {digest(first), digest(third)}
    assert cached.cache.size_bytes() == 800


def test_a_file_larger_than_the_cache_is_not_kept_and_costs_no_other(cached):
    cached.keep(b"small")
    assert not cached.keep(b"x" * 1001)
    assert cached.names() == {digest(b"small")}
    assert cached.keep(b"y" * 1000)
    assert cached.names() == {digest(b"y" * 1000)}


def test_a_cache_of_no_bytes_keeps_nothing(tmp_path):
    cached = CacheFolder(tmp_path, 0)
    assert not cached.keep(b"model")
    assert cached.take(b"model") is None


@pytest.mark.parametrize("content", [b"other", b"longer than before"])
def test_a_damaged_file_is_dropped_and_is_a_miss(cached, content):
    cached.keep(b"model")
    damage(cached.path(b"model"), content)
    assert cached.take(b"model") is None
    assert cached.names() == set()
    assert cached.keep(b"model")
    assert cached.take(b"model") == b"model"


def test_a_wrong_size_is_a_miss_that_costs_nothing(cached):
    cached.keep(b"model")
    assert not cached.cache.take(digest(b"model"), 7, cached.folder / "target")
    assert cached.names() == {digest(b"model")}


def test_a_large_file_is_hashed_until_it_is_known_and_again_when_it_changed(cached, monkeypatch):
    hashed = []
    monkeypatch.setattr(module, "HASHED_ALWAYS_BYTES", 3)
    monkeypatch.setattr(module, "sha256_of", lambda path: hashed.append(path) or sha256_of(path))
    cached.keep(b"model")
    assert [cached.take(b"model") for _ in range(3)] == [b"model"] * 3
    assert len(hashed) == 1
    damage(cached.path(b"model"), b"MODEL")
    assert cached.take(b"model") is None
    assert cached.names() == set()


def test_what_a_crash_left_is_removed_and_the_rest_is_found_again(cached):
    cached.keep(b"model")
    (cached.folder / "cache" / "partial-123").write_bytes(b"mod")
    again = CacheFolder(cached.folder)
    assert again.names() == {digest(b"model")}
    assert again.take(b"model") == b"model"


def test_a_smaller_limit_holds_from_the_start(cached):
    cached.keep(b"x" * 600)
    cached.keep(b"y" * 300)
    assert CacheFolder(cached.folder, 400).names() == {digest(b"y" * 300)}


def test_a_name_that_is_no_sha256_is_an_error(cached, tmp_path):
    for name in ("../../etc/passwd", "", "A" * 64):
        with pytest.raises(ValueError, match="64 hexadecimal digits"):
            cached.cache.take(name, 1, tmp_path / "target")


def test_where_the_kernel_copies_nothing_the_copy_is_made_by_hand(cached, monkeypatch):
    monkeypatch.setattr(os, "copy_file_range", failing(errno.EXDEV))
    content = b"m" * 900
    assert cached.keep(content)
    assert cached.take(content) == content


def test_threads_share_one_cache(tmp_path):
    cached = CacheFolder(tmp_path, 4096)
    contents = [bytes([n]) * 1024 for n in range(8)]
    wrong = []

    def use(number: int) -> None:
        for turn in range(40):
            content = contents[(number + turn) % 8]
            source = tmp_path / f"source{number}"
            source.write_bytes(content)
            cached.cache.keep(source, digest(content))
            target = tmp_path / f"target{number}-{turn}"
            if cached.cache.take(digest(content), 1024, target) and target.read_bytes() != content:
                wrong.append(target)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < cached.cache.size_bytes() <= 4096
    assert all(not name.startswith("partial") for name in cached.names())


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_file_that_cannot_be_read_is_dropped_and_is_a_miss(cached, monkeypatch, code):
    cached.keep(b"model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_copy", failing(code))
        assert cached.take(b"model") is None
    assert cached.names() == set()
    assert cached.keep(b"model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "sha256_of", failing(code))
        assert cached.take(b"model") is None
    assert cached.names() == set()


def test_something_else_in_a_files_place_is_a_miss(cached):
    cached.path(b"model").mkdir()
    assert cached.take(b"model") is None


def test_a_full_disk_is_a_miss_and_costs_no_file(cached, monkeypatch):
    cached.keep(b"model")
    with monkeypatch.context() as patch:
        patch.setattr(module, "_copy", failing(errno.ENOSPC))
        assert cached.take(b"model") is None
    assert cached.take(b"model") == b"model"
