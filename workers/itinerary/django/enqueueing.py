"""The project's client of the API, one for each process, and enqueueing when a transaction commits.

A program that stops between the commit and the request loses the run. `itinerary.enqueue_in(connection, ...)` loses
none, but needs Itinerary's tables in the same PostgreSQL database.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

from django.core.signals import setting_changed
from django.db import transaction
from django.dispatch import receiver

from itinerary.client.run_body import Task, run_body
from itinerary.client.sync import Client
from itinerary.client.transactional import request_of
from itinerary.django.settings import NAME, setting

_of_process: Final[dict[int, Client]] = {}


def client() -> Client:
    """The client of this process, by the project's settings. Threads share it; a forked child gets its own."""
    known = _of_process.get(os.getpid())
    if known is None:
        known = Client(setting("URL") or "", setting("TOKEN"))
        _of_process.clear()
        _of_process[os.getpid()] = known
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
    later raises from the commit, or is logged if `robust`; the data is stored all the same.
    """
    key = f"django-{uuid4().hex}"
    wanted = run_body(task, args, kwargs, **{"idempotency_key": key, **options})  # the caller may reuse its objects
    request_of(**{"args": None, "kwargs": None, **wanted})
    transaction.on_commit(partial(client().enqueue, **wanted), using=using, robust=robust)
