"""Format names from files for pages: on one line, visible, without affecting text direction.

An element that isolates (`<bdi>`) is not sufficient: an unmatched mark in a name ends the
isolation.
"""

#: control characters become their visible symbols, direction marks become U+FFFD
_VISIBLE = str.maketrans(
    {chr(code): chr(0x2400 + code) for code in range(32)}
    | dict.fromkeys("\n\x85\u2028\u2029", "↵")
    | dict.fromkeys("\x7f\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e", "\ufffd")
    | dict.fromkeys("\u2066\u2067\u2068\u2069", "\ufffd")
)
LONGEST = 200


def visible(text: str) -> str:
    """Return a text on one line, with symbols for invisible characters: `↵` for a new line."""
    return text.translate(_VISIBLE)


def shortened(text: str) -> str:
    """Return the visible text with at most LONGEST letters, for places of fixed size."""
    return visible(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def isolated(name: str) -> str:
    """Return the visible text for sentences, titles and drawings, where no element isolates a
    name.
    """
    return f"\u2068{shortened(name)}\u2069"
