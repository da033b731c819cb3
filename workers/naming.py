"""Names in messages."""

from collections.abc import Iterable

MOST_NAMES = 10


def listed(names: Iterable[str]) -> str:
    """The first ten in order, since a message is to be read."""
    ordered = sorted(names)
    return ", ".join(ordered[:MOST_NAMES]) + (" …" if len(ordered) > MOST_NAMES else "")
