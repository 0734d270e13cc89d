"""OpenTelemetry, if the extra `otel` is installed and the standard OTEL_* variables configure an exporter.

Owns the decision whether this process traces, and the context of a caller. Light: it imports OpenTelemetry only if
tracing is on. Each process has its own tracer, created at its first use and never passed over a fork.
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
    """This process's tracer, or None if tracing is off; `part` is the service's name if none is configured."""
    return _tracer(part, os.getpid())


def check() -> None:
    """Raise BadValue if OTEL_* asks for a missing exporter; children inherit the modules imported here."""
    if _is_on():
        from itinerary.telemetry.tracer import exporter_name

        exporter_name()


def caller_traceparent() -> str | None:
    """The W3C trace context of the calling code if it is in a span, which implies that OpenTelemetry is imported."""
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else traceparent_of(api.get_current_span())


def traceparent_of(span: Any) -> str | None:
    """The context of an OpenTelemetry span as W3C's header; None for an invalid span."""
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
        log.warning("tracing is off: OTEL_* names an exporter, but the extra otel is not installed")
        return False
    return True


def _exporter_is_configured() -> bool:
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return exporter != "none" if exporter else any(os.environ.get(name) for name in _ENDPOINTS)


def _program_has_provider() -> bool:
    """Whether this program has configured OpenTelemetry itself, as a worker with its own app may."""
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    return sdk is not None and isinstance(sys.modules["opentelemetry.trace"].get_tracer_provider(), sdk.TracerProvider)
