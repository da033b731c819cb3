"""Longest common subsequence of two lists, fast enough for ten thousand operators.

Method: bit-parallel, one Python integer per row (M. Crochemore, C. S. Iliopoulos, Y. J. Pinzon, J.
    F. Reid, "A fast and practical bit-vector algorithm for the longest common subsequence problem",
    2001), then a walk back through the rows.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Sequence

#: most bits kept in memory; beyond this, the k-th occurrences of tokens are paired
MOST_BITS = 400_000_000


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the indices (in a, in b) of a longest common subsequence, ascending in both.

    If len(a) * len(b) exceeds MOST_BITS, it is a common subsequence, but not necessarily a longest.
    """
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    if len(middle_a) * len(middle_b) > MOST_BITS:
        middle = _by_appearance(middle_a, middle_b)
    else:
        middle = _longest(middle_a, middle_b)
    return [
        *((place, place) for place in range(head)),
        *((x + head, y + head) for x, y in middle),
        *((len(a) - k, len(b) - k) for k in range(tail, 0, -1)),
    ]


def longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest part of `pairs`, sorted by the first number, in which the second ascends
    too.

    The numbers are unique on each side. Patience sorting, O(n log n).
    """
    ordered = sorted(pairs)
    tops: list[int] = []
    top_index: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(ordered):
        pile = bisect_left(tops, value)
        before.append(top_index[pile - 1] if pile else -1)
        if pile == len(tops):
            tops.append(value)
            top_index.append(index)
        else:
            tops[pile], top_index[pile] = value, index
    path = []
    index = top_index[-1] if top_index else -1
    while index >= 0:
        path.append(ordered[index])
        index = before[index]
    return path[::-1]


def _longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    masks: defaultdict[Hashable, int] = defaultdict(int)
    for place, token in enumerate(b):
        masks[token] |= 1 << place
    everything = (1 << len(b)) - 1
    # a zero at bit j of a row: the length grows from b[:j] to b[:j + 1]
    rows = [everything]
    for token in a:
        row = rows[-1]
        hits = row & masks[token] if token in masks else 0
        rows.append(((row + hits) | (row - hits)) & everything)
    return _walk_back(rows, a, b)


def _walk_back(
    rows: list[int], a: Sequence[Hashable], b: Sequence[Hashable]
) -> list[tuple[int, int]]:
    pairs = []
    x, y = len(a), len(b) - 1
    while x and y >= 0:
        bit = 1 << y
        if rows[x] & bit:
            y -= 1  # b[y] does not extend the subsequence of a[:x]
        elif not rows[x - 1] & bit:
            x -= 1  # neither does a[x - 1]
        else:
            pairs.append((x - 1, y))
            x, y = x - 1, y - 1
    return pairs[::-1]


def _by_appearance(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pair the k-th occurrence of each token in both, then keep a longest ascending part."""
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for place, token in enumerate(b):
        places[token].append(place)
    seen: defaultdict[Hashable, int] = defaultdict(int)
    pairs = []
    for place, token in enumerate(a):
        others = places.get(token, [])
        if seen[token] < len(others):
            pairs.append((place, others[seen[token]]))
            seen[token] += 1
    return longest_rising(pairs)
