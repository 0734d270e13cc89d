"""The span of one attempt in its worker, current while the task runs; nothing if tracing is off.

Owns the sending of a process's spans at its end. Never delays a report: it learns of an end after the leader.
"""

import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from celery import signals

from itinerary.protocol.wire import HEADER_ATTEMPT, HEADER_JOB_ID, HEADER_QUEUE, HEADER_RUN_ID, HEADER_TRACE
from itinerary.telemetry import tracing
from itinerary.worker.hiding import AS_IT_IS, Hide
from itinerary.worker.plain import printable

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span


@dataclass(frozen=True, slots=True)
class TaskSpan:
    """An open span, and the context that was current before it."""

    span: "Span"
    before: "Token[Context]"

    def end(self, kind: str, outcome: object, at: int, hide: Hide = AS_IT_IS) -> None:
        """End the span as `kind` at `at` nanoseconds, with the task's own exception without what `hide` removes."""
        from opentelemetry.context import detach
        from opentelemetry.trace import Status, StatusCode

        self.span.set_attribute("itinerary.outcome", kind)
        if isinstance(outcome, BaseException):
            self.span.record_exception(outcome, _hidden(outcome, hide), timestamp=at)
        if kind == "failed":
            self.span.set_status(Status(StatusCode.ERROR, hide(printable(outcome))))
        self.span.end(at)
        detach(self.before)


def _hidden(exc: BaseException, hide: Hide) -> dict[str, str] | None:
    """The texts that replace OpenTelemetry's own; None if nothing is hidden."""
    if hide is AS_IT_IS:
        return None
    trace = hide("".join(traceback.format_exception(exc)))
    return {"exception.message": hide(printable(exc)), "exception.stacktrace": trace}


def begin(task: str, headers: Mapping[str, Any]) -> TaskSpan | None:
    """The span of a delivery that is about to run, as a child of the span that its message names."""
    tracer = tracing.tracer("itinerary-worker")
    if tracer is None:
        return None
    from opentelemetry.context import Context, attach
    from opentelemetry.trace import SpanKind, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    sent_by = TraceContextTextMapPropagator().extract({HEADER_TRACE: headers.get(HEADER_TRACE) or ""}, Context())
    span = tracer.start_span(f"run {task}", context=sent_by, kind=SpanKind.CONSUMER, attributes=_attributes(headers))
    return TaskSpan(span, attach(set_span_in_context(span)))


def _attributes(headers: Mapping[str, Any]) -> dict[str, str | int]:
    known = {
        "itinerary.run_id": headers.get(HEADER_RUN_ID),
        "itinerary.job_id": headers.get(HEADER_JOB_ID),
        "itinerary.attempt": headers.get(HEADER_ATTEMPT),
        "itinerary.task": headers.get("task"),
        "itinerary.worker": headers.get("hostname"),
        "messaging.system": "celery",
        "messaging.destination.name": headers.get(HEADER_QUEUE),
        "messaging.message.id": headers.get("id"),
    }
    return {name: value for name, value in known.items() if value is not None}


@signals.worker_process_shutdown.connect
def _send_the_rest(**_: Any) -> None:
    """Send the remaining spans: a pool's child ends without Python's exit functions.

    A child traces only if it has come as far as this import.
    """
    tracer = sys.modules.get("itinerary.telemetry.tracer")
    if tracer is not None:
        tracer.shut_down()
