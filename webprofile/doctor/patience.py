"""How long a part may take."""

from contextvars import ContextVar

TIME_LIMIT_S = 5.0
_limit_s = ContextVar("limit_s", default=TIME_LIMIT_S)


def allow(limit_s: float) -> None:
    """Say how long the part that this thread tries may take."""
    _limit_s.set(limit_s)


def patience_s() -> float:
    """How long one step may wait, so that there is still time to say for what."""
    return 0.7 * _limit_s.get()
