"""Validate the cache file of fast-run before MegEngine reads it, as a broken file crashes it.

file := u32 number of categories; per category: text, u32 number of entries; per entry: text key,
text value
text := u32 length, bytes
"""

import struct

from load_and_run.errors import FlagError


def check(path):
    """Raise FlagError unless `path`, if it exists, is a cache of algorithms."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return
    except OSError as error:
        raise FlagError(
            "ERROR: --fast_run_algo_policy: cannot read {}: {}".format(path, error.strerror)
        )
    if not _is_cache(content):
        raise FlagError(
            "ERROR: --fast_run_algo_policy: {} is no cache of algorithms; remove it or name "
            "another file".format(path)
        )


def _is_cache(content):
    try:
        categories, offset = _read_u32(content, 0)
        for _ in range(categories):
            offset = _skip_text(content, offset)
            entries, offset = _read_u32(content, offset)
            for _ in range(2 * entries):
                offset = _skip_text(content, offset)
    except struct.error:
        return False
    return offset == len(content)


def _read_u32(content, offset):
    return struct.unpack_from("<I", content, offset)[0], offset + 4


def _skip_text(content, offset):
    length, offset = _read_u32(content, offset)
    if offset + length > len(content):
        raise struct.error
    return offset + length
