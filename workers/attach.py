"""`attach(app)`: a Celery app's tasks run under Itinerary, with no other change to it.

Owns the wiring to Celery's signals. Promises that nothing happens in processes that are not workers, and that a worker
that cannot give its tasks the claim does not start at all. Messages of others are never looked into.
"""

import os
import sys
import threading
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

from celery import Celery, signals
from celery.app.trace import build_tracer
from celery.exceptions import NotRegistered, TimeLimitExceeded, WorkerLostError

from scheduler_service import tracing
from scheduler_service.core.errors import BadValue
from scheduler_service.core.instants import SECOND, Instant
from scheduler_service.core.wire import HEADER_QUEUE, HEADER_SEQ
from workers import reporting
from workers.board import Board
from workers.claim import Verdict, claim
from workers.connection import RedisConnection, usable_url
from workers.current import running
from workers.delivery import TERMINATED, TIMED_OUT, is_ours
from workers.green import mend_kombu
from workers.heartbeat import Heart, Owed
from workers.mixin import delivery_of, give_claim
from workers.reporting import ANY_TOKEN, Told

WORKER_LOST: Final = "worker_lost"
UNKNOWN_TASK: Final = "unknown_task"
REDIS_VARIABLE: Final = "ITINERARY_REDIS_URL"
_POOL_OF_PROCESSES: Final = "celery.concurrency.prefork"
_UNTRIED_POOL: Final = "celery.concurrency.eventlet"

_attachments: dict[int, "Attachment"] = {}


def attach(app: Celery, redis_url: str | None = None) -> None:
    """Let `app`'s workers run the scheduler's tasks: claimed before they start, reported when they end.

    Redis is `redis_url`, else ITINERARY_REDIS_URL, else the app's broker where that is Redis. Attaching again changes
    nothing.
    """
    if id(app) not in _attachments:
        _attachments[id(app)] = Attachment(app, redis_url)


def attach_new_tasks(app: Celery) -> None:
    """Give the claim to tasks that were registered since the app's worker in this process started."""
    _attachments[id(app)].arm_again()


class Attachment:
    """One app's wiring; kept for the life of the process, as the app is."""

    def __init__(self, app: Celery, redis_url: str | None) -> None:
        self._app = app
        self._redis_url = redis_url
        self._connection: RedisConnection | None = None
        self._board: Board | None = None
        self._worker = "celery"
        self._main_pid = 0
        self._heart: Heart | None = None
        self._received: WeakValueDictionary[str, Any] = WeakValueDictionary()
        for signal, receiver in (
            (signals.worker_init, self._on_worker_init),
            (signals.celeryd_after_setup, self._on_worker_setup),
            (signals.worker_process_init, self._on_child_init),
            (signals.worker_ready, self._on_ready),
            (signals.worker_shutdown, self._on_shutdown),
            (signals.task_received, self._on_received),
            (signals.task_postrun, self._on_postrun),
            (signals.task_failure, self._on_failure),
            (signals.task_revoked, self._on_revoked),
            (signals.task_unknown, self._on_unknown),
        ):
            signal.connect(receiver, weak=False)

    # Before any tracer is built

    def _on_worker_init(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app:
            self._arm(sender.hostname)

    def _on_worker_setup(self, instance: Any, **_: Any) -> None:
        if instance.app is self._app:
            self._arm(instance.hostname)

    def _on_child_init(self, sender: Any, **_: Any) -> None:
        if self._connection is None and sender:  # a fresh interpreter, where nothing was armed before the fork
            self._arm(str(sender))

    def _arm(self, worker: str) -> None:
        """Give every task the claim. A task that runs without one could run twice: then better not at all."""
        try:
            self._connection = self._connection or RedisConnection(self._find_redis())
            board = self._board = self._board or Board()
            tracing.check()
        except BadValue as exc:
            sys.exit(f"itinerary: {exc}")
        mend_kombu()
        self._worker = worker
        self._main_pid = self._main_pid or os.getpid()
        for name, task in self._app.tasks.items():
            if give_claim(task, self._connection, board, worker) and task.__trace__ is not None:
                task.__trace__ = build_tracer(name, task, self._app.loader, worker, app=self._app)

    def arm_again(self) -> None:
        """The same for tasks that came later; before the worker starts there is nothing to do."""
        if self._connection is not None:
            self._arm(self._worker)

    def _find_redis(self) -> str:
        wanted = self._redis_url or os.environ.get(REDIS_VARIABLE) or self._app.conf.broker_url
        url = usable_url(wanted)
        if url is None:
            raise BadValue(
                "redis_url",
                None,
                f"set {REDIS_VARIABLE}, or give attach() a redis_url: the broker is not Redis",
            )
        return url

    # In the worker's main process

    def _on_ready(self, sender: Any, **_: Any) -> None:
        if sender.app is not self._app or self._connection is None or self._board is None:
            return
        pool = type(sender.pool).__module__
        if pool == _UNTRIED_POOL:  # its makers advise against new use
            sys.exit("itinerary: the pool eventlet is not supported; use -P gevent, prefork, threads or solo")
        self._heart = Heart(self._connection, self._board, self._worker, sender)
        self._board.on_waiting = self._heart.beat_soon
        if pool == _POOL_OF_PROCESSES:
            threading.Thread(target=self._board.listen, name="itinerary-board", daemon=True).start()
        self._heart.start()

    def _on_shutdown(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app and self._heart is not None:
            heart, self._heart = self._heart, None
            heart.stop()

    def _on_received(self, sender: Any, request: Any, **_: Any) -> None:
        if sender.app is self._app and is_ours(request.request_dict):
            self._received[request.id] = request

    def _on_failure(self, task_id: str, exception: Any, **_: Any) -> None:
        """Celery says this in the main process for a child that is gone; a task's own errors have a delivery."""
        if isinstance(exception, TimeLimitExceeded):
            self._report_for_child(task_id, exception, TIMED_OUT)
        elif isinstance(exception, WorkerLostError):
            self._report_for_child(task_id, exception, WORKER_LOST)

    def _on_revoked(self, request: Any, terminated: bool, **_: Any) -> None:
        """Celery says this when it signals the child or greenlet, which reports by itself where it still can."""
        if terminated:
            self._report_for_child(request.id, RuntimeError("terminated by remote control"), TERMINATED, wait=True)

    def _report_for_child(self, task_id: str, exc: BaseException, reason: str, wait: bool = False) -> None:
        """If we die before the heart has sent it, heartbeats end too and the leader calls the attempt lost.

        A child that did not have its claim yet has begun nothing: the leader will send the attempt again.
        """
        request, connection, heart, board = self._received.get(task_id), self._connection, self._heart, self._board
        if request is None or connection is None or heart is None or board is None or os.getpid() != self._main_pid:
            return
        if not board.is_claimed(task_id):
            return
        report = Told(task_id, self._worker, _started_at(request)).failed(exc, reason)
        pid = request.worker_pid if wait else None

        def send() -> None:
            if reporting.send(connection, report, ANY_TOKEN, True):
                board.told(report, ANY_TOKEN)

        heart.enqueue(Owed(task_id, send, pid))

    def _on_unknown(self, sender: Any, message: Any, name: str, id: str, **_: Any) -> None:
        connection, heart = self._connection, self._heart
        headers = message.headers or {}
        if sender.app is not self._app or connection is None or heart is None or not is_ours(headers):
            return
        seq, queue = headers.get(HEADER_SEQ), headers.get(HEADER_QUEUE)
        token, at = uuid4().hex, reporting.clock()
        report = Told(id, self._worker, None).failed(NotRegistered(name), UNKNOWN_TASK)

        def refuse() -> Verdict:
            verdict = claim(connection, id, token, self._worker, at, seq, queue)
            if verdict is Verdict.WON:
                reporting.send(connection, report, token, True)
            return verdict

        heart.enqueue(Owed(id, refuse))

    # In the process that runs the task

    def _on_postrun(self, sender: Any, state: str | None, retval: Any, **_: Any) -> None:
        if sender.app is not self._app:
            return
        delivery = delivery_of(sender)
        if delivery is not None:
            delivery.end(state, retval if state is not None else sys.exc_info()[1])
            running.set(None)


def _started_at(request: Any) -> Instant | None:
    return None if request.time_start is None else int(request.time_start * SECOND)
