"""--input: what is to be put into which input, and whether the model can take it.

input := item (";" item)*        item := [ name ":" ] value
value := path of a .npy, .json, .ppm or .pgm file | "{" dim ("," dim)* "}"
       | numbers, also in brackets
"""

import re

import numpy as np
from load_and_run import literals, npy, pictures
from load_and_run.errors import InputError

#: input that an item without a name goes to
UNNAMED = "data"
_MOST_NUMBERS = 2**40
_SHAPE = re.compile(r"\{\s*[0-9]+(\s*,\s*[0-9]+)*\s*\}\Z")


class Wanted(object):
    """What the model wants of one of its inputs."""

    def __init__(self, name, dtype, shape):
        self.name = name
        self.dtype = dtype
        self.shape = tuple(shape)

    def __str__(self):
        return "{} {} {}".format(self.name, self.dtype, npy.braces(self.shape))


class Given(object):
    """What was given for one input. `dtype` None means: the model's own; `read` makes the array."""

    def __init__(self, name, dtype, shape, read):
        self.name = name
        self.dtype = dtype
        self.shape = tuple(shape)
        self.read = read


def parse_input(text):
    """The items of --input as Given, in order; files' headers are read. Raises InputError."""
    given = []
    for item in text.split(";") if text else []:
        name, colon, value = item.partition(":")
        if not colon:
            name, value = UNNAMED, item
        if not value.strip():
            raise InputError('--input has an empty item (in "{}")'.format(text))
        given.extend(_parse_value(name, value.strip()))
    return given


def _parse_value(name, value):
    if value.endswith(".npy"):
        header = npy.read_header(value)
        return [
            Given(name, _name(header.dtype), header.shape, lambda _: npy.read_values(value, header))
        ]
    if value.endswith(".json"):
        return [_of_array(key, array) for key, array in literals.read_json(value)]
    if value.endswith((".ppm", ".pgm")):
        picture = pictures.read_header(value)
        return [Given(name, "uint8", picture.shape, lambda _: pictures.read_values(value, picture))]
    if value.startswith("{"):
        return [_of_shape(name, value)]
    return [_of_array(name, literals.parse_literal(name, value))]


def _name(dtype):
    return dtype.newbyteorder("=").name


def _of_array(name, array):
    npy.check_axes('input "{}"'.format(name), array.shape)
    return Given(name, _name(array.dtype), array.shape, lambda _: array)


def _of_shape(name, text):
    if not _SHAPE.match(text):
        raise InputError('"{}" is no shape; write it as {{1,3,224,224}}'.format(text))
    shape = tuple(int(number) for number in re.findall("[0-9]+", text))
    npy.check_axes('input "{}"'.format(name), shape)
    if npy.count(shape) > _MOST_NUMBERS:
        raise InputError('input "{}": {} is too large'.format(name, text))
    return Given(name, None, shape, lambda dtype: _ones(shape, dtype))


def _ones(shape, dtype):
    """Every byte is 1, as load_and_run fills it."""
    return np.ones(npy.count(shape) * dtype.itemsize, np.uint8).view(dtype).reshape(shape)


def match(given, wanted):
    """Pairs (Given, Wanted) for the run, and warnings, without reading an array yet.

    Raises InputError if a name or a type does not fit. A shape may differ from the model's:
    MegEngine runs it if the operators can.
    """
    by_name = {want.name: want for want in wanted}
    pairs, warnings, seen = [], [], set()
    for item in given:
        want = by_name.get(item.name)
        if want is None:
            raise InputError(_no_such_input(item.name, wanted))
        if item.name in seen:
            warnings.append('input "{}" is given twice; the first counts'.format(item.name))
            continue
        seen.add(item.name)
        if item.dtype not in (None, want.dtype):
            raise InputError(_other_type(item, want))
        if item.shape != want.shape:
            warnings.append(
                'input "{}" is {}, the model was made for {}'.format(
                    item.name, npy.braces(item.shape), npy.braces(want.shape)
                )
            )
        pairs.append((item, want))
    warnings.extend(
        'input "{}" ({} {}) is not given: the run takes what its memory holds'.format(
            want.name, want.dtype, npy.braces(want.shape)
        )
        for want in wanted
        if want.name not in seen
    )
    return pairs, warnings


def _no_such_input(name, wanted):
    if not wanted:
        return 'input "{}" is given, but the model has no inputs'.format(name)
    return 'input "{}" is not an input of the model; its inputs are: {}'.format(
        name, ", ".join(str(want) for want in wanted)
    )


def _other_type(item, want):
    return 'input "{}" is given as {} {}, but the model wants {} {}'.format(
        item.name, item.dtype, npy.braces(item.shape), want.dtype, npy.braces(want.shape)
    )


def not_finite(array):
    """How many NaN and how many infinities `array` holds."""
    if array.dtype.kind != "f":
        return 0, 0
    nan = int(np.isnan(array).sum())
    return nan, int((~np.isfinite(array)).sum()) - nan
