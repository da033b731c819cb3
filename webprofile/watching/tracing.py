"""Sends spans by OTLP, if OTEL_EXPORTER_OTLP_ENDPOINT says where to; else nothing is even imported.

Spans are told when they have ended, with the times that rows, agents and browsers name. So nothing
of OpenTelemetry's own instrumentation stands between a request and its answer, and a process that
dies loses the spans of the moment alone.
"""

import atexit
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings

from webprofile.traces import Place, fresh_span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

log = structlog.get_logger()

Attributes = Mapping[str, str | int | float | bool]


@dataclass(frozen=True)
class Done:
    """A piece of work that has ended. Times are seconds since the epoch.

    service: browser, server, actor or agent; span: its own id, where others must know it; is_root:
    it stands under nothing, and `span` is that of the place
    """

    name: str
    service: str
    started_at: float
    ended_at: float
    span: int = field(default_factory=fresh_span)
    is_root: bool = False
    problem: str = ""
    attributes: Attributes = field(default_factory=dict)


def is_installed() -> bool:
    """Whether requirements/tracing.txt is there; looks, and imports nothing of it."""
    try:
        wanted = "opentelemetry.exporter.otlp.proto.http"
        return importlib.util.find_spec(wanted) is not None
    except ModuleNotFoundError:
        return False


def tell(place: Place, done: Done) -> None:
    """Send a span of the place's trace, under the place's span. Never waits, never fails."""
    if settings.TRACING and (processor := _processor()) is not None:
        processor.on_end(_span(place, done))


def flush() -> None:
    """Send what waits, now."""
    if settings.TRACING and (processor := _processor()) is not None:
        processor.force_flush()


@cache
def _processor() -> "SpanProcessor | None":
    if not is_installed():
        log.warning("tracing_off", why="requirements/tracing.txt is not installed")
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    processor = BatchSpanProcessor(OTLPSpanExporter())
    atexit.register(processor.shutdown)
    return processor


@cache
def _resource(service: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    return Resource.create({"service.name": f"mgw-{service}"})


def _ns(at: float) -> int:
    """A float of the epoch is good to a microsecond, no finer."""
    return round(at * 1e6) * 1000


def _span(place: Place, done: Done) -> Any:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(span: int) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(place.trace, span, is_remote=False, trace_flags=flags)

    status = Status(StatusCode.ERROR, done.problem) if done.problem else Status(StatusCode.UNSET)
    return ReadableSpan(
        name=done.name,
        context=context(place.span if done.is_root else done.span),
        parent=None if done.is_root else context(place.span),
        resource=_resource(done.service),
        attributes=dict(done.attributes),
        start_time=_ns(done.started_at),
        end_time=_ns(max(done.started_at, done.ended_at)),
        status=status,
    )
