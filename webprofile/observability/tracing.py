"""Spans by OpenTelemetry. Only processes that keep traces import this (`traces.are_kept`).

Spans of requests come from OpenTelemetry's instrumentation of Django. Other work lasts from row to
row and from process to process: its spans are told when it has ended, with the times and ids that
rows, agents and browsers name, so a process that dies loses the spans of the moment alone.
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
#: of the span that is begun now, where its ids are known before it begins
_given: ContextVar[SpanContext | None] = ContextVar("given", default=None)


class _Ids(IdGenerator):
    """Random ids, except of spans whose ids other processes know already."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()

    def generate_span_id(self) -> int:
        given = _given.get()
        return given.span_id if given else self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        given = _given.get()
        return given.trace_id if given else self._random.generate_trace_id()


class _NotReading(Sampler):
    """Leaves out requests that only read: a page asks for dozens, and changes nothing."""

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
    """What sends the spans of this process, in batches and by a thread of its own."""
    made = BatchSpanProcessor(OTLPSpanExporter())
    atexit.register(made.shutdown)
    return made


@cache
def provider(service: str) -> TracerProvider:
    """The tracers of a service: browser, server, actor or agent."""
    made = TracerProvider(
        # without a parent: a parent's flag says whether its trace is kept
        sampler=ParentBased(root=_NotReading()),
        resource=Resource.create({"service.name": f"mgw-{service}"}),
        # the instrumentation records exceptions as events, with names of users' files and stacks
        span_limits=SpanLimits(max_events=0),
        shutdown_on_exit=False,
        id_generator=_Ids(),
    )
    made.add_span_processor(processor())
    return made


def place_of(traceparent: str) -> SpanContext | None:
    """The span that a `traceparent` names; None for a text that names none."""
    context = _W3C.extract({"traceparent": traceparent}, context=Context())
    found = trace.get_current_span(context).get_span_context()
    return found if found.is_valid else None


def traceparent_of_request() -> str:
    """`traceparent` of the span that called, or of the current request's if none did."""
    span = trace.get_current_span()
    place = span.parent if isinstance(span, ReadableSpan) else None
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context=_below(place) if place else None)
    return carrier.get("traceparent", "")


def place_within(place: SpanContext, thing: str) -> SpanContext:
    """The span of a thing that several processes speak of; each finds it without asking."""
    digest = hashlib.sha256(f"{place.trace_id:032x} {thing}".encode()).digest()
    span = int.from_bytes(digest[:8]) or 1
    return SpanContext(place.trace_id, span, is_remote=True, trace_flags=place.trace_flags)


def tell(
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
    """Send a span of work that has ended; times are seconds since the epoch. Never waits.

    own: its ids, where others must know them; they are random otherwise.
    """
    token = _given.set(own)
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
        _given.reset(token)
    if problem:
        span.set_status(Status(StatusCode.ERROR, problem))
    span.end(end_time=_ns(max(started_at, ended_at)))


def _below(place: SpanContext) -> Context:
    return trace.set_span_in_context(NonRecordingSpan(place), Context())


def _ns(at: float) -> int:
    """A float of the epoch is good to a microsecond, no finer."""
    return round(at * 1e6) * 1000
