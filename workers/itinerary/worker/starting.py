"""Receivers of Celery's signals of a start. Celery only logs what they raise, except SystemExit.

Promises that a worker ends with a sentence if a receiver of ours fails, and so does a process of its pool. It would
take messages without their claims. Knows which app runs the tasks of a process that was spawned, not forked.
"""

import logging
import sys
from collections.abc import Callable
from typing import Any, Final

from celery import Celery
from celery.app import app_or_default

_UNTRIED_POOL: Final = "celery.concurrency.eventlet"

log = logging.getLogger("itinerary.worker")


def or_end(receiver: Callable[..., None]) -> Callable[..., None]:
    """The same receiver, with any error as the worker's end."""

    def guarded(**named: Any) -> None:
        try:
            receiver(**named)
        except Exception as exc:
            log.critical("the worker could not be put under Itinerary", exc_info=True)
            sys.exit(
                f"itinerary: this worker does not start, since its tasks could not be put under Itinerary: {exc!r}; "
                "the traceback is in its log"
            )

    return guarded


def require_known_pool(kind: str) -> None:
    """End the worker where its pool is not supported."""
    if kind == _UNTRIED_POOL:  # its authors advise against new use
        sys.exit("itinerary: the pool eventlet is not supported; use -P gevent, prefork, threads or solo")


def app_that_runs(attached: Celery) -> Celery:
    """The app whose tasks a spawned process runs: the main process's, unpickled, beside the one that was attached."""
    running: Celery = app_or_default()
    return running if running.main == attached.main else attached
