"""The trace id of a run. Pure; the adapters know what a trace is."""

import hashlib


def trace_id_of(run_id: str, traceparent: str | None) -> str:
    """The trace id in 32 hexadecimal digits: the caller's trace, or else one derived from the run's id."""
    return traceparent.split("-")[1] if traceparent else hashlib.sha256(run_id.encode()).hexdigest()[:32]
