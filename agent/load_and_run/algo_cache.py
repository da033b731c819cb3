"""The cache file of fast-run, looked at before the library reads it: a broken one would crash it.

file := u32 categories, each: text, u32 entries, each: text key, text value
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
        categories, at = _number(content, 0)
        for _ in range(categories):
            at = _skip(content, at)
            entries, at = _number(content, at)
            for _ in range(2 * entries):
                at = _skip(content, at)
    except struct.error:
        return False
    return at == len(content)


def _number(content, at):
    return struct.unpack_from("<I", content, at)[0], at + 4


def _skip(content, at):
    length, at = _number(content, at)
    if at + length > len(content):
        raise struct.error
    return at + length
