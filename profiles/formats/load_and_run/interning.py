"""String interning: each distinct text is stored once and referenced by a code."""

#: replaces the rest of a text that is too long, and all texts beyond the limits
OTHERS = "…"


class InternedTexts:
    """Distinct texts in order of first appearance, within limits.

    longest: maximum length of a text in characters; longer texts are cut
    most, most_chars: maximum number of texts and of their characters in total; all further texts
        share one code
    """

    def __init__(self, *, longest: int, most: int, most_chars: int) -> None:
        self._longest, self._most, self._most_chars = longest, most, most_chars
        self._codes: dict[str, int] = {}
        self._chars = 0

    def code(self, text: str) -> int:
        """Return the index of a text in `values`; adds the text if it is new."""
        code = self._codes.get(text)
        return self.new(text) if code is None else code

    def new(self, text: str) -> int:
        """Add a new text and return its code; a subclass may override this to normalise texts."""
        if len(text) > self._longest:
            return self.code(text[: self._longest - 1] + OTHERS)
        if len(self._codes) >= self._most or self._chars >= self._most_chars:
            if (others := self._codes.get(OTHERS)) is not None:
                return others
            text = OTHERS
        self._chars += len(text)
        return self._codes.setdefault(text, len(self._codes))

    def values(self) -> tuple[str, ...]:
        """Return the texts, indexed by their codes."""
        return tuple(self._codes)
