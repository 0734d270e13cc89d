"""A warm stop of Celery's pool of processes, which lets each process end what it was given.

Celery drops from its books a task that a process was given and has not yet acknowledged. The process runs it all the
same, then waits 30 seconds for its result to be counted, and the broker delivers the message again. A process that was
given half of a long message waits for the rest for ever, and the stop for the process. Promises that such a task stays
in the books and is given whole. What no process was given goes back to its queue as before.
"""

from typing import Any

from celery.worker import state


def keep_what_was_given(consumer: Any) -> None:
    """Let the pool drop tasks only after a lost connection, and where the worker ends at once."""
    drop = consumer.pool.flush
    if drop is None:  # a broker without an event loop: Celery then writes whole messages, and drops none
        return

    def flush() -> None:
        ends_warm = consumer.controller.blueprint.human_state() == "closing" and not ends_at_once()
        if ends_warm:
            _write_to_the_end(consumer.pool._pool)
        else:
            drop()

    consumer.pool.flush = flush


def _write_to_the_end(pool: Any) -> None:
    """Write the rest of each message that a process has a part of; the event loop, which would do it, has ended."""
    for job in tuple(pool._cache.values()):
        writer = getattr(job, "_writer", None)  # a weak reference, once Celery has begun to write
        if writer is not None and writer() in pool._active_writers:
            pool._flush_writer(job._write_to, writer())


def ends_at_once() -> bool:
    """Whether the worker was told to end without its tasks; Celery's mark is the exit status, which may be 0."""
    return state.should_terminate is not None and state.should_terminate is not False
