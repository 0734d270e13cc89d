"""The tracer of a process with tracing on: from the program's own provider, or from one created by OTEL_* variables.

Promises that a run without a caller's trace has the trace of its id, so that any later sender, even another leader,
continues that trace. Imported only if OpenTelemetry is installed.
"""

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

from itinerary.protocol.errors import BadValue
from itinerary.version import VERSION

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP: Final = "http/protobuf"
_EXPORTERS: Final[dict[str, Callable[[], SpanExporter]]] = {"otlp": OTLPSpanExporter, "console": ConsoleSpanExporter}

# The trace id for the next span without a parent, if it is prescribed.
next_trace_id: Final[ContextVar[int | None]] = ContextVar("itinerary_next_trace_id", default=None)


class RunIds(RandomIdGenerator):
    """Random ids, except for prescribed trace ids."""

    def generate_trace_id(self) -> int:
        """The prescribed trace id, or else a random one."""
        return next_trace_id.get() or super().generate_trace_id()


def create_tracer(part: str) -> trace.Tracer:
    """A tracer of the provider that the program has set, or of one that becomes the program's; BadValue."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(resource=_resource(part), id_generator=RunIds())
        provider.add_span_processor(BatchSpanProcessor(_EXPORTERS[exporter_name()]()))
        trace.set_tracer_provider(provider)
    return trace.get_tracer("itinerary", VERSION)


def shut_down() -> None:
    """Send the remaining spans; for processes that end without Python's exit functions."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


def _resource(part: str) -> Resource:
    return Resource.create({"service.name": part, "service.version": VERSION}).merge(OTELResourceDetector().detect())


def exporter_name() -> str:
    """The exporter that the environment asks for; BadValue for an unknown one."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if name not in _EXPORTERS:
        raise BadValue("OTEL_TRACES_EXPORTER", name, "otlp, console or none")
    for variable in _PROTOCOLS:
        protocol = os.environ.get(variable, "").strip().lower()
        if protocol not in ("", _HTTP):
            raise BadValue(variable, protocol, f"{_HTTP} only, which the extra otel brings")
    return name
