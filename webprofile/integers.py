"""Whole numbers in addresses, forms and files."""

#: no row has a larger primary key; fits 64 bits
LARGEST_KEY = 10**18 - 1
#: no page, row or count of a table is larger
LARGEST_COUNT = 10**9 - 1


def parse_int(text: str, *, maximum: int) -> int | None:
    """Return the number that `text` writes, 0 to `maximum`; None if it writes none of these.

    It consists of ASCII digits alone: no sign, space, underscore or digit of another script. It
    has at most as many digits as `maximum`, so that no long text is converted.
    """
    if not (len(text) <= len(str(maximum)) and text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= maximum else None
