"""The short reasons that workers report, in plain words with what to do. Pure."""

from typing import Final

_CAUSES: Final = {
    "lost": "Its worker is gone, or lost its connection to Redis: no heartbeat listed the attempt any more, and no "
    "report came.",
    "worker_lost": "The process that ran it was killed: often it had used up the memory, or somebody sent it a kill.",
    "timed_out": "It took longer than its time limit, and was stopped. Give the job or run a longer timeout, or let it "
    "do less at once.",
    "terminated": "Its worker was told to stop it.",
    "revoked": "It was revoked by Celery's remote control before it began.",
    "rejected": "The task put its message back, as often as its retries allow.",
    "ignored": "The task ended itself without a result (Ignore or Reject).",
    "undecodable": "The worker could not decode its message; the content types of the app's accept_content must "
    "include json.",
    "malformed": "Its message, or its row, does not have the form of a run's: another program wrote it.",
    "unclaimable": "The task is excluded from Itinerary, by exclude= of attach() in the worker's app, or the process "
    "that was to run it has not called attach(): its error says which.",
}


def cause(reason: str | None) -> str | None:
    """Return a reason in plain words; one that is a sentence already as it is."""
    return None if reason is None else _CAUSES.get(reason, reason)
