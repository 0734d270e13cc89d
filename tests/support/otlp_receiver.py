"""A receiver of OTLP over HTTP on loopback, as a collector is one: keeps the spans that it was sent."""

import gzip
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.support.http_server import LoopbackServer, QuietHandler


@dataclass(frozen=True)
class Received:
    """One span as it came; times in nanoseconds, ids in hexadecimal digits, `parent` empty where it has none."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    start: int
    end: int
    failed: bool
    attributes: dict[str, Any]
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    event_times: dict[str, int] = field(default_factory=dict)


class OtlpReceiver(LoopbackServer):
    """Listens on `endpoint` for the time of the block."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        super().__init__(_handler(self))
        self.endpoint = self.address

    def of_run(self, run_id: str) -> list[Received]:
        """All spans so far that name this run, by their begin."""
        return sorted(
            (span for span in list(self.spans) if span.attributes.get("itinerary.run_id") == run_id),
            key=lambda span: span.start,
        )


def _handler(receiver: OtlpReceiver) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            receiver.spans += _spans(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    return Handler


def _spans(request: ExportTraceServiceRequest) -> list[Received]:
    return [
        Received(
            service=_values(group.resource.attributes)["service.name"],
            name=span.name,
            kind=WireSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            start=span.start_time_unix_nano,
            end=span.end_time_unix_nano,
            failed=span.status.code == Status.STATUS_CODE_ERROR,
            attributes=_values(span.attributes),
            events={event.name: _values(event.attributes) for event in span.events},
            event_times={event.name: event.time_unix_nano for event in span.events},
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}
