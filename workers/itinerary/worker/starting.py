"""Receivers of Celery's signals of a start. Celery only logs what they raise, except SystemExit.

Promises that a worker ends with a sentence if a receiver of ours fails, and so does a process of its pool. It would
take messages without their claims.
"""

import logging
import sys
from collections.abc import Callable
from typing import Any

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
