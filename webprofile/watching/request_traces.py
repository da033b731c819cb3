"""The spans of requests that say of which trace they are, and of those that change things.

A page sends `traceparent`, and with its last request `x-trace-phases`: what it did itself, as
`hash;BEGAN;ENDED,upload;BEGAN;ENDED` in milliseconds since the epoch. The browser sends no spans:
the server tells them in its place.
"""

import re
import time
from collections.abc import Callable, Iterator

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse

from webprofile import traces
from webprofile.traces import Place, fresh_span, fresh_trace, place_of
from webprofile.watching.tracing import Done, tell

PHASES = "x-trace-phases"
_PHASE = re.compile(r"([a-z]{1,20});(\d{1,14});(\d{1,14})")
_MOST_PHASES = 8
#: s; a page that hashed and uploaded for longer told nonsense
_LONGEST_S = 24 * 3600


class TraceMiddleware:
    """Says to everything within a request of which trace it is, and tells of the request itself."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = place_of(request.headers.get("traceparent", ""))
        if not settings.TRACING or (given is None and request.method in ("GET", "HEAD")):
            return self.get_response(request)
        span = fresh_span()
        # what has no trace yet begins one with this request
        place = given or Place(fresh_trace(), span)
        token, began = traces.current.set(place.as_text()), time.time()
        structlog.contextvars.bind_contextvars(trace=f"{place.trace:032x}")
        try:
            response = self.get_response(request)
        finally:
            traces.current.reset(token)
            structlog.contextvars.unbind_contextvars("trace")
        _tell(
            request,
            response,
            place,
            Done(
                f"{request.method} {_route(request)}",
                "server",
                began,
                time.time(),
                span=span,
                is_root=given is None,
                problem="" if response.status_code < 500 else str(response.status_code),
                attributes={"http.response.status_code": response.status_code},
            ),
        )
        return response


def _tell(request: HttpRequest, response: HttpResponse, place: Place, done: Done) -> None:
    tell(place, done)
    phases = list(_phases(request.headers.get(PHASES, ""), done.ended_at))
    if phases and not done.is_root:
        first = min(phase.started_at for phase in phases)
        tell(place, Done("submit", "browser", first, done.ended_at, is_root=True))
        for phase in phases:
            tell(place, phase)


def _phases(text: str, now: float) -> Iterator[Done]:
    """What a page says that it did; what cannot be is left out."""
    for name, began_ms, ended_ms in _PHASE.findall(text[:400])[:_MOST_PHASES]:
        began, ended = int(began_ms) / 1000, int(ended_ms) / 1000
        if now - _LONGEST_S < began <= ended < now + _LONGEST_S:
            yield Done(name, "browser", began, ended)


def _route(request: HttpRequest) -> str:
    """The pattern of the address, which has no ids in it."""
    return f"/{request.resolver_match.route}" if request.resolver_match else "nothing"
