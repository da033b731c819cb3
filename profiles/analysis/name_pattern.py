"""Regular expressions of strangers: matched in linear time, with bounded memory (RE2).

Python's own `re` can take exponential time, so a server must not run a reader's pattern with it.
RE2 knows no look-around and no back-references; all else is spelled as in `re`.
"""

import time
from collections.abc import Callable
from typing import Any

import re2

MOST_CHARS = 1_000
#: of a compiled pattern
MOST_BYTES = 1 << 20
#: of the states made while matching; a pattern within the limit needs a fifth of this, and one that
#: found no room would match nothing, silently
STATE_BYTES = 16 << 20
#: linear can still be slow: a pattern near the limits takes a millisecond for each name
MOST_S = 2.0

#: whether a name begins with what a pattern describes: any true object
Matcher = Callable[[str], object]


class PatternError(ValueError):
    """A pattern that cannot be used; the message is an English sentence that says why.

    reason: that sentence without its beginning, for one in another language
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The pattern cannot be used: {reason}.")
        self.reason = reason


def linear_time(pattern: str) -> Matcher:
    """Compile a pattern that is anchored at the start of a name, as `re.match` is.

    The matcher serves one list of names: `MOST_S` from now it stops with a PatternError.

    Raises PatternError if the pattern is too long, invalid, or uses what RE2 does not know.
    """
    if len(pattern) > MOST_CHARS:
        raise PatternError(f"{len(pattern)} characters; the limit is {MOST_CHARS}")
    try:
        # a set tells only whether it matches, in a sixth of the time, and not what is wrong
        re2.compile(pattern, options=_options(MOST_BYTES))
        patterns = re2.Set.MatchSet(_options(STATE_BYTES))
        patterns.Add(pattern)
        patterns.Compile()
    except re2.error as error:
        raise PatternError(_reason(error)) from None
    except UnicodeEncodeError:
        raise PatternError("half a character (a lone surrogate)") from None
    match, clock, deadline = patterns.Match, time.monotonic, time.monotonic() + MOST_S

    def bounded(name: str) -> object:
        if clock() > deadline:
            raise PatternError(f"it takes more than {MOST_S:.0f} s, make it simpler")
        return match(name)

    return bounded


def _options(most_bytes: int) -> Any:
    options = re2.Options()
    options.max_mem = most_bytes
    options.log_errors = False
    # groups are never asked for, and cost time
    options.never_capture = True
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
