"""Which trace tells of a run. Pure; what a trace is, adapters know."""

import hashlib


def trace_id_of(run_id: str, traceparent: str | None) -> str:
    """32 hexadecimal digits: the trace of whoever enqueued the run, else the one that its id stands for."""
    return traceparent.split("-")[1] if traceparent else hashlib.sha256(run_id.encode()).hexdigest()[:32]
