"""Spans of a run before a worker has it: enqueued by the API, dispatched by the leader.

Wraps a RunStore and a Dispatcher, and changes only the trace context of a run. Imported only where tracing is on.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import format_instant
from itinerary.protocol.trace_ids import trace_id_of
from itinerary.protocol.wire import HEADER_TRACE
from itinerary.telemetry.tracer import next_trace_id
from itinerary.telemetry.tracing import traceparent_of
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.model import DispatchedRun, NewRun, Run
from scheduler_service.ports.broker import Dispatcher
from scheduler_service.ports.stores import RunStore

_NANOSECONDS: Final = 1000
_W3C: Final = TraceContextTextMapPropagator()


class TracedRuns:
    """A RunStore that creates a span for each enqueued run, from which the run's trace continues."""

    def __init__(self, runs: RunStore, tracer: Tracer) -> None:
        self._runs = runs
        self._tracer = tracer
        self.get = runs.get
        self.list = runs.list
        self.request_cancel = runs.request_cancel

    def enqueue(self, runs: Sequence[NewRun], *, by: AuditedChange | None = None) -> list[tuple[Run, bool]]:
        """See RunStore. The span of a repeated request names the existing run."""
        spans = [self._start(run) for run in runs]
        with _ended(spans):
            marked = [replace(run, traceparent=traceparent_of(span)) for run, span in zip(runs, spans, strict=True)]
            answer = self._runs.enqueue(marked, by=by)
            for span, (run, is_new) in zip(spans, answer, strict=True):
                span.set_attributes({"itinerary.run_id": run.run_id, "itinerary.made": is_new})
        return answer

    def _start(self, run: NewRun) -> Span:
        return self._tracer.start_span(f"enqueue {run.task}", kind=SpanKind.PRODUCER, attributes=_attributes(run))


class TracedDispatcher:
    """A Dispatcher that creates a span for each published run, from its due time until the broker has it."""

    def __init__(self, dispatcher: Dispatcher, tracer: Tracer) -> None:
        self._dispatcher = dispatcher
        self._tracer = tracer
        self.ping = dispatcher.ping
        self.heads = dispatcher.heads
        self.revoke = dispatcher.revoke
        self.query_epoch = dispatcher.query_epoch
        self.accept = dispatcher.accept
        self.mark = dispatcher.mark

    def publish(self, runs: Sequence[DispatchedRun]) -> None:
        """See Dispatcher."""
        now = time.time_ns()
        spans = [self._start(run, now) for run in runs]
        with _ended(spans):
            marked = [run._replace(traceparent=traceparent_of(span)) for run, span in zip(runs, spans, strict=True)]
            self._dispatcher.publish(marked)

    def _start(self, run: DispatchedRun, now: int) -> Span:
        """Start the span; the clocks of database and leader may differ, but no span may end before it began."""
        own_trace = next_trace_id.set(int(trace_id_of(run.run_id, None), 16))
        try:
            span = self._tracer.start_span(
                f"dispatch {run.task}",
                context=_context_of(run.traceparent),
                kind=SpanKind.PRODUCER,
                attributes=_attributes(run)
                | {
                    "itinerary.run_id": run.run_id,
                    "itinerary.attempt": run.attempt,
                    "itinerary.term": run.term,
                    "itinerary.scheduled_at": format_instant(run.scheduled_at),
                    "messaging.message.id": task_id(run.run_id, run.attempt),
                },
                start_time=min(run.due_at * _NANOSECONDS, now),
            )
        finally:
            next_trace_id.reset(own_trace)
        span.add_event("pending", timestamp=now)
        return span


def _context_of(traceparent: str | None) -> Context:
    return _W3C.extract({HEADER_TRACE: traceparent} if traceparent else {}, Context())


def _attributes(run: NewRun | DispatchedRun) -> dict[str, str | int]:
    own: dict[str, str | int] = {
        "itinerary.task": run.task,
        "messaging.system": "celery",
        "messaging.destination.name": run.queue,
    }
    return own if run.job_id is None else own | {"itinerary.job_id": run.job_id}


@contextmanager
def _ended(spans: Sequence[Span]) -> Iterator[None]:
    try:
        yield
    except Exception as exc:
        for span in spans:
            span.record_exception(exc)
            span.set_status(Status(StatusCode.ERROR, f"{type(exc).__name__}: {exc}"))
        raise
    finally:
        for span in spans:
            span.end()
