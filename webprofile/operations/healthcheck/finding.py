"""Result of a check, without secrets, and the time limit of checks."""

import enum
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings

_LONGEST = 300
_HIDDEN = "********"
TIME_LIMIT_S = 5.0
_limit_s = ContextVar("limit_s", default=TIME_LIMIT_S)


class State(enum.StrEnum):
    GOOD = "ok"
    #: the part works, but needs attention
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """The result of a check; `next_step` is the suggested fix, empty if none is needed."""

    state: State
    text: str
    next_step: str = ""

    def as_row(self, part: str) -> dict[str, str]:
        row = asdict(self)
        return {"part": part, **{name: without_secrets(str(text)) for name, text in row.items()}}


def allow(limit_s: float) -> None:
    """Set the time limit of the check in this thread."""
    _limit_s.set(limit_s)


def patience_s() -> float:
    """Return the time limit of one request of a check: 70 % of its limit, to report the cause."""
    return 0.7 * _limit_s.get()


def good(text: str) -> Finding:
    return Finding(State.GOOD, text)


def warning(text: str, next_step: str) -> Finding:
    return Finding(State.WARNING, text, next_step)


def broken(text: str, next_step: str) -> Finding:
    return Finding(State.BROKEN, text, next_step)


def reason(error: BaseException) -> str:
    """Return the first line of an exception's message, or its class name if it has none."""
    lines = str(error).strip().splitlines()
    return (lines[0].strip() if lines else type(error).__name__)[:_LONGEST]


def without_secrets(text: str) -> str:
    """Return `text` with the passwords and keys of the settings masked."""
    for secret in sorted(_secrets(), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def _secrets() -> set[str]:
    secrets = {settings.SECRET_KEY, settings.S3_SECRET_ACCESS_KEY, settings.S3_ACCESS_KEY_ID}
    secrets |= {getattr(settings, "EMAIL_HOST_PASSWORD", "")}
    secrets |= {database.get("PASSWORD", "") for database in settings.DATABASES.values()}
    for address in _addresses([settings.CACHES, settings.CHANNEL_LAYERS, settings.DRAMATIQ_BROKER]):
        if password := urlsplit(address).password:
            secrets |= {password, unquote(password)}
    # masking shorter values would mask ordinary words
    return {secret for secret in secrets if secret and len(secret) >= 4}


def _addresses(value: Any) -> Iterator[str]:
    if isinstance(value, str) and "://" in value:
        yield value
    elif isinstance(value, dict):
        yield from _addresses(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _addresses(item)
