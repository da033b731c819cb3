"""Export OpenTelemetry spans over OTLP; imported only if tracing is on (`trace_context.are_kept`).

OpenTelemetry's Django instrumentation creates the spans of requests. Other work spans several
processes: its spans are exported when it has ended, with times and ids from rows, agents and
browsers. A process that dies loses only the spans that it has not exported yet.
"""

import atexit
import hashlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import cache

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import Attributes

_W3C = TraceContextTextMapPropagator()
#: ids of the next span, if they are known before it starts
_preset_ids: ContextVar[SpanContext | None] = ContextVar("preset_ids", default=None)


class _Ids(IdGenerator):
    """Generate random ids, except for spans whose ids other processes know already."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()

    def generate_span_id(self) -> int:
        preset = _preset_ids.get()
        return preset.span_id if preset else self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        preset = _preset_ids.get()
        return preset.trace_id if preset else self._random.generate_trace_id()


class _NotReading(Sampler):
    """Sampler that drops GET and HEAD requests, of which a page sends dozens."""

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: trace.TraceState | None = None,
    ) -> SamplingResult:
        is_reading = (attributes or {}).get("http.request.method") in {"GET", "HEAD"}
        return SamplingResult(Decision.DROP if is_reading else Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        return "NotReading"


@cache
def processor() -> BatchSpanProcessor:
    """Return the processor that exports the spans of this process, in batches and in a thread."""
    batch_processor = BatchSpanProcessor(OTLPSpanExporter())
    atexit.register(batch_processor.shutdown)
    return batch_processor


@cache
def provider(service: str) -> TracerProvider:
    """Return the tracer provider of a service: browser, server, actor or agent."""
    tracer_provider = TracerProvider(
        # for spans without a parent; otherwise the parent's flag decides
        sampler=ParentBased(root=_NotReading()),
        resource=Resource.create({"service.name": f"mgw-{service}"}),
        # drops events: the instrumentation records exceptions with file names and stack traces
        span_limits=SpanLimits(max_events=0),
        shutdown_on_exit=False,
        id_generator=_Ids(),
    )
    tracer_provider.add_span_processor(processor())
    return tracer_provider


def place_of(traceparent: str) -> SpanContext | None:
    """Parse a `traceparent`; return None if it is invalid."""
    context = _W3C.extract({"traceparent": traceparent}, context=Context())
    span_context = trace.get_current_span(context).get_span_context()
    return span_context if span_context.is_valid else None


def traceparent_of_request() -> str:
    """Return the `traceparent` of the caller's span, or that of the request's span without one."""
    span = trace.get_current_span()
    parent = span.parent if isinstance(span, ReadableSpan) else None
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context=_below(parent) if parent else None)
    return carrier.get("traceparent", "")


def place_within(place: SpanContext, thing: str) -> SpanContext:
    """Return the span context of an object (such as an attempt) within a trace.

    The span id is a hash of trace id and object, so that all processes derive the same id.
    """
    digest = hashlib.sha256(f"{place.trace_id:032x} {thing}".encode()).digest()
    span = int.from_bytes(digest[:8]) or 1
    return SpanContext(place.trace_id, span, is_remote=True, trace_flags=place.trace_flags)


def record_span(
    service: str,
    name: str,
    started_at: float,
    ended_at: float,
    *,
    parent: SpanContext | None,
    own: SpanContext | None = None,
    problem: str = "",
    attributes: Mapping[str, str | int] | None = None,
) -> None:
    """Export a span of finished work in the background; times are seconds since the epoch.

    own: its ids, if other processes must know them; otherwise they are random
    """
    token = _preset_ids.set(own)
    try:
        span = (
            provider(service)
            .get_tracer("webprofile")
            .start_span(
                name,
                context=_below(parent) if parent else Context(),
                start_time=_ns(started_at),
                attributes=attributes,
            )
        )
    finally:
        _preset_ids.reset(token)
    if problem:
        span.set_status(Status(StatusCode.ERROR, problem))
    span.end(end_time=_ns(max(started_at, ended_at)))


def _below(place: SpanContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(place), Context())


def _ns(at: float) -> int:
    """Convert seconds to nanoseconds, rounded to microseconds, the resolution of the float."""
    return round(at * 1e6) * 1000
