"""Match untrusted regular expressions in linear time with bounded memory (RE2).

Python's own `re` can take exponential time, so a server must not run a user's pattern with it. RE2
supports neither look-around nor back-references; the rest of the syntax is that of `re`.
"""

import time
from collections.abc import Callable
from typing import Any

import re2

MOST_CHARS = 1_000
#: bytes of a compiled pattern
MOST_BYTES = 1 << 20
#: bytes of the states created while matching. A pattern within the limit above needs a fifth of
#: this; one that exceeds it would silently match nothing.
STATE_BYTES = 16 << 20
#: linear time can still be slow: a pattern near the limits takes a millisecond per name
MOST_S = 2.0

#: returns a true object if a name starts with a match of the pattern
Matcher = Callable[[str], object]


class PatternError(ValueError):
    """An invalid or unsupported pattern; the message is an English sentence that says why.

    reason: the end of that sentence, for messages in other languages
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The pattern cannot be used: {reason}.")
        self.reason = reason


def linear_time(pattern: str) -> Matcher:
    """Compile a pattern that is anchored at the start of a name, as `re.match` is.

    The matcher is meant for one list of names: it raises PatternError `MOST_S` after this call.

    Raises PatternError if the pattern is too long, invalid, or uses a feature that RE2 lacks.
    """
    if len(pattern) > MOST_CHARS:
        raise PatternError(f"{len(pattern)} characters; the limit is {MOST_CHARS}")
    try:
        # a set only returns whether it matches, in a sixth of the time, and does not report errors
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
    # capture groups are never used and cost time
    options.never_capture = True
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
