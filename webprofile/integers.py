"""Parse non-negative integers of URLs, forms and files."""

#: largest accepted primary key; fits 64 bits
LARGEST_KEY = 10**18 - 1
#: largest accepted page, row number or count
LARGEST_COUNT = 10**9 - 1


def parse_key(text: str) -> int:
    """Return the primary key in `text`, or 0, which no row has, if it is not valid."""
    return parse_int(text, maximum=LARGEST_KEY) or 0


def parse_int(text: str, *, maximum: int) -> int | None:
    """Return the integer in `text`, 0 to `maximum`, or None if it is not valid.

    Only ASCII digits are accepted: no sign, space, underscore or digit of another script. The text
    may have at most as many digits as `maximum`, so that long texts are not converted.
    """
    if not (len(text) <= len(str(maximum)) and text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number <= maximum else None
