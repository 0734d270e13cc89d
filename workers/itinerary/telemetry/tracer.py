"""The tracer of a process in which tracing is on: of the program's own provider, or of one made from OTEL_* variables.

Promises that a run which nobody's trace led to has the trace of its id: whoever sends it again, another leader too,
goes on with that one. Imported only where OpenTelemetry is installed.
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

# The trace of the next span without a parent, where it has to be a certain one.
next_trace_id: Final[ContextVar[int | None]] = ContextVar("itinerary_next_trace_id", default=None)


class RunIds(RandomIdGenerator):
    """Random ids, but for a trace that was asked for."""

    def generate_trace_id(self) -> int:
        """The one that was asked for, else a random one."""
        return next_trace_id.get() or super().generate_trace_id()


def create_tracer(part: str) -> trace.Tracer:
    """A tracer of the provider that the program has set, else of one that becomes the program's; BadValue."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider(resource=_resource(part), id_generator=RunIds())
        provider.add_span_processor(BatchSpanProcessor(_EXPORTERS[exporter_name()]()))
        trace.set_tracer_provider(provider)
    return trace.get_tracer("itinerary", VERSION)


def shut_down() -> None:
    """Send what is not sent yet; for processes that end without Python's exit functions."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


def _resource(part: str) -> Resource:
    return Resource.create({"service.name": part, "service.version": VERSION}).merge(OTELResourceDetector().detect())


def exporter_name() -> str:
    """The exporter that the environment asks for; BadValue for one that is not there."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if name not in _EXPORTERS:
        raise BadValue("OTEL_TRACES_EXPORTER", name, "otlp, console or none")
    for variable in _PROTOCOLS:
        protocol = os.environ.get(variable, "").strip().lower()
        if protocol not in ("", _HTTP):
            raise BadValue(variable, protocol, f"{_HTTP} only, which the extra otel brings")
    return name
