"""Parse --input and match its npy files with the inputs of the model.

input := item (";" item)*        item := name ":" path of an npy file

A backslash takes the next character literally, so that a name may contain ":" and ";".

The agent converts all inputs of a task to npy files (`agent/inputs`), for every kind of runtime.
"""

import re

import numpy as np
from load_and_run.errors import InputError


class TensorSpec(object):
    """Name, dtype and shape of an input or output of the model."""

    def __init__(self, name, dtype, shape):
        self.name = name
        self.dtype = dtype
        self.shape = tuple(shape)

    def __str__(self):
        return "{} {} {}".format(self.name, self.dtype, braces(self.shape))


class InputEntry(object):
    """An array for one input; its values are read by `read` only."""

    def __init__(self, name, array):
        self.name = name
        self.dtype = array.dtype.newbyteorder("=").name
        self.shape = array.shape
        self._array = array

    def read(self):
        """Return the array in memory, in C order and native byte order."""
        # a copy, so that the file is not read while a run is timed
        return np.array(self._array, dtype=self._array.dtype.newbyteorder("="), order="C")


def parse_input(text):
    """Return the items of --input in order, and read the files' headers. Raises InputError."""
    entries = []
    for item in _split(text, ";") if text else []:
        name, path = (_split(item, ":", 1) + [""])[:2]
        entries.append(InputEntry(_unescape(name), _map_array(_unescape(path))))
    return entries


def _split(text, separator, most=0):
    """Split at a separator that no backslash precedes, `most` times or everywhere (0)."""
    parts, begin = [], 0
    for match in re.finditer(r"\\.|[:;]", text, re.DOTALL):
        if match.group() == separator and (not most or len(parts) < most):
            parts.append(text[begin : match.start()])
            begin = match.end()
    return parts + [text[begin:]]


def _unescape(text):
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _map_array(path):
    """Map the array of an npy file into memory; never unpickle."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise InputError('failed to open "{}": {}'.format(path, error.strerror))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise InputError('"{}" is not an npy file of numbers: {}'.format(path, error))


def match(entries, tensors):
    """Return pairs (InputEntry, TensorSpec) and a list of warnings, without reading the arrays.

    Raises InputError if a name or a dtype does not fit. A shape may differ from the model's, as
    MegEngine accepts it if the operators do.
    """
    by_name = {tensor.name: tensor for tensor in tensors}
    pairs, warnings = [], []
    for entry in entries:
        tensor = by_name.get(entry.name)
        if tensor is None:
            raise InputError(_no_such_input(entry.name, tensors))
        if entry.dtype != tensor.dtype:
            raise InputError(_other_type(entry, tensor))
        if entry.shape != tensor.shape:
            warnings.append(
                'input "{}" is {}, the model was made for {}'.format(
                    entry.name, braces(entry.shape), braces(tensor.shape)
                )
            )
        pairs.append((entry, tensor))
    given = {entry.name for entry in entries}
    warnings.extend(
        'input "{}" ({} {}) is not given: the run uses whatever its memory contains'.format(
            tensor.name, tensor.dtype, braces(tensor.shape)
        )
        for tensor in tensors
        if tensor.name not in given
    )
    return pairs, warnings


def _no_such_input(name, tensors):
    if not tensors:
        return 'input "{}" is given, but the model has no inputs'.format(name)
    return 'input "{}" is not an input of the model; its inputs are: {}'.format(
        name, ", ".join(str(tensor) for tensor in tensors)
    )


def _other_type(entry, tensor):
    return 'input "{}" is given as {} {}, but the model wants {} {}'.format(
        entry.name, entry.dtype, braces(entry.shape), tensor.dtype, braces(tensor.shape)
    )


def not_finite(array):
    """Return the number of NaNs and the number of infinities in `array`."""
    if array.dtype.kind != "f":
        return 0, 0
    nan = int(np.isnan(array).sum())
    return nan, int((~np.isfinite(array)).sum()) - nan


def braces(shape):
    """Format a shape as MegEngine does: {2,3,32,32}."""
    return "{" + ",".join(str(length) for length in shape) + "}"
