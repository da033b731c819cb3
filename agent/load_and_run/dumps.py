"""Write the files of a run other than the profile."""

import os
import struct
import sys
import threading

import numpy as np
from load_and_run.errors import Failure, log
from load_and_run.flags import FOLDERS

#: numpy dtype -> number of the dtype in a binary tensor file
_TYPES = {
    "float32": 0,
    "uint8": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "float16": 9,
    "uint16": 13,
}
_MOST_AXES = 7


def make_folders(flags):
    """Create missing folders, which the library does not."""
    for name in FOLDERS:
        if flags[name]:
            os.makedirs(flags[name], exist_ok=True)


def dump_variables(network, flags):
    """Make a loaded network dump the inputs and outputs of its operators in each run.

    Return None, or a pipe to close after the network is deleted, as that flushes the dump.
    """
    if flags["io_dump"]:
        log("enable text io dump")
        network.dump_text_to(flags["io_dump"])
    elif flags["io_dump_stdout"] or flags["io_dump_stderr"]:
        name = "stdout" if flags["io_dump_stdout"] else "stderr"
        log("enable text io dump to {}".format(name))
        pipe = _Pipe(getattr(sys, name))
        network.dump_text_to(pipe.path)
        return pipe
    elif flags["bin_io_dump"]:
        log("enable binary io dump")
        network.dump_binary_to(flags["bin_io_dump"])
    return None


class _Pipe(object):
    """A path for the library to write to, whose content is copied to `stream`.

    The library must not open /dev/stdout itself: if stdout is redirected to a file, that would
    truncate the file.
    """

    def __init__(self, stream):
        self._source, self._target = os.pipe()
        self.path = "/proc/self/fd/{}".format(self._target)
        stream.flush()
        self._thread = threading.Thread(target=self._copy, args=(stream,))
        self._thread.daemon = True
        self._thread.start()

    def _copy(self, stream):
        with os.fdopen(self._source, "rb", 0) as source:
            while True:
                chunk = source.read(65536)
                if not chunk:
                    return
                stream.buffer.write(chunk)
                stream.flush()

    def close(self):
        os.close(self._target)
        self._thread.join()


class OutputDump(object):
    """Writes the outputs after each run, warm-ups included, to files `run<k>-var<id>`."""

    def __init__(self, folder):
        self._folder = folder
        self._runs = 0

    def write(self, outputs):
        """Write the outputs of one run: tuples of (variable's id, name, array)."""
        for number, name, array in outputs:
            path = os.path.join(self._folder, "run{}-var{}".format(self._runs, number))
            try:
                with open(path, "wb") as file:
                    file.write(tensor_bytes(name, array))
            except OSError as error:
                raise Failure("cannot write {}: {}".format(path, error.strerror))
        self._runs += 1


def tensor_bytes(name, array):
    """Encode a tensor in the format that megengine.tools.compare_binary_iodump reads."""
    kind = _TYPES.get(array.dtype.name)
    if kind is None or array.ndim > _MOST_AXES:
        raise Failure(
            'output "{}" of type {} cannot be written in binary form'.format(name, array.dtype.name)
        )
    text = name.encode("utf-8")
    shape = array.shape + (0,) * (_MOST_AXES - array.ndim)
    head = struct.pack("<10I", len(text), kind, _MOST_AXES, *shape)
    return head + text + np.ascontiguousarray(array).tobytes()
