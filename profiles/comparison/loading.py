"""Cache comparisons in memory, so that profiles are aligned once for all filters, orders and pages.

Verdicts depend on all runs of the device so far, so each request loads these; the last verdicts are
reused only if they depend on the same runs.
"""

import datetime
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cachetools import LRUCache, cached

from agent.statistics.unpaired import Basis, Judgement, judge_total
from profiles.analysis.data import ProfileData
from profiles.comparison.comparison import Bases, Comparison, align_profiles, judged
from profiles.comparison.history import (
    FIGURES,
    Evidence,
    Figure,
    clean_medians_s,
    evidence_of,
)
from profiles.formats.columns import SIDES
from profiles.ingest.loading import profile_data
from profiles.models import AttemptMeasurement, Profile
from webprofile.errors import DomainError

#: most operators of all profiles of a comparison together: 250,000 take about 10 s and 600 MB
MOST_OPERATORS = 250_000
#: most operators of all cached comparisons, except the newest
_MOST_KEPT = 100_000


@dataclass(eq=False)
class _Aligned:
    """Profiles without verdicts, and the last verdicts with the evidence they depend on."""

    data: tuple[ProfileData, ...]
    comparison: Comparison
    last: tuple[Bases, Comparison] | None = None

    def judged(self, bases: Bases) -> Comparison:
        last = self.last
        if last is None or last[0] != bases:
            last = self.last = bases, judged(self.comparison, bases)
        return last[1]


@dataclass(frozen=True, eq=False)
class ComparisonResult:
    """The result of a comparison; the first profile is the baseline.

    evidence: one per profile, about its run
    latency_s: for each profile the median iteration time without profiling, s; nan without one
    latency: one verdict on it for each profile but the baseline
    """

    profiles: tuple[Profile, ...]
    data: tuple[ProfileData, ...]
    comparison: Comparison
    evidence: tuple[Evidence, ...]
    latency_s: tuple[float, ...]
    latency: tuple[Judgement, ...]

    def basis(self, other: int, figure: Figure) -> Basis:
        """Return the basis of the verdict on a profile (counted from 1)."""
        return _basis(self.evidence[0], self.evidence[other], figure)

    def totals(self) -> list[tuple[Figure, Sequence[float], Sequence[Judgement]]]:
        """Return (figure, values of all profiles in s, verdicts): the latency if any profile has
        one, which has many iterations of several processes, and the totals of both sides.
        """
        totals: list[tuple[Figure, Sequence[float], Sequence[Judgement]]] = []
        if not all(map(math.isnan, self.latency_s)):
            totals.append(("latency", self.latency_s, self.latency))
        for side in SIDES:
            numbers = self.comparison.side(side)
            totals.append((side, numbers.total_s.tolist(), numbers.totals))
        return totals


def comparison_of(profiles: Sequence[Profile]) -> ComparisonResult:
    """Compare two to eight profiles with the first of them.

    Raises DomainError: comparison_large, operators_none, profile_damaged, profile_outdated,
    storage_unreachable.
    """
    operators = sum(profile.operators for profile in profiles)
    if operators > MOST_OPERATORS:
        raise DomainError("comparison_large", operators=operators, limit=MOST_OPERATORS)
    aligned = _align(profiles)
    evidence = tuple(evidence_of([profile.attempt for profile in profiles]))
    bases = {
        figure: tuple(_basis(evidence[0], other, figure) for other in evidence[1:])
        for figure in FIGURES
    }
    return ComparisonResult(
        profiles=tuple(profiles),
        data=aligned.data,
        comparison=aligned.judged({side: bases[side] for side in SIDES}),
        evidence=evidence,
        latency_s=tuple(_latency_s(profile.measurement) for profile in profiles),
        latency=tuple(
            _judge_latency(profiles[0].measurement, other.measurement, basis)
            for other, basis in zip(profiles[1:], bases["latency"], strict=True)
        ),
    )


def judge_latency(base: AttemptMeasurement, check: AttemptMeasurement) -> Judgement:
    """Return the verdict on the latency of a check, which needs no profile.

    Only runs that ended before the check count. The check is equal to earlier checks of the same
    result, so with it, the scatter of equal runs would contain the difference that is judged.
    """
    attempts = [base.attempt, check.attempt]
    of_base, of_check = evidence_of(attempts, before=check.attempt.ended_at)
    return _judge_latency(base, check, _basis(of_base, of_check, "latency"))


def _key(profiles: Sequence[Profile]) -> tuple[tuple[int, datetime.datetime], ...]:
    return tuple((profile.pk, profile.built_at) for profile in profiles)


def _size(aligned: _Aligned) -> int:
    """Return the number of operators in the cache; a larger comparison is cached alone."""
    return min(sum(len(data.columns) for data in aligned.data), _MOST_KEPT)


@cached(LRUCache(_MOST_KEPT, getsizeof=_size), key=_key, lock=threading.Lock())
def _align(profiles: Sequence[Profile]) -> _Aligned:
    data = tuple(profile_data(profile) for profile in profiles)
    return _Aligned(data, align_profiles(data))


def _basis(base: Evidence, other: Evidence, figure: Figure) -> Basis:
    return Basis(
        base=base.scatter[figure],
        other=other.scatter[figure],
        disturbed=base.disturbed or other.disturbed,
    )


def _latency_s(measurement: AttemptMeasurement | None) -> float:
    if measurement is None or measurement.median_ms is None:
        return math.nan
    return measurement.median_ms / 1000


def _judge_latency(
    base: AttemptMeasurement | None, other: AttemptMeasurement | None, basis: Basis
) -> Judgement:
    """Return a verdict; a process without profiling is one sample."""
    return judge_total(
        np.array(clean_medians_s(base)),
        np.array(clean_medians_s(other)),
        displayed=_latency_s(other) / (_latency_s(base) or math.nan),
        basis=basis,
        is_latency=True,
    )
