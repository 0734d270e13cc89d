"""Celery's `before_task_publish` and `after_task_publish` for messages that the leader published.

The app's receivers (a task table, a tenant's header) fire in the worker, once for each claimed delivery, before the
app's own `task_prerun`. Promises that headers which they add reach the task's request. Fires nothing unless asked.
"""

from typing import Any, Final

from celery import Celery, signals

from itinerary.protocol.wire import HEADER_QUEUE
from itinerary.worker.mixin import SLOT, Claiming

# What Celery's worker and ours add to a request beside the headers of its message.
_NO_HEADERS: Final = frozenset(
    {
        "args", "kwargs", "callbacks", "errbacks", "chain", "chord", "utc", "headers", "properties", "delivery_info",
        "reply_to", "correlation_id", "hostname", "called_directly", "is_eager", "loglevel", "logfile", "time_limit",
        "soft_time_limit", SLOT,
    }
)  # fmt: skip


def fire_at_claims(app: Celery) -> None:
    """Have both signals fire for each claimed delivery of the app's workers."""

    def on_prerun(task: Any, args: Any, kwargs: Any, **_: Any) -> None:
        if task.app is app and isinstance(task, Claiming):
            delivery = task.claimed()
            if delivery is not None and delivery.won:
                _fire(task.name, task.request, args, kwargs)

    signals.task_prerun.connect(on_prerun, weak=False)
    # Before the app's own receivers, which look for what the publication's receivers store.
    connected = signals.task_prerun.receivers
    connected.insert(0, connected.pop())


def _fire(name: str, request: Any, args: Any, kwargs: Any) -> None:
    known = {key: value for key, value in vars(request).items() if key not in _NO_HEADERS and key.islower()}
    headers = {**known, **(request.headers or {})}
    before, route = dict(headers), headers.get(HEADER_QUEUE)
    embedded = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    body = (args, kwargs, embedded)
    signals.before_task_publish.send(
        sender=name, body=body, exchange="", routing_key=route, declare=[], headers=headers,
        properties=request.properties or {}, retry_policy=None,
    )  # fmt: skip
    added = {key: value for key, value in headers.items() if key not in before}
    request.update({key: value for key, value in added.items() if key not in _NO_HEADERS})
    request.headers = {**(request.headers or {}), **added}
    signals.after_task_publish.send(sender=name, body=body, exchange="", routing_key=route, headers=headers)
