"""Names from files as pages show them: on one line, visible, and without turning what follows.

An element that isolates (`<bdi>`) is not enough: an unmatched mark in a name ends the isolation.
"""

#: control characters have signs of their own, and marks of direction become U+FFFD
_VISIBLE = str.maketrans(
    {chr(code): chr(0x2400 + code) for code in range(32)}
    | dict.fromkeys("\n\x85\u2028\u2029", "↵")
    | dict.fromkeys("\x7f\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e", "\ufffd")
    | dict.fromkeys("\u2066\u2067\u2068\u2069", "\ufffd")
)
LONGEST = 200


def visible(text: str) -> str:
    """A text on one line, with signs for what has no shape: `↵` for a new line."""
    return text.translate(_VISIBLE)


def shortened(text: str) -> str:
    """The same with at most LONGEST letters, for places that cannot grow."""
    return visible(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def isolated(name: str) -> str:
    """The same for sentences, titles and drawings, where no element stands around a name."""
    return f"\u2068{shortened(name)}\u2069"
