"""`attach(app)`: run a Celery app's tasks under Itinerary, with no other change to the app.

Owns the wiring to Celery's signals. Does nothing in processes that are not workers, and nothing to messages of others.
Promises that a worker which cannot give its tasks the claim does not start.
"""

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

from celery import Celery, signals
from celery.app.trace import build_tracer
from celery.exceptions import Reject, TaskRevokedError, TimeLimitExceeded, WorkerLostError

from itinerary.protocol.errors import BadValue
from itinerary.protocol.wire import HEADER_KEY_PREFIX, HEADER_QUEUE, HEADER_SEQ
from itinerary.telemetry import tracing
from itinerary.worker import reporting
from itinerary.worker.asked_retry import AskedRetry
from itinerary.worker.beacon import RepeatedCheck, compared
from itinerary.worker.claim import Verdict, claim
from itinerary.worker.claimable import UNCLAIMABLE, Unattached, hindrance, refusal
from itinerary.worker.connection import RedisConnection, connection_of, is_redis
from itinerary.worker.current import running
from itinerary.worker.delivery import NO_LIMITS, REVOKED, TERMINATED, TIMED_OUT, WORKER_LOST, Limits, is_ours
from itinerary.worker.escapes import learn_escapes
from itinerary.worker.green import mend_kombu
from itinerary.worker.heartbeat import Heartbeater
from itinerary.worker.held import HeldRequests, started_at
from itinerary.worker.hiding import learn_hidden_names
from itinerary.worker.intake import Intake
from itinerary.worker.known_tasks import KnownTasks
from itinerary.worker.mixin import Claiming, delivery_of, give_claim, own_error
from itinerary.worker.pending import PendingSend
from itinerary.worker.pool_registry import PoolRegistry
from itinerary.worker.publish_signals import fire_at_claims
from itinerary.worker.releases import unfit_releases
from itinerary.worker.reporting import ANY_TOKEN, ReportBuilder
from itinerary.worker.starting import app_that_runs, or_end, require_known_pool
from itinerary.worker.task_logs import Captured, TaskLogs, logs_of, read_captured
from itinerary.worker.warm_stop import keep_what_was_given

_POOL_OF_PROCESSES: Final = "celery.concurrency.prefork"

log = logging.getLogger("itinerary.worker")

_attachments: dict[int, "Attachment"] = {}


def attach(
    app: Celery,
    redis_url: str | None = None,
    *,
    exclude: Iterable[str] = (),
    publish_signals: bool = False,
    key_prefix: str | None = None,
    logs: str = "records",
) -> None:
    """Let `app`'s workers run the scheduler's tasks: claimed before they start, reported when they end.

    Redis is `redis_url`, else ITINERARY_REDIS_URL, else the app's broker if that is Redis. `exclude` names tasks that
    cannot be claimed and that the scheduler never runs. `publish_signals`: the app's `before_task_publish` and
    `after_task_publish` receivers fire in the worker, after each claim. `key_prefix` is the service's, else
    ITINERARY_KEY_PREFIX. `logs`: what is kept of a task, its loggers' "records", also its "output", or "nothing".
    Attaching again changes nothing.
    """
    if id(app) not in _attachments:
        _attachments[id(app)] = Attachment(app, redis_url, key_prefix, frozenset(exclude), read_captured(logs))
        if publish_signals:
            fire_at_claims(app)


def attach_new_tasks(app: Celery) -> None:
    """Add the claim to tasks registered after the app's worker in this process started."""
    _attachments[id(app)].arm_again()


class Attachment:
    """One app's wiring; kept for the life of the process, as the app is."""

    def __init__(
        self, app: Celery, redis_url: str | None, key_prefix: str | None, exclude: frozenset[str], captured: Captured
    ) -> None:
        self._app = app
        self._redis_url = redis_url
        self._key_prefix = key_prefix
        self._exclude = exclude
        self._unclaimable: dict[str, str] = {}
        self._compared = False
        self._connection: RedisConnection | None = None
        self._registry: PoolRegistry | None = None
        self._captured = captured
        self._logs: TaskLogs | None = None
        self._worker = "celery"
        self._limits = NO_LIMITS
        self._main_pid = 0
        self._heartbeater: Heartbeater | None = None
        self._received = HeldRequests()
        for signal, receiver in (
            (signals.celeryd_init, or_end(self._on_celeryd_init)),
            (signals.worker_init, or_end(self._on_worker_init)),
            (signals.celeryd_after_setup, or_end(self._on_worker_setup)),
            (signals.worker_process_init, or_end(self._on_child_init)),
            (signals.worker_ready, or_end(self._on_ready)),
            (signals.worker_shutdown, self._on_shutdown),
            (signals.task_received, self._on_received),
            (signals.task_postrun, self._on_postrun),
            (signals.task_failure, self._on_failure),
            (signals.task_revoked, self._on_revoked),
        ):
            signal.connect(receiver, weak=False)
        app.steps["consumer"].add(type("Intake", (Intake,), {"desk": self}))

    # Before any tracer is built

    def _on_celeryd_init(self, instance: Any, **_: Any) -> None:
        """Refuse unfit releases before Celery loads its transport, which may fail to load with this redis-py."""
        if instance.app is self._app:
            why = unfit_releases(broker_is_redis=is_redis(self._app.conf.broker_read_url))
            if why is not None:
                sys.exit(f"itinerary: {why}")

    def _on_worker_init(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app:
            self._limits = Limits(sender.time_limit, sender.soft_time_limit)
            self._arm(sender.hostname)
            assert self._connection is not None
            self._compared = compared(self._app, self._connection)

    def _on_worker_setup(self, instance: Any, **_: Any) -> None:
        if instance.app is self._app:
            self._arm(instance.hostname)

    def _on_child_init(self, sender: Any, **_: Any) -> None:
        if self._connection is not None:
            self.arm_again()  # tasks that the process registers at its start
        elif sender:  # a fresh interpreter, not prepared before a fork
            self._app = app_that_runs(self._app)
            self._arm(str(sender))

    def _arm(self, worker: str) -> None:
        """Add the claim to every task, or exit: a task without one could run twice."""
        try:
            self._connection = self._connection or connection_of(self._redis_url, self._key_prefix, self._app.conf)
            registry = self._registry = self._registry or PoolRegistry()
            self._logs = self._logs or logs_of(self._captured, self._connection)
            tracing.check()
        except BadValue as exc:
            sys.exit(f"itinerary: {exc}")
        mend_kombu()
        learn_escapes()
        learn_hidden_names(os.environ)
        self._worker = worker
        self._main_pid = self._main_pid or os.getpid()
        if refused := self._give_claims(self._connection, registry):
            sys.exit("; ".join(f"itinerary: {refusal(name, why)}" for name, why in refused.items()))

    def _give_claims(self, connection: RedisConnection, registry: PoolRegistry) -> dict[str, str]:
        """Add the claim to every task; return those that cannot have it, without the excluded ones."""
        for name, task in list(self._app.tasks.items()):
            try:
                why = None if isinstance(task, Claiming) else hindrance(task)
                if why is None:
                    self._give_claim(task, connection, registry)
            except Exception as exc:  # noqa: BLE001 - a class of the user's may refuse a subclass in any way
                why = f"cannot be given the claim, {exc!r}"
            if why is not None:
                self._unclaimable[name] = why
        return {name: why for name, why in self._unclaimable.items() if name not in self._exclude}

    def _give_claim(self, task: Any, connection: RedisConnection, registry: PoolRegistry) -> None:
        given = give_claim(task, connection, registry, self._worker, self.child_lost, self._limits, self._logs)
        if given and task.__trace__ is not None:
            task.__trace__ = build_tracer(task.name, task, self._app.loader, self._worker, app=self._app)

    def arm_again(self) -> None:
        """Add the claim to tasks that came later; does nothing before the worker starts."""
        if self._connection is not None and self._registry is not None:
            known = set(self._unclaimable)
            for name, why in self._give_claims(self._connection, self._registry).items():
                if name not in known:
                    log.error("runs of this task will fail: %s", refusal(name, why))

    def before_strategies(self) -> None:
        """See Desk: tasks may have been registered or replaced since the worker started."""
        self.arm_again()

    def unclaimable(self, task: str) -> str | None:
        """See Desk."""
        return self._unclaimable.get(task)

    # In the worker's main process

    def _on_ready(self, sender: Any, **_: Any) -> None:
        if sender.app is not self._app or self._connection is None or self._registry is None:
            return
        pool = type(sender.pool).__module__
        require_known_pool(pool)
        self._heartbeater = Heartbeater(self._connection, self._registry, self._worker, sender, self._received)
        self._registry.on_waiting = self._heartbeater.beat_soon
        self._heartbeater.watched = None if self._logs is None else self._logs.watched
        self._heartbeater.known = KnownTasks(self._app, self._unclaimable).part
        if not self._compared:
            self._heartbeater.asks = RepeatedCheck(self._app, self._connection)
        if pool == _POOL_OF_PROCESSES:
            self._registry.start_listening()
            keep_what_was_given(sender)
        self._heartbeater.start()

    def _on_shutdown(self, sender: Any, **_: Any) -> None:
        if sender.app is self._app and self._heartbeater is not None:
            heartbeater, self._heartbeater = self._heartbeater, None
            heartbeater.stop()

    def _on_received(self, sender: Any, request: Any, **_: Any) -> None:
        if sender.app is self._app and is_ours(request.request_dict):
            self._received.add(request)

    def _on_failure(self, task_id: str, exception: Any, **_: Any) -> None:
        """Report a child killed by its time limit; a task's own errors are reported by its delivery."""
        if isinstance(exception, TimeLimitExceeded):
            self._report_for_child(task_id, exception, TIMED_OUT)

    def child_lost(self, task_id: str, exc: WorkerLostError | Unattached, retry: AskedRetry | None) -> None:
        """Report that the process of this task is gone, `retry` if it is to be retried for that; or cannot claim it."""
        if isinstance(exc, WorkerLostError):
            self._report_for_child(task_id, exc, WORKER_LOST, retry=retry)
        elif (request := self._received.of(task_id)) is not None:
            self.refuse(request.request_dict, exc, UNCLAIMABLE)

    def _on_revoked(self, request: Any, terminated: bool, expired: bool, **_: Any) -> None:
        """Report a revoked task, unless the signalled child or greenlet can still report itself.

        Every worker that received the revoke drops a message revoked before its task began.
        """
        if terminated:
            self._report_for_child(request.id, RuntimeError("terminated by remote control"), TERMINATED, wait=True)
        elif not expired and is_ours(vars(request)):
            self.refuse(vars(request), TaskRevokedError("revoked by remote control before it began"), REVOKED)

    def _report_for_child(
        self, task_id: str, exc: BaseException, reason: str, *, wait: bool = False, retry: AskedRetry | None = None
    ) -> None:
        """Report the end of a child's attempt, which counts as lost if we die first, since heartbeats end too.

        A child without its claim has begun nothing: the leader redispatches the attempt.
        """
        request, connection = self._received.of(task_id), self._connection
        heartbeater, registry = self._heartbeater, self._registry
        if request is None or connection is None or heartbeater is None or registry is None:
            return
        if os.getpid() != self._main_pid or not registry.is_claimed(task_id):
            return
        builder = ReportBuilder(task_id, self._worker, started_at(request))
        if retry is None:
            report = builder.failed(exc, reason)
        else:
            report = builder.retry(retry.due_at, retry.args, retry.kwargs, retry.retries, exc)
        pid = request.worker_pid if wait else None

        def send() -> None:
            if reporting.send(connection, report, ANY_TOKEN, True):
                registry.report_sent(report, ANY_TOKEN)

        heartbeater.enqueue(PendingSend(task_id, send, pid))

    def refuse(self, headers: Any, exc: Exception, reason: str) -> None:
        """See Desk. Claims first: another copy may run, and a cancelled attempt must stay cancelled."""
        connection, heartbeater = self._connection, self._heartbeater
        if connection is None or heartbeater is None:
            return
        task_id, seq, queue = headers["id"], headers.get(HEADER_SEQ), headers.get(HEADER_QUEUE)
        sender = headers.get(HEADER_KEY_PREFIX, "")
        token, at = uuid4().hex, reporting.clock()
        report = ReportBuilder(task_id, self._worker, None).failed(exc, reason)

        def refuse() -> Verdict:
            verdict = claim(connection, task_id, token, self._worker, at, seq, queue, sender)
            if verdict is Verdict.WON:
                reporting.send(connection, report, token, True)
            return verdict

        heartbeater.enqueue(PendingSend(task_id, refuse))

    # In the process that runs the task

    def _on_postrun(self, sender: Any, state: str | None, retval: Any, **_: Any) -> None:
        if sender.app is not self._app:
            return
        delivery = delivery_of(sender)
        if delivery is not None:
            outcome = retval if state is not None else own_error(sys.exc_info()[1])
            if isinstance(outcome, Reject):
                delivery.put_back(outcome, sender)
            delivery.end(state, outcome)
            running.set(None)
