"""Names from files inside of sentences, titles and drawings, where no element isolates them."""

import re

#: control characters, and those that turn the direction of text or end what isolates it
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
LONGEST = 200


def isolated(name: str) -> str:
    """A name of at most LONGEST letters that cannot turn the direction of the text around it."""
    cut = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return f"\u2068{_UNSHOWN.sub(chr(0xFFFD), cut)}\u2069"
