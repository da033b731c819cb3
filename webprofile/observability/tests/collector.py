"""OTLP/HTTP server that decodes and keeps the spans that it receives."""

import contextlib
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agent.tests.http_sites import serving


@dataclass(frozen=True)
class Span:
    trace: str
    span: str
    parent: str
    service: str
    name: str
    started_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, str]
    events: int


class Collector(ThreadingHTTPServer):
    """HTTP server that keeps all received spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CollectorHandler)
        self.spans: list[Span] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _CollectorHandler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        self.server.spans += _spans(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Do not log requests."""


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        facts = {
            attribute.key: attribute.value.string_value
            for attribute in resource.resource.attributes
        }
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Span(
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    facts["service.name"],
                    span.name,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    span.status.code == 2,
                    {attribute.key: attribute.value.string_value for attribute in span.attributes},
                    len(span.events),
                )


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    server = Collector()
    with serving(server):
        yield server
