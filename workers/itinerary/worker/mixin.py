"""The mixin of a user's task class: the claim before its first line, and a retry that asks the leader.

Promises that tasks behave as before for other messages, for `apply()` and for direct calls. Never replaces a user's
class: each task's class gets a subclass of its own, so that all its methods stay.
"""

import logging
import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from celery import Celery, Task, states
from celery.backends.base import DisabledBackend
from celery.exceptions import Ignore, SoftTimeLimitExceeded, WorkerLostError
from celery.utils.imports import symbol_by_name

from itinerary.worker.asked_retry import AskedRetry
from itinerary.worker.claim import Verdict
from itinerary.worker.claimable import Unattached
from itinerary.worker.connection import RedisConnection
from itinerary.worker.current import running
from itinerary.worker.delivery import NO_LIMITS, Delivery, Limits, is_ours
from itinerary.worker.pool_registry import PoolRegistry
from itinerary.worker.request import telling
from itinerary.worker.task_logs import TaskLogs
from itinerary.worker.tracing import begin

log = logging.getLogger("itinerary.worker")

if TYPE_CHECKING:
    _Task = Task[Any, Any]
else:  # generic from Celery 5.7 on
    _Task = Task

Lost = Callable[[str, WorkerLostError | Unattached, AskedRetry | None], None]
SLOT: Final = "itinerary_delivery"
"""The attribute of a request that holds its delivery."""
_LONGEST_CHAIN: Final = 100


class Claiming(_Task):
    """The mixin before the user's class, so that the claim comes before the user's own `before_start`."""

    itinerary_connection: ClassVar[RedisConnection]
    itinerary_registry: ClassVar[PoolRegistry]
    itinerary_worker: ClassVar[str]
    itinerary_limits: ClassVar[Limits]
    itinerary_lost: ClassVar[Lost]
    itinerary_logs: ClassVar[TaskLogs | None]

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Claim, or end the task by Ignore: then none of its code runs."""
        delivery = self.claimed()
        if delivery is not None:
            if delivery.verdict is not Verdict.WON:
                delattr(self.request, SLOT)
                log.info("claim refused task_id=%s verdict=%s", task_id, delivery.verdict)
                raise Ignore(f"claim {delivery.verdict}")
            running.set(delivery.run)
            delivery.span = begin(self.name, vars(self.request))
            delivery.take_secrets(args, kwargs)
            if self.itinerary_logs is not None:
                delivery.log = self.itinerary_logs.begin(vars(self.request), task_id, delivery.hide)
            self._store_started(task_id)
        super().before_start(task_id, args, kwargs)

    def claimed(self) -> Delivery | None:
        """The request's delivery after its claim, which is asked for once; None for other messages."""
        known = delivery_of(self)
        if known is not None:
            if known.interrupted is not None:
                raise known.interrupted  # Celery's signals have only logged it
            return known
        of_worker = self.itinerary_limits
        limits = Limits(self.time_limit or of_worker.hard, self.soft_time_limit or of_worker.soft)
        delivery = Delivery.of(
            self.request, self.itinerary_connection, self.itinerary_registry, self.itinerary_worker, limits
        )
        if delivery is not None:
            setattr(self.request, SLOT, delivery)
            try:
                delivery.claim()
            except Exception as exc:
                delivery.interrupted = exc
                raise
        return delivery

    @property
    def backend(self) -> Any:
        """The task's result backend; none before the claim, after a refused one, and for a run with secrets."""
        delivery = delivery_of(self)
        stores = delivery.won and not delivery.secrets if delivery else not is_ours(vars(self.request))
        celerys: Any = super()
        return celerys.backend if stores else _nowhere(self.app)

    @backend.setter
    def backend(self, value: Any) -> None:
        self._backend = value

    def _store_started(self, task_id: str) -> None:
        """Store STARTED where the app asks for it: Celery itself stores it before the claim, and so nowhere."""
        request: Any = self.request
        ignored = self.ignore_result if request.ignore_result is None else request.ignore_result
        if self.track_started and not ignored:
            meta = {"pid": os.getpid(), "hostname": request.hostname}
            try:
                self.backend.store_result(task_id, meta, states.STARTED, request=request)
            except SoftTimeLimitExceeded:
                raise
            except Exception as exc:  # noqa: BLE001 - any backend's own; a run need not fail for what is only shown
                log.warning("%s runs, but its result backend does not have that it started: %r", task_id, exc)

    def retry(self, *args: Any, **kwargs: Any) -> Any:
        """Celery's `retry`, bounded by max_retries as ever, but without a message: the leader retries."""
        delivery = delivery_of(self)
        if delivery is None:
            return super().retry(*args, **kwargs)
        delivery.asking_retry = True
        try:
            return super().retry(*args, **kwargs)
        finally:
            delivery.asking_retry = False

    def signature_from_request(self, *args: Any, **kwargs: Any) -> Any:
        """Inside `retry()`, a signature that asks instead of sending."""
        signature: Any = super().signature_from_request(*args, **kwargs)
        delivery = delivery_of(self)
        if delivery is not None and delivery.asking_retry:
            signature.apply_async = lambda: delivery.ask_retry(signature, self.request, self.app.timezone)
        return signature


@cache
def _nowhere(app: Celery) -> DisabledBackend:
    return DisabledBackend(app=app)


def delivery_of(task: Any) -> Delivery | None:
    """The delivery of the task's current request, once its claim was asked for."""
    delivery: Delivery | None = vars(task.request).get(SLOT)
    return delivery


def own_error(error: BaseException | None) -> BaseException | None:
    """The error that ended the task, even if Celery then failed to store it and raises another by now."""
    if error is None or error.__traceback__ is None:
        return error
    tracer, found, before = error.__traceback__.tb_frame, error, error.__context__
    for _ in range(_LONGEST_CHAIN):
        if before is None:
            break
        # What the task or the backend caught itself was never in the tracer's frame.
        if before.__traceback__ is not None and before.__traceback__.tb_frame is tracer:
            found = before
        before = before.__context__
    return found


def give_claim(
    task: Any,
    connection: RedisConnection,
    registry: PoolRegistry,
    worker: str,
    lost: Lost,
    limits: Limits = NO_LIMITS,
    logs: TaskLogs | None = None,
) -> bool:
    """Put the mixin before the task's class; False if it is there already (its worker's name is updated).

    `lost` is called in the main process for an attempt whose process is gone, or cannot claim it. It is given the
    retry that the attempt wants.
    `limits` are the worker's, for tasks that have none; without `logs` no log is kept.
    """
    kind = type(task)
    given = {
        "itinerary_connection": connection,
        "itinerary_registry": registry,
        "itinerary_worker": worker,
        "itinerary_limits": limits,
        "itinerary_lost": staticmethod(lost),
        "itinerary_logs": logs,
    }
    if issubclass(kind, Claiming):
        for name, value in given.items():
            setattr(kind, name, value)
        return False
    members = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    request = telling(symbol_by_name(task.Request))
    task.__class__ = type(kind.__name__, (Claiming, kind), members | given)
    task.Request = request
    return True
