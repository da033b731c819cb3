"""Random inputs that are the same on every device, today and later.

The generator is numpy's PCG64, seeded by `SeedSequence` with the seed and the first 8 bytes of the
SHA-256 of the input's name: two inputs of one model differ, and an input does not change when
another one is added. Its raw numbers are used, 64 bits for each element, since numpy keeps those
the same for ever but not what its `Generator` makes of them. Floats lie in [0, 1), uint8 in 0..255,
all other integers and bools are 0 or 1: valid indices of almost any table.
"""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.protocol.inputs import Array, Shape
from agent.protocol.inputs.npy import header_bytes

_DRAWN_AT_ONCE = 1 << 20


def write_random(
    path: Path, name: str, shape: Shape, dtype: np.dtype[np.generic], seed: int
) -> None:
    """Write a new npy file; at most a chunk is in memory."""
    count = math.prod(shape)
    with path.open("xb") as file:
        file.write(header_bytes(dtype, shape))
        for chunk in _draw(name, count, dtype, seed):
            file.write(chunk.tobytes())


def _draw(name: str, count: int, dtype: np.dtype[np.generic], seed: int) -> Iterator[Array]:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    entropy = [seed, int.from_bytes(digest[:8], "big")]
    generator = np.random.PCG64(np.random.SeedSequence(entropy))
    while count > 0:
        raw = generator.random_raw(min(count, _DRAWN_AT_ONCE))
        yield _numbers(raw, dtype).astype(dtype.newbyteorder("<"), copy=False)
        count -= _DRAWN_AT_ONCE


def _numbers(raw: NDArray[np.uint64], dtype: np.dtype[np.generic]) -> Array:
    """From 64 random bits each; as many bits are used as the type holds exactly."""
    if dtype.kind == "f":
        bits = {2: 11, 4: 24}[dtype.itemsize]
        return (raw >> np.uint64(64 - bits)) / np.float64(1 << bits)
    return raw >> np.uint64(56 if dtype == np.uint8 else 63)
