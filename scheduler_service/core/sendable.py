"""Whether a run can become a message. The API refuses other runs, but direct INSERTs bypass it."""

from functools import lru_cache
from typing import Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.identity import TASK_RULE, is_task_name
from itinerary.protocol.instants import DAY
from itinerary.protocol.run_fields import HEADERS, is_taken
from scheduler_service.core.model import DispatchedRun

_LONGEST_ID: Final = 280
_LONGEST: Final = 366 * DAY


is_known: Final = lru_cache(maxsize=1_024)(is_task_name)


def send_error(run: DispatchedRun) -> str | None:
    """The reason why the run cannot be sent to a worker; None if it can."""
    if not isinstance(run.args, list) or not isinstance(run.kwargs, dict):
        return "args must be a list and kwargs an object"
    if run.headers is not None:
        try:
            HEADERS.read(run.headers, "headers")
        except BadValue as exc:
            return str(exc)
    if not is_known(run.task):
        return f"task {run.task[:100]!r}: {TASK_RULE}"
    if is_taken(run.queue):
        return f"the queue must have another name than {run.queue}: Redis keeps something else under it"
    if not 0 < len(run.run_id) <= _LONGEST_ID:
        return f"run_id must have 1 to {_LONGEST_ID} characters"
    if run.timeout is not None and not 0 < run.timeout <= _LONGEST:
        return "the timeout must be above 0 and below a year"
    return None
