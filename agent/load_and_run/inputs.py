"""--input: npy files for the model's inputs, and whether the model can take them.

input := item (";" item)*        item := name ":" path of an npy file

The agent makes such a file of whatever it is given (`agent/inputs`), for every kind of runtime.
"""

import numpy as np
from load_and_run.errors import InputError


class TensorSpec(object):
    """What the model wants of one of its inputs."""

    def __init__(self, name, dtype, shape):
        self.name = name
        self.dtype = dtype
        self.shape = tuple(shape)

    def __str__(self):
        return "{} {} {}".format(self.name, self.dtype, braces(self.shape))


class InputEntry(object):
    """An array for one input; its values are not read before `read` is called."""

    def __init__(self, name, array):
        self.name = name
        self.dtype = array.dtype.newbyteorder("=").name
        self.shape = array.shape
        self._array = array

    def read(self):
        """The array in memory, in C order and this machine's byte order."""
        # a copy, so that no part of the file is read while a run is timed
        return np.array(self._array, dtype=self._array.dtype.newbyteorder("="), order="C")


def parse_input(text):
    """The items of --input as InputEntry, in order; files' headers are read. Raises InputError."""
    entries = []
    for item in text.split(";") if text else []:
        name, _, path = item.partition(":")
        if not path.endswith(".npy"):
            raise InputError(
                '"{}" in --input gives no npy file to an input; write name:file.npy'.format(item)
            )
        entries.append(InputEntry(name, _map_array(path)))
    return entries


def _map_array(path):
    """The array of an npy file, mapped into memory; nothing is unpickled."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise InputError('failed to open "{}": {}'.format(path, error.strerror))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise InputError('"{}" is not an npy file of numbers: {}'.format(path, error))
    if not array.shape or not array.size:
        raise InputError(
            '"{}" has the shape {}; every input has axes, of length 1 at least'.format(
                path, braces(array.shape)
            )
        )
    return array


def match(entries, tensors):
    """Pairs (InputEntry, TensorSpec) for the run, and warnings, without reading an array yet.

    Raises InputError if a name or a type does not fit. A shape may differ from the model's:
    MegEngine runs it if the operators can.
    """
    by_name = {want.name: want for want in tensors}
    pairs, warnings, seen = [], [], set()
    for item in entries:
        want = by_name.get(item.name)
        if want is None:
            raise InputError(_no_such_input(item.name, tensors))
        if item.name in seen:
            warnings.append('input "{}" is given twice; the first counts'.format(item.name))
            continue
        seen.add(item.name)
        if item.dtype != want.dtype:
            raise InputError(_other_type(item, want))
        if item.shape != want.shape:
            warnings.append(
                'input "{}" is {}, the model was made for {}'.format(
                    item.name, braces(item.shape), braces(want.shape)
                )
            )
        pairs.append((item, want))
    warnings.extend(
        'input "{}" ({} {}) is not given: the run takes what its memory holds'.format(
            want.name, want.dtype, braces(want.shape)
        )
        for want in tensors
        if want.name not in seen
    )
    return pairs, warnings


def _no_such_input(name, tensors):
    if not tensors:
        return 'input "{}" is given, but the model has no inputs'.format(name)
    return 'input "{}" is not an input of the model; its inputs are: {}'.format(
        name, ", ".join(str(want) for want in tensors)
    )


def _other_type(item, want):
    return 'input "{}" is given as {} {}, but the model wants {} {}'.format(
        item.name, item.dtype, braces(item.shape), want.dtype, braces(want.shape)
    )


def not_finite(array):
    """How many NaN and how many infinities `array` holds."""
    if array.dtype.kind != "f":
        return 0, 0
    nan = int(np.isnan(array).sum())
    return nan, int((~np.isfinite(array)).sum()) - nan


def braces(shape):
    """A shape as MegEngine writes it: {2,3,32,32}."""
    return "{" + ",".join(str(length) for length in shape) + "}"
