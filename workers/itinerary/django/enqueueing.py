"""The project's clients of the API, of each process its own, and enqueueing when a transaction commits.

A program that stops between the commit and the request loses the run. `itinerary.enqueue_in(connection, ...)` loses
none, but needs Itinerary's tables in the same PostgreSQL database.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from django.core.signals import setting_changed
from django.db import transaction
from django.dispatch import receiver

from itinerary.client.run_body import Task, run_body
from itinerary.client.sync import Client
from itinerary.client.transactional import request_of
from itinerary.django.settings import NAME, seconds, setting
from itinerary.protocol.errors import ItineraryError

log = logging.getLogger("itinerary.django")
_of_process: Final[dict[tuple[int, float | None], Client]] = {}
_NOT_CONFIRMED: Final = (
    "the transaction is committed, but the run of %s that it was to enqueue is not confirmed: %s; "
    "with the idempotency key %s it can be enqueued again without being doubled"
)


def client() -> Client:
    """The client of this process, by the project's settings. Threads share it; a forked child gets its own."""
    return _bounded(None)


def _bounded(total_timeout: float | None) -> Client:
    process = os.getpid()
    known = _of_process.get((process, total_timeout))
    if known is None:
        known = Client(setting("URL") or "", setting("TOKEN"), total_timeout=total_timeout)
        for of_parent in [place for place in list(_of_process) if place[0] != process]:
            _of_process.pop(of_parent, None)
        _of_process[process, total_timeout] = known
    return known


@receiver(setting_changed)
def _settings_changed(*, setting: str, **_: Any) -> None:
    if setting == NAME:
        _of_process.clear()


def enqueue_on_commit(
    task: Task,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    using: str | None = None,
    robust: bool = False,
    **options: Any,
) -> None:
    """Enqueue a run as it is now once the transaction of the database `using` commits; at once without one.

    `options` are those of `Client.enqueue`. A wrong request raises BadValues here, before the commit. One that fails
    later is logged, and raises from the commit unless `robust`; the data is stored all the same. It fails at the latest
    after the setting `ON_COMMIT_TIMEOUT`.
    """
    key = f"django-{uuid4().hex}"
    wanted = run_body(task, args, kwargs, **{"idempotency_key": key, **options})  # the caller may reuse its objects
    request_of(**{"args": None, "kwargs": None, **wanted})
    bounded = _bounded(seconds("ON_COMMIT_TIMEOUT"))

    def enqueue() -> None:  # a function, since Django logs its name
        try:
            bounded.enqueue(**wanted)
        except ItineraryError as exc:
            log.error(_NOT_CONFIRMED, wanted["task"], exc, wanted["idempotency_key"])
            raise

    transaction.on_commit(enqueue, using=using, robust=robust)
