"""What was found about one part, in words without secrets, and how long it may take."""

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
    #: works, but somebody should know
    ODD = "odd"
    BROKEN = "broken"


@dataclass(frozen=True)
class Finding:
    """`next_step`: what to do about it; empty if nothing."""

    state: State
    text: str
    next_step: str = ""

    def as_row(self, part: str) -> dict[str, str]:
        row = asdict(self)
        return {"part": part, **{name: without_secrets(str(text)) for name, text in row.items()}}


def allow(limit_s: float) -> None:
    """Say how long the part that this thread tries may take."""
    _limit_s.set(limit_s)


def patience_s() -> float:
    """How long one step may wait, so that there is still time to say for what."""
    return 0.7 * _limit_s.get()


def good(text: str) -> Finding:
    return Finding(State.GOOD, text)


def odd(text: str, next_step: str) -> Finding:
    return Finding(State.ODD, text, next_step)


def broken(text: str, next_step: str) -> Finding:
    return Finding(State.BROKEN, text, next_step)


def reason(error: BaseException) -> str:
    """The first line of what a library says, and its kind if it says nothing."""
    lines = str(error).strip().splitlines()
    return (lines[0].strip() if lines else type(error).__name__)[:_LONGEST]


def without_secrets(text: str) -> str:
    """`text` with the passwords and keys of this site's settings struck out."""
    for each in sorted(_secrets(), key=len, reverse=True):
        text = text.replace(each, _HIDDEN)
    return text


def _secrets() -> set[str]:
    found = {settings.SECRET_KEY, settings.S3_SECRET_ACCESS_KEY, settings.S3_ACCESS_KEY_ID}
    found |= {getattr(settings, "EMAIL_HOST_PASSWORD", "")}
    found |= {database.get("PASSWORD", "") for database in settings.DATABASES.values()}
    for address in _addresses([settings.CACHES, settings.CHANNEL_LAYERS, settings.DRAMATIQ_BROKER]):
        if word := urlsplit(address).password:
            found |= {word, unquote(word)}
    # what is shorter is a word of the language rather than a secret
    return {each for each in found if each and len(each) >= 4}


def _addresses(value: Any) -> Iterator[str]:
    if isinstance(value, str) and "://" in value:
        yield value
    elif isinstance(value, dict):
        yield from _addresses(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _addresses(each)
