"""Check whether messages of a task's class can be claimed, which needs Celery's own code to pass them to a process.

A custom Strategy (celery-batches and the like) takes a message without a tracer, and so without a claim: each copy of
the message would run. A custom Request is accepted, unless it finds its own way to the pool.
"""

from typing import Any, Final

from celery import Task
from celery.utils.imports import symbol_by_name
from celery.worker import strategy
from celery.worker.request import Request

UNCLAIMABLE: Final = "unclaimable"
_WAYS_TO_THE_POOL: Final = ("execute", "execute_using_pool")


class Unattached(Exception):
    """A task that is not started, since its process cannot claim it."""


def hindrance(task: Any) -> str | None:
    """Why messages of this task cannot be claimed, as the end of a sentence about the task; None if they can."""
    if symbol_by_name(task.Strategy) is not strategy.default:
        return f"has a Strategy of its own, {task.Strategy}"
    if getattr(type(task), "start_strategy", None) is not vars(Task)["start_strategy"]:
        return f"has a start_strategy() of its own, in {type(task).__qualname__}"
    kind = symbol_by_name(task.Request)
    if not (isinstance(kind, type) and issubclass(kind, Request)):
        return f"has a Request that is none of Celery's, {task.Request}"
    own = [name for name in _WAYS_TO_THE_POOL if getattr(kind, name) is not getattr(Request, name)]
    return f"has a Request with {own[0]}() of its own, {kind.__qualname__}" if own else None


def refusal(name: str, why: str) -> str:
    """The sentence with which a worker with such a task refuses to start."""
    return (
        f"task {name} {why}: its messages cannot be claimed, so that a run could start twice. Give it Celery's own, or "
        f'call attach(app, exclude=["{name}"]): then your program uses it as ever, and runs of it fail at once'
    )
