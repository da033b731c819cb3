"""Which trace a piece of work is a part of: ids and their form on the wire, nothing that sends.

A leaf, so that a core may keep what its caller said. https://www.w3.org/TR/trace-context/
"""

import hashlib
import re
import secrets
from contextvars import ContextVar
from dataclasses import dataclass

_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")

#: of the request that is answered now; empty where traces are off
current: ContextVar[str] = ContextVar("traceparent", default="")


@dataclass(frozen=True)
class Place:
    """A span of a trace, under which others stand; `trace` has 128 bits, `span` 64."""

    trace: int
    span: int

    def as_text(self) -> str:
        return f"00-{self.trace:032x}-{self.span:016x}-01"


def place_of(text: str) -> Place | None:
    """What a `traceparent` says; None for one that is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    place = Place(int(found[1], 16), int(found[2], 16))
    return place if place.trace and place.span else None


def fresh_span() -> int:
    return secrets.randbits(64) or 1


def fresh_trace() -> int:
    return secrets.randbits(128) or 1


def span_of(place: Place, thing: str) -> int:
    """The span of a thing that several processes speak of; each finds it without asking."""
    digest = hashlib.sha256(f"{place.trace:032x} {thing}".encode()).digest()
    return int.from_bytes(digest[:8]) or 1
