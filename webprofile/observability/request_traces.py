"""OpenTelemetry spans of requests that belong to a trace or change data.

A page sends `traceparent`, and with its last request `x-trace-phases`: the phases of its own work,
as `hash;BEGAN;ENDED,upload;BEGAN;ENDED` in milliseconds since the epoch. The browser exports no
spans, so the server exports them instead.
"""

import os
import re
import time
from collections.abc import Iterator

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from opentelemetry.instrumentation.django import DjangoInstrumentor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Span, StatusCode

from webprofile.observability.tracing import provider, record_span

PHASES = "x-trace-phases"
_PHASE = re.compile(r"([a-z]{1,20});(\d{1,14});(\d{1,14})")
_MOST_PHASES = 8
#: longest plausible phase in seconds
_LONGEST_S = 24 * 3600
#: the middleware after which the tracing middleware is inserted
_AFTER = "webprofile.observability.requests.FactsMiddleware"


def begin() -> None:
    """Trace the requests of handlers that load their middleware after this call."""
    # use OpenTelemetry's stable attribute names
    os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
    DjangoInstrumentor().instrument(
        tracer_provider=provider("server"),
        request_hook=_begun,
        response_hook=_answered,
        middleware_position=settings.MIDDLEWARE.index(_AFTER) + 1,
    )


def end() -> None:
    DjangoInstrumentor().uninstrument()


def _begun(span: Span, request: HttpRequest) -> None:
    if span.is_recording():
        trace_id = span.get_span_context().trace_id
        structlog.contextvars.bind_contextvars(trace=f"{trace_id:032x}")


def _answered(span: Span, request: HttpRequest, response: HttpResponse) -> None:
    if not isinstance(span, ReadableSpan):
        return
    structlog.contextvars.unbind_contextvars("trace")
    # the pattern of the URL, since URLs may contain ids and keys
    route = f"/{request.resolver_match.route}" if request.resolver_match else "nothing"
    span.update_name(f"{request.method} {route}")
    for name in {"url.full", "url.path", "url.query"} & set(span.attributes or ()):
        span.set_attribute(name, "" if name == "url.query" else route)
    if response.status_code < 500:
        # a view can respond with an exception such as Http404, which is not a failure of the site
        span.set_status(StatusCode.OK)
    now = time.time()
    phases = list(_phases(request.headers.get(PHASES, ""), now))
    if phases and (root := span.parent):
        record_span(
            "browser", "submit", min(began for _, began, _ in phases), now, parent=None, own=root
        )
        for name, began, ended in phases:
            record_span("browser", name, began, ended, parent=root)


def _phases(text: str, now: float) -> Iterator[tuple[str, float, float]]:
    """Yield (name, begin, end) of a page's phases in seconds; skip implausible ones."""
    for name, began_ms, ended_ms in _PHASE.findall(text[:400])[:_MOST_PHASES]:
        began, ended = int(began_ms) / 1000, int(ended_ms) / 1000
        if now - _LONGEST_S < began <= ended < now + _LONGEST_S:
            yield name, began, ended
