"""Generate random inputs that are the same on all devices and with all versions of numpy.

The generator is numpy's PCG64, seeded by `SeedSequence` with the seed and the first 8 bytes of the
SHA-256 of the input's name: the inputs of a model differ, and an input does not change if another
one is added. Each element is computed from 64 raw bits, because numpy guarantees a stable raw
sequence, but not stable results of its `Generator`. Floats are in [0, 1), uint8 in 0..255, other
integers and bools are 0 or 1, which are valid indices of almost any table.
"""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent.protocol.inputs import Array, Shape
from agent.protocol.inputs.npy import header_bytes

_CHUNK = 1 << 20


def write_random(
    path: Path, name: str, shape: Shape, dtype: np.dtype[np.generic], seed: int
) -> None:
    """Write random numbers to a new npy file, one chunk at a time."""
    count = math.prod(shape)
    with path.open("xb") as file:
        file.write(header_bytes(dtype, shape))
        for chunk in _chunks(name, count, dtype, seed):
            file.write(chunk.tobytes())


def _chunks(name: str, count: int, dtype: np.dtype[np.generic], seed: int) -> Iterator[Array]:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    entropy = [seed, int.from_bytes(digest[:8], "big")]
    generator = np.random.PCG64(np.random.SeedSequence(entropy))
    while count > 0:
        raw = generator.random_raw(min(count, _CHUNK))
        yield _numbers(raw, dtype).astype(dtype.newbyteorder("<"), copy=False)
        count -= _CHUNK


def _numbers(raw: NDArray[np.uint64], dtype: np.dtype[np.generic]) -> Array:
    """Convert 64 random bits per element to numbers, using as many bits as the dtype has."""
    if dtype.kind == "f":
        bits = {2: 11, 4: 24}[dtype.itemsize]
        return (raw >> np.uint64(64 - bits)) / np.float64(1 << bits)
    return raw >> np.uint64(56 if dtype == np.uint8 else 63)
