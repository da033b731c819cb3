"""How fast a device is compared with itself, from short fixed work that it repeats (its canary).

Formulas:
- Share: the geometric mean of the ratios of usual and present times, one ratio for each kind of
work. 0.97: the device needs 3 % longer than usual. The usual time is the median of the history.
- Band: the range of 99 % of the shares of an undisturbed device, by robust quantiles: the 5 % and
95 % quantiles of the history, and the median absolute deviation, each extended to 99 % of a normal
distribution; the wider one is used. One reading in twenty may be off by any factor with little
effect on the band. It is at least 1 % to either side, since a smaller difference hardly matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: fewest readings from which the usual speed is known
LEAST_READINGS = 20
#: half width of 99 %, of 90 % and of one median absolute deviation, in standard deviations
_SIGMAS, _SIGMAS_OF_QUANTILES, _SIGMA_OF_MAD = 2.576, 1.645, 1.4826
#: half width of the narrowest band, as a logarithm
_NARROWEST = 0.01


@dataclass(frozen=True, eq=False)
class OwnSpeed:
    """The usual times of a device, ms, and the band of its shares."""

    usual_ms: Floats
    low: float
    high: float

    def share(self, times_ms: Sequence[float]) -> float:
        """Return the speed as a share of the usual one."""
        return float(np.exp(np.mean(_logs(self.usual_ms) - _logs(times_ms))))

    def contains(self, times_ms: Sequence[float]) -> bool:
        """Whether the device is as fast as usual."""
        return self.low <= self.share(times_ms) <= self.high


def own_speed(readings_ms: Sequence[Sequence[float]]) -> OwnSpeed | None:
    """Return the usual speed of a device; None with fewer than LEAST_READINGS.

    readings_ms: the times of each kind of work, for each reading
    """
    if len(readings_ms) < LEAST_READINGS:
        return None
    usual_ms = np.median(np.array(readings_ms, dtype=np.float64), axis=0)
    shares = np.mean(_logs(usual_ms) - _logs(readings_ms), axis=1)
    middle, low, high = np.quantile(shares, (0.5, 0.05, 0.95))
    by_deviation = _SIGMAS * _SIGMA_OF_MAD * float(np.median(np.abs(shares - middle)))
    widths = [
        max(by_deviation, _SIGMAS / _SIGMAS_OF_QUANTILES * float(distance), _NARROWEST)
        for distance in (middle - low, high - middle)
    ]
    return OwnSpeed(
        usual_ms, low=float(np.exp(middle - widths[0])), high=float(np.exp(middle + widths[1]))
    )


def _logs(times_ms: Sequence[float] | Sequence[Sequence[float]] | Floats) -> Floats:
    # a time of 0 is below the resolution of the clock
    return np.asarray(np.log(np.maximum(times_ms, 1e-9)))
