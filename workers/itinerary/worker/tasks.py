"""The built-in tasks: echo, sleep, fail and an HTTP call.

Promises that none of them touches anything but what its arguments name.
"""

import time
from typing import Any, Final

from celery import Celery

from itinerary.worker.current import RunCancelled, current_run
from itinerary.worker.http_call import call

_SLICE: Final = 0.25


def register(app: Celery) -> None:
    """Register the built-in tasks with `app`, under their public names."""
    for name, function in (
        ("itinerary.echo", echo),
        ("itinerary.sleep", sleep),
        ("itinerary.fail", fail),
        ("itinerary.http", http),
    ):
        app.task(name=name, shared=False)(function)


def echo(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the arguments."""
    return {"args": list(args), "kwargs": kwargs}


def sleep(seconds: float) -> dict[str, float]:
    """Sleep for `seconds`, with progress; stop early if the run is cancelled."""
    run = current_run()
    ends = time.monotonic() + float(seconds)
    while (left := ends - time.monotonic()) > 0:
        if run is not None:
            if run.cancelled():
                raise RunCancelled(f"stopped {left:.1f} s early")
            run.progress(int(float(seconds) - left), float(seconds), "s")
        time.sleep(min(_SLICE, left))
    if run is not None:
        run.progress(float(seconds), float(seconds), "s")
    return {"slept": float(seconds)}


def fail(message: str = "failed as asked", until_attempt: int | None = None) -> dict[str, int]:
    """Fail; with `until_attempt`, that attempt and later ones succeed."""
    run = current_run()
    attempt = 1 if run is None else run.attempt
    if until_attempt is None or attempt < until_attempt:
        raise RuntimeError(message)
    return {"attempt": attempt}


def http(
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: Any = None,
    timeout: float = 30.0,
) -> dict[str, Any]:
    """Call a URL; a status of 400 or more fails the run. Private addresses are refused."""
    return call(url, method, headers or {}, body, float(timeout))
