"""Texts that repeat, each kept once and known by a number."""

#: what stands for the rest of a text that is too long, and for all texts beyond the limits
OTHERS = "…"


class Texts:
    """Different texts in order of first appearance; no more than the limits allow.

    longest: characters of one text; a longer one is cut
    most, most_chars: texts, and their characters together; all others count as one
    """

    def __init__(self, *, longest: int, most: int, most_chars: int) -> None:
        self._longest, self._most, self._most_chars = longest, most, most_chars
        self._codes: dict[str, int] = {}
        self._chars = 0

    def code(self, text: str) -> int:
        """Return the place of a text in `values`, where it is added if it is not there yet."""
        found = self._codes.get(text)
        return self.new(text) if found is None else found

    def new(self, text: str) -> int:
        """The same for a text that is not there yet, which a subclass may change first."""
        if len(text) > self._longest:
            return self.code(text[: self._longest - 1] + OTHERS)
        if len(self._codes) >= self._most or self._chars >= self._most_chars:
            if (others := self._codes.get(OTHERS)) is not None:
                return others
            text = OTHERS
        self._chars += len(text)
        return self._codes.setdefault(text, len(self._codes))

    def values(self) -> tuple[str, ...]:
        """Return the texts, each at the place that is its code."""
        return tuple(self._codes)
