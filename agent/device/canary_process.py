"""A separate process that times a short fixed piece of work, to determine the device's speed.

It waits on stdin, so that a reading needs no start of an interpreter and no import, and its memory
addresses do not change. Each line on stdin requests one reading, which is one JSON line on stdout:

    {"gemm_ms": 0.4, "copy_ms": 0.7, "small_ms": 0.1}

The first line on stdout indicates that it is ready, and contains the versions that affect the
times. The only argument is a JSON list of the cores to run on; an empty one stands for all. The
work runs in one thread: the caller sets the environment variables of BLAS. The process exits when
stdin is closed, i.e. when the agent ends.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

#: duration of each kind of work, and of the one before that lets the clock rise
_PART_S, _WARM_UP_S = 0.018, 0.006
#: fewest repetitions of each kind, however slow the device is
_LEAST = 3
_GEMM_SIDE = 256
#: larger than the caches of a core, so that memory decides
_COPY_BYTES = 8 << 20
_SMALL_SIZE, _SMALL_COUNT = 64, 100


class Work:
    """The work, with arrays that are allocated once."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self._a, self._b = random.random((2, _GEMM_SIDE, _GEMM_SIDE), dtype=np.float32)
        self._product = np.empty_like(self._a)
        self._source = np.ones(_COPY_BYTES, dtype=np.uint8)
        self._copy = np.zeros_like(self._source)
        self._x, self._y = random.random((2, _SMALL_SIZE), dtype=np.float32)
        self._sum = np.empty_like(self._x)

    def read(self) -> dict[str, float]:
        """Return the median time of each kind of work, ms."""
        _median_ms(self._gemm, _WARM_UP_S)
        return {
            # before the copy, after which they are often slower for 10 ms
            "small_ms": _median_ms(self._small_operators, _PART_S),
            "gemm_ms": _median_ms(self._gemm, _PART_S),
            "copy_ms": _median_ms(self._copy_memory, _PART_S),
        }

    def _gemm(self) -> None:
        np.matmul(self._a, self._b, out=self._product)

    def _copy_memory(self) -> None:
        np.copyto(self._copy, self._source)

    def _small_operators(self) -> None:
        for _ in range(_SMALL_COUNT):
            np.add(self._x, self._y, out=self._sum)


def _median_ms(work: Callable[[], None], span_s: float) -> float:
    """Repeat the work for `span_s`, and return its median time: short bursts do not change it."""
    times: list[float] = []
    begin = end = time.perf_counter()
    while len(times) < _LEAST or end - begin < span_s:
        start = end
        work()
        end = time.perf_counter()
        times.append(end - start)
    return 1000 * statistics.median(times)


def main(cores: list[int]) -> int:
    """Answer requests until stdin is closed; return the exit status."""
    if cores:
        os.sched_setaffinity(0, cores)
    work = Work()
    work.read()  # allocates and loads what the first reading would otherwise include
    _answer({"numpy": np.__version__, "python": platform.python_version()})
    try:
        # not the buffered iterator of the file, which would read ahead
        while sys.stdin.readline():
            _answer(work.read())
    except KeyboardInterrupt:
        pass  # Ctrl-C reaches the whole process group
    return 0


def _answer(content: dict[str, float] | dict[str, str]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
