"""The public names of Itinerary: `attach`, `current_run`, `schedule` for apps, the clients for programs that enqueue.

Importing it loads nothing else: each name is loaded at its first use. `attach` needs Celery and Redis, the rest only
the standard library. No module beside this one has a public name, since importing a module sets it as an attribute
here.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from itinerary.client.asynchronous import AsyncClient
    from itinerary.client.sync import Client
    from itinerary.client.transactional import (
        enqueue_in,
        enqueue_in_async,
        enqueue_many_in,
        enqueue_many_in_async,
    )
    from itinerary.client.transport import ApiError, NoAnswer
    from itinerary.client.waiting import RunFailed, WaitTimeout
    from itinerary.jobs import schedule
    from itinerary.protocol.errors import BadValue, BadValues, Conflict, ItineraryError
    from itinerary.worker.attach import attach
    from itinerary.worker.current import CurrentRun, RunCancelled, current_run

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadValue",
    "BadValues",
    "Client",
    "Conflict",
    "CurrentRun",
    "ItineraryError",
    "NoAnswer",
    "RunCancelled",
    "RunFailed",
    "WaitTimeout",
    "attach",
    "current_run",
    "enqueue_in",
    "enqueue_in_async",
    "enqueue_many_in",
    "enqueue_many_in_async",
    "schedule",
]

_HOMES: Final = {
    "ApiError": "itinerary.client.transport",
    "AsyncClient": "itinerary.client.asynchronous",
    "BadValue": "itinerary.protocol.errors",
    "BadValues": "itinerary.protocol.errors",
    "Client": "itinerary.client.sync",
    "Conflict": "itinerary.protocol.errors",
    "CurrentRun": "itinerary.worker.current",
    "ItineraryError": "itinerary.protocol.errors",
    "NoAnswer": "itinerary.client.transport",
    "RunCancelled": "itinerary.worker.current",
    "RunFailed": "itinerary.client.waiting",
    "WaitTimeout": "itinerary.client.waiting",
    "attach": "itinerary.worker.attach",
    "current_run": "itinerary.worker.current",
    "enqueue_in": "itinerary.client.transactional",
    "enqueue_in_async": "itinerary.client.transactional",
    "enqueue_many_in": "itinerary.client.transactional",
    "enqueue_many_in_async": "itinerary.client.transactional",
    "schedule": "itinerary.jobs",
}

if sys.version_info < (3, 10):  # noqa: UP036 - metadata do not hold for a copy or for an installation by force
    raise ImportError(
        f"celery-itinerary needs Python 3.10 or later; this is {sys.version.split()[0]} ({sys.executable})"
    )

if not TYPE_CHECKING:  # else any misspelt name would have a type

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
