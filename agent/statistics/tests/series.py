"""Synthetic series of known effect: pairs of processes, and iterations of one process."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: what disturbs the turns of a pair. `dependent` breaks the assumption that pairs are independent:
#: neighbouring pairs have a correlation of 0.3
PairKind = Literal[
    "normal", "heavy tails", "autocorrelation", "drift", "two modes", "bursts", "dependent"
]
PAIR_KINDS: tuple[PairKind, ...] = get_args(PairKind)
BLOCKS, TURNS_OF_BLOCK = 3, 4
#: turns of the other program in a block A B B A
_IS_OTHER = np.array([False, True, True, False])


def pair_values(
    kind: PairKind, rng: np.random.Generator, series: int, pairs: int, scatter: float
) -> Floats:
    """Return (pairs, series) log ratios of pairs without a true difference.

    scatter: their standard deviation by the median of absolute deviations
    """
    turns = BLOCKS * TURNS_OF_BLOCK
    bias = _biases(kind, rng, series, pairs)
    logs = 0.3 * rng.normal(size=(series, pairs, turns))
    logs += _speed(kind, rng, series, pairs * turns).reshape(logs.shape)
    blocks = logs.reshape(series, pairs, BLOCKS, TURNS_OF_BLOCK)
    ratios = blocks[..., _IS_OTHER].mean(axis=-1) - blocks[..., ~_IS_OTHER].mean(axis=-1)
    # each pair begins with either program, by chance
    order = rng.choice([-1.0, 1.0], size=(series, pairs))
    values = order * np.median(ratios, axis=-1) + bias
    values *= scatter / (1.4826 * float(np.median(np.abs(values))))
    return np.ascontiguousarray(values.T)


def _biases(kind: PairKind, rng: np.random.Generator, series: int, pairs: int) -> Floats:
    """Return (series, pairs) differences of the two processes as a whole."""
    shape = (series, pairs, 2)
    if kind == "heavy tails":
        each = rng.standard_t(2, size=shape)
    elif kind == "two modes":
        each = 4.0 * (rng.random(shape) < 0.3) + 0.5 * rng.normal(size=shape)
    else:
        each = rng.normal(size=shape)
    difference: Floats = each[..., 1] - each[..., 0]
    return autocorrelated(difference, 0.3) if kind == "dependent" else difference


def _speed(kind: PairKind, rng: np.random.Generator, series: int, turns: int) -> Floats:
    """Return (series, turns) the speed of the machine, which both programs meet."""
    if kind == "autocorrelation":
        return 5.0 * autocorrelated(rng.normal(size=(series, turns)), 0.95)
    if kind == "drift":
        slope = rng.normal(0, 20, size=(series, 1)) * np.linspace(0, 1, turns)
        return slope + 0.3 * np.cumsum(rng.normal(size=(series, turns)), axis=1)
    if kind == "bursts":
        # one in 40 turns starts a burst, which lasts 15 turns on average
        starts = rng.random((series, turns)) < 1 / 40
        lengths = rng.geometric(1 / 15, size=(series, turns))
        places = np.arange(turns)
        ends = np.maximum.accumulate(np.where(starts, places + lengths, 0), axis=1)
        return np.where(places < ends, rng.exponential(15.0, size=(series, turns)), 0.0)
    return np.zeros((series, turns))


def autocorrelated(noise: Floats, correlation: float) -> Floats:
    """Return an AR(1) series along the last axis, with the variance of the noise."""
    result = noise.copy()
    fresh = np.sqrt(1 - correlation**2)
    for place in range(1, noise.shape[-1]):
        result[..., place] = correlation * result[..., place - 1] + fresh * noise[..., place]
    return result


def iterations(
    rng: np.random.Generator,
    series: int,
    n: int,
    scatter: float,
    *,
    tails: bool,
    correlation: float,
) -> Floats:
    """Return (series, n) times of iterations, ms, with a median of 10 ms.

    tails: whether single iterations are much slower
    """
    noise = np.abs(rng.standard_t(2, size=(series, n))) if tails else rng.normal(size=(series, n))
    if correlation:
        noise = autocorrelated(noise, correlation)
    return np.asarray(10 * np.exp(np.clip(scatter * noise, -3, 3)))
