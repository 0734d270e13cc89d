"""Pools whose processes are not forked from the main process: what runs there may never have imported `attach()`.

Promises that no code of a task runs for a run of ours in a process that cannot claim it. Other messages run as before.
"""

from typing import Any, Final

from billiard import get_start_method
from celery import current_app

from itinerary.worker.claimable import Unattached
from itinerary.worker.delivery import is_ours
from itinerary.worker.mixin import Claiming

_POOL_OF_PROCESSES: Final = "celery.concurrency.prefork"
_POOLS_OF_THREADS: Final = frozenset(f"celery.concurrency.{name}" for name in ("thread", "gevent", "solo"))


def run_attached(trace: Any, name: str, task_id: str, request: dict[str, Any], *rest: Any) -> Any:
    """Run a task as Celery does, in the process that Celery chose for it; Unattached for a run without its claim."""
    if is_ours(request) and not isinstance(current_app.tasks.get(name), Claiming):
        raise Unattached(
            f"the process that was to run the task {name} cannot claim it, so it is not started: attach(app) was not "
            "called there. Call it in the module of the app, so that each process of the pool imports it"
        )
    return trace(name, task_id, request, *rest)


def guard(pool: Any) -> None:
    """Let the pool run our runs by `run_attached` where its processes do not begin as copies of this one."""
    kind = type(pool).__module__
    if kind in _POOLS_OF_THREADS or (kind == _POOL_OF_PROCESSES and get_start_method() == "fork"):
        return
    apply_async = pool.apply_async

    def guarded(trace: Any, args: Any, **options: Any) -> Any:
        return apply_async(run_attached, args=(trace, *args), **options)

    pool.apply_async = guarded
