"""Ids of operators and variables as numpy arrays, read without creating Python objects."""

from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Index = NDArray[np.intp]

_QUOTE, _OPEN, _CLOSE = b'"[]'
_ALLOWED = b'0123456789",[] \t\r\n'
_MOST_DIGITS = 18
#: a lookup table up to the largest id is used while it has at most this many entries per id
_DENSE = 16


class IdIndex:
    """Maps n distinct ids to their positions."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._table: Index | None = None
        self._order: Index | None = None
        if not len(ids):
            return
        if ids.min() >= 0 and ids.max() < _DENSE * len(ids) + 1000:
            self._table = np.full(ids.max() + 1, -1, dtype=np.intp)
            self._table[ids] = np.arange(len(ids))
        else:
            self._order = np.argsort(ids)

    def find(self, ids: Ids) -> Index:
        """Return the (m,) position of each id, -1 for an unknown id."""
        if self._table is not None:
            inside = (ids >= 0) & (ids < len(self._table))
            return np.where(inside, self._table[np.where(inside, ids, 0)], -1)
        if self._order is None:
            return np.full(len(ids), -1, dtype=np.intp)
        at = np.searchsorted(self._ids, ids, sorter=self._order)
        positions = self._order[np.minimum(at, len(self._ids) - 1)]
        return np.where(self._ids[positions] == ids, positions, -1)


def id_array(ids: Collection[int]) -> Ids:
    """Return (n,) ids. Raises OverflowError for an id beyond 64 bits."""
    return np.fromiter(ids, dtype=np.int64, count=len(ids))


def id_lists(raws: Sequence[Raw]) -> tuple[Index, Ids] | None:
    """Read n JSON lists of quoted ids, such as `["12", "7"]`.

    Returns the (n,) lengths and all ids concatenated, or None if the lists contain anything but ids
    as MegEngine writes them: digits without leading zeros.
    """
    joined = b"".join(raws)
    if joined.translate(None, _ALLOWED):
        return None
    text = np.frombuffer(joined, dtype=np.uint8)
    digits = text - np.uint8(ord("0"))
    is_digit = digits < 10
    # lists begin and end with brackets, so the edges of numbers come in pairs
    edges = np.flatnonzero(is_digit[1:] != is_digit[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    opening, closing = np.flatnonzero(text == _OPEN), np.flatnonzero(text == _CLOSE)
    quotes = text == _QUOTE
    lengths = ends - starts if len(starts) == len(ends) else np.full(1, _MOST_DIGITS + 1)
    if (
        lengths.max(initial=0) > _MOST_DIGITS
        or ((digits[starts] == 0) & (lengths > 1)).any()
        # every string consists of digits
        or np.count_nonzero(quotes) != 2 * len(starts)
        or not (quotes[starts - 1] & quotes[ends]).all()
        # each text is one list
        or not (len(opening) == len(closing) == len(raws))
        or not (opening < closing).all()
        or not (opening[1:] > closing[:-1]).all()
    ):
        return None
    counts = np.searchsorted(starts, closing) - np.searchsorted(starts, opening)
    if counts.sum() != len(starts):
        return None
    return counts, _values(digits, starts, lengths)


def _values(digits: NDArray[np.uint8], starts: Index, lengths: Index) -> Ids:
    values = np.zeros(len(starts), dtype=np.int64)
    for place in range(lengths.max(initial=0)):
        longer = lengths > place
        values[longer] = values[longer] * 10 + digits[starts[longer] + place]
    return values
