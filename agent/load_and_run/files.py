"""Check files before the library reads them: models by their first bytes, caches of algorithms."""

import mmap
import os
import stat
import struct

from load_and_run.errors import FlagError, ModelError

#: magic bytes of all formats of `trace.dump` up to MegEngine 1.13, except `_V2`
_PLAIN = (b"mgb0001", b"mgb0000a", b"MGBS", b"MGBC")
_V2 = b"mgv2"  # at byte 8, after the size field of a FlatBuffers file
_PACKED = b"packed_model"  # written by load_and_run's --packed_model_dump
#: precedes a graph with test data (`trace.dump(input_data=...)`), with the number of test cases
_TEST_CASE = b"mgbtest0"
_TEST_CASE_BYTES = 12
#: `trace.dump` gives an input of this name to each output that it compares with a value
_EXPECTED = b":expect"
_SHORTEST = 16

#: magic bytes of files that are often uploaded by mistake
_OTHER_FORMATS = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"PK\x03\x04", "a zip archive, such as a PyTorch or npz file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x80\x02", "a Python pickle, as written by megengine.save"),
    (b"\x80\x03", "a Python pickle, as written by megengine.save"),
    (b"\x80\x04", "a Python pickle, as written by megengine.save"),
    (b"\x80\x05", "a Python pickle, as written by megengine.save"),
    (b"\x93NUMPY", "an npy file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x7fELF", "a program"),
    (b"{", "a JSON text"),
)


def is_packed(path):
    """Return whether `path` is a packed model, which only megenginelite can run."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_PACKED)) == _PACKED
    except OSError:
        return False  # check_model reports the reason


def skip_test_header(file):
    """Move an open file to the start of the graph: behind the header of test data, if any."""
    has_header = file.read(len(_TEST_CASE)) == _TEST_CASE
    file.seek(_TEST_CASE_BYTES if has_header else 0)
    return file.tell()


def graph_offset(path):
    """Return where the graph begins; megenginelite cannot load a file if this is not at 0."""
    try:
        with open(path, "rb") as file:
            return skip_test_header(file)
    except OSError:
        return 0  # check_model reports the reason


def mentions(path, name):
    """Return whether the bytes `name` occur in the file `path`, e.g. the name of an operator."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # check_model reports the reason
        return False
    try:
        return content.find(name) >= 0
    finally:
        content.close()


def check_model(path):
    """Raise ModelError, with the reason, if `path` cannot be a model."""
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise ModelError("{} is not a file".format(path))
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            offset = skip_test_header(file)
            head = file.read(32)
            size -= offset
    except OSError as error:
        raise ModelError("failed to open {}: {}".format(path, error.strerror))
    if not size:
        raise ModelError("the model file is empty (0 bytes)")
    if offset and mentions(path, _EXPECTED):
        raise ModelError(
            "the model compares its outputs with the values in its test data (mgbtest0), which the "
            "wheel cannot feed; dump it with no_assert=True, or without input_data"
        )
    if head[8:12] == _V2:
        _check_length(head, size)
    elif not head.startswith(_PLAIN + (_PACKED,)):
        raise ModelError("not a MegEngine model: {}".format(_looks_like(head)))
    if size < _SHORTEST:
        raise ModelError("the model file is truncated: it has only {} bytes".format(size))


def _check_length(head, size):
    """Compare the file's size with the length in its header; extra bytes at the end are allowed."""
    (length,) = struct.unpack("<I", head[:4])
    if length + 4 > size:
        raise ModelError(
            "the model file is truncated: it has {} of {} bytes".format(size, length + 4)
        )


def _looks_like(head):
    for magic, what in _OTHER_FORMATS:
        if head.startswith(magic):
            return "the file looks like {}".format(what)
    return "the file begins with the bytes {}".format(
        " ".join("{:02x}".format(byte) for byte in head[:12])
    )


def check_algo_cache(path):
    """Raise FlagError unless `path`, if it exists, is a cache of algorithms of fast-run.

    A broken cache crashes MegEngine. Format:

        file := u32 number of categories; per category: text, u32 number of entries; per entry:
                text key, text value
        text := u32 length, bytes
    """
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
            "ERROR: --fast_run_algo_policy: {} is not a cache of algorithms; remove it or use "
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
