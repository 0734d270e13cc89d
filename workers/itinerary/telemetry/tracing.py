"""OpenTelemetry, where the extra `otel` is installed and an exporter is configured by the standard OTEL_* variables.

Owns the choice whether this process traces, and the context of a caller. Light to import: OpenTelemetry itself is only
imported where tracing is on. Each process has a tracer of its own, made at its first use, never handed over a fork.
"""

import logging
import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

log = logging.getLogger("itinerary.tracing")


def tracer(part: str) -> "Tracer | None":
    """This process's tracer, or None where tracing is off; `part` is the service's name where none is configured."""
    return _tracer(part, os.getpid())


def check() -> None:
    """BadValue where OTEL_* asks for an exporter that is not there. What is imported here, children need not."""
    if _is_on():
        from itinerary.telemetry.tracer import exporter_name

        exporter_name()


def caller_traceparent() -> str | None:
    """The W3C trace context of the present code, where it is in a span; who is in one has imported OpenTelemetry."""
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else traceparent_of(api.get_current_span())


def traceparent_of(span: Any) -> str | None:
    """The context of an OpenTelemetry span as W3C's header has it; None for the span that stands for none."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


@cache
def _tracer(part: str, pid: int) -> "Tracer | None":
    if not _is_on():
        return None
    from itinerary.telemetry.tracer import create_tracer

    return create_tracer(part)


def _is_on() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if not (_exporter_is_configured() or _program_has_provider()):
        return False
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        log.warning("nothing is traced: OTEL_* names an exporter, but the extra otel is not installed")
        return False
    return True


def _exporter_is_configured() -> bool:
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" if exporter else any(os.environ.get(name) for name in _ENDPOINTS)


def _program_has_provider() -> bool:
    """Whether this program has set OpenTelemetry up by itself, as a worker with an app of its own may."""
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    return sdk is not None and isinstance(sys.modules["opentelemetry.trace"].get_tracer_provider(), sdk.TracerProvider)
