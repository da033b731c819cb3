"""Comparisons in memory: made once, kept for the next filter, order or page."""

import datetime
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from profiles.analysis.comparison.comparison import Comparison, compare
from profiles.analysis.data import ProfileData
from profiles.analysis.measuring import times_of
from profiles.derived.loading import profile_data
from profiles.derived.measurements import MeasurementFormatError, measurement_read
from profiles.models import Profile
from webprofile.errors import DomainError

#: of all profiles of a comparison together: 250,000 take some 10 s and 600 MB
MOST_OPERATORS = 250_000
#: of all comparisons that are kept, beyond the newest
_MOST_KEPT = 100_000

_Key = tuple[tuple[int, datetime.datetime], ...]


@dataclass(frozen=True, eq=False)
class Compared:
    """Profiles, the first of which is the baseline, and what came out.

    clean_ms: for each profile the times of its iterations without profiling, in order
    """

    profiles: tuple[Profile, ...]
    data: tuple[ProfileData, ...]
    comparison: Comparison
    clean_ms: tuple[tuple[float, ...], ...]


@dataclass
class _Kept:
    """The comparisons used last; for all threads of a process."""

    found: OrderedDict[_Key, Compared] = field(default_factory=OrderedDict)
    operators: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: _Key) -> Compared | None:
        with self.lock:
            if key in self.found:
                self.found.move_to_end(key)
            return self.found.get(key)

    def put(self, key: _Key, compared: Compared) -> None:
        with self.lock:
            if key not in self.found:
                self.found[key] = compared
                self.operators += _operators(compared.profiles)
            while self.operators > _MOST_KEPT and len(self.found) > 1:
                _, freed = self.found.popitem(last=False)
                self.operators -= _operators(freed.profiles)


_kept = _Kept()


def comparison_of(profiles: Sequence[Profile]) -> Compared:
    """Compare two to eight profiles with the first of them.

    Raises DomainError: comparison_large, profile_damaged, storage_unreachable.
    """
    if (operators := _operators(profiles)) > MOST_OPERATORS:
        raise DomainError("comparison_large", operators=operators, limit=MOST_OPERATORS)
    key = tuple((profile.pk, profile.built_at) for profile in profiles)
    known = _kept.get(key)
    if known is None:
        data = tuple(profile_data(profile) for profile in profiles)
        known = Compared(
            profiles=tuple(profiles),
            data=data,
            comparison=compare(data),
            clean_ms=tuple(_clean_ms(profile) for profile in profiles),
        )
        _kept.put(key, known)
    return known


def _operators(profiles: Sequence[Profile]) -> int:
    return sum(profile.operators for profile in profiles)


def _clean_ms(profile: Profile) -> tuple[float, ...]:
    if profile.attempt is None:
        return ()
    try:
        measurement = measurement_read(profile.attempt)
    except MeasurementFormatError:
        return ()
    if measurement is None:
        return ()
    kept = [each for each in measurement.passes if each.kept]
    return tuple(times_of(kept, "clean").tolist())
