"""One delivery of one of our messages, in the process that runs it: parse, claim, report.

Promises that a delivery without its claim reports nothing, and that no time limit and no kill after the task's end
disturbs its report. Knows Celery's requests and outcomes, not its workers.
"""

import inspect
import logging
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import uuid4

from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, Instant, parse_instant, to_datetime
from itinerary.protocol.progress import PROGRESS_FIELD
from itinerary.protocol.wire import (
    HEADER_ATTEMPT,
    HEADER_DUE_AT,
    HEADER_JOB_ID,
    HEADER_KEY_PREFIX,
    HEADER_QUEUE,
    HEADER_RUN_ID,
    HEADER_SCHEDULED_AT,
    HEADER_SEQ,
)
from itinerary.worker import reporting
from itinerary.worker.asked_retry import AskedRetry, asked_retry
from itinerary.worker.claim import Verdict, claim
from itinerary.worker.connection import AWAY, RedisConnection, patiently
from itinerary.worker.current import CurrentRun
from itinerary.worker.green import KILLED, OUT_OF_TIME, SoftLimit
from itinerary.worker.hiding import AS_IT_IS, Hide, Hiding, hide_in_logs, task_ended, values_by_name
from itinerary.worker.pool_registry import PoolRegistry
from itinerary.worker.reporting import Report, ReportBuilder
from itinerary.worker.secret_arguments import concealed_body, holds_secret, resolve
from itinerary.worker.task_logs import AttemptLog
from itinerary.worker.tracing import TaskSpan

TIMED_OUT: Final = "timed_out"
TERMINATED: Final = "terminated"
WORKER_LOST: Final = "worker_lost"
REVOKED: Final = "revoked"
IGNORED: Final = "ignored"
REJECTED: Final = "rejected"

# Celery's pool children turn SIGTERM (a revoke, a hard time limit, a cold shutdown) into this exit of the task's code.
_STOPPED: Final = -(256 - signal.SIGTERM)
_LIMITS_ARE_ROUGH: Final = 0.5
_TOO_LATE: Final[tuple[type[BaseException], ...]] = (SoftTimeLimitExceeded, *KILLED, *OUT_OF_TIME)
_ASKED_AGAIN_AFTER: Final = 0.5
# Half a minute: by then a leader has long replaced one that died, and heard every worker or given it up.
_LONG: Final = 60

log = logging.getLogger("itinerary.worker")


def is_ours(headers: Mapping[str, Any]) -> bool:
    """Whether the scheduler sent this message; a message may also merely have inherited its headers."""
    run_id, attempt = headers.get(HEADER_RUN_ID), headers.get(HEADER_ATTEMPT)
    return isinstance(run_id, str) and headers.get("id") == f"{run_id}~{attempt}"


class Limits(NamedTuple):
    """Seconds that a task may take: at the soft limit it is told, at the hard one it is killed."""

    hard: float | None = None
    soft: float | None = None


NO_LIMITS: Final = Limits()


@dataclass(slots=True)
class Delivery:
    """One of our messages; it has a `verdict` once its claim was asked for.

    The token belongs to this delivery, not to the worker: two deliveries of one attempt may meet in one worker.
    """

    connection: RedisConnection
    registry: PoolRegistry
    task_id: str
    run: CurrentRun
    worker: str
    hard_limit: float | None = None
    soft_limit: float | None = None
    seq: int | None = None
    queue: str | None = None
    sender: str = ""
    token: str = field(default_factory=lambda: uuid4().hex)
    verdict: Verdict | None = None
    interrupted: Exception | None = None
    started_at: Instant | None = None
    timer: SoftLimit | None = None
    asking_retry: bool = False
    retry: AskedRetry | None = None
    broken_retry: Exception | None = None
    span: TaskSpan | None = None
    secrets: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    hide: Hide = field(default=AS_IT_IS, repr=False)
    log: AttemptLog | None = None

    @classmethod
    def of(
        cls, request: Any, connection: RedisConnection, registry: PoolRegistry, worker: str, limits: Limits
    ) -> "Delivery | None":
        """The delivery of this request, or None for other messages, eager and direct calls.

        `limits` are those of task and worker, which hold where the message has none.
        """
        headers = vars(request)
        if request.is_eager or request.called_directly or not is_ours(headers):
            return None
        task_id = headers["id"]
        run = CurrentRun(
            headers[HEADER_RUN_ID], headers.get(HEADER_JOB_ID), headers[HEADER_ATTEMPT],
            to_datetime(parse_instant(headers.get(HEADER_SCHEDULED_AT), HEADER_SCHEDULED_AT)),
            to_datetime(parse_instant(headers.get(HEADER_DUE_AT), HEADER_DUE_AT)),
            lambda: _flagged(connection, task_id),
            lambda read: registry.shows_progress(task_id, read),
        )  # fmt: skip
        hard, soft = headers.get("timelimit") or (None, None)
        seq, queue = headers.get(HEADER_SEQ), headers.get(HEADER_QUEUE)
        hard, soft = hard or limits.hard, soft or limits.soft
        sender = headers.get(HEADER_KEY_PREFIX, "")
        return cls(connection, registry, task_id, run, worker, hard, soft, seq, queue, sender)

    @property
    def won(self) -> bool:
        """Whether this delivery has the attempt's claim."""
        return self.verdict is Verdict.WON

    def claim(self) -> None:
        """Ask until Redis answers and the leader has accepted its data; no code of the task runs before that."""
        verdict = self._ask()
        if verdict is Verdict.WAIT:
            log.info("%s waits until the leader knows what runs: redis was started anew or is another", self.task_id)
            self.registry.waiting()
        asked = 1
        while verdict is Verdict.WAIT:
            time.sleep(_ASKED_AGAIN_AFTER)
            verdict = self._ask()
            asked += 1
            if verdict is Verdict.WAIT and asked == _LONG:
                log.warning("%s still waits for the leader: check with `itinerary status` that one leads", self.task_id)
        self.verdict = verdict
        if self.won:
            self.registry.claimed(self.task_id)
            self.timer = SoftLimit(self.soft_limit)

    def _ask(self) -> Verdict:
        at = self.started_at = reporting.clock()
        return patiently(
            lambda: claim(
                self.connection, self.task_id, self.token, self.worker, at, self.seq, self.queue, self.sender
            ),
            f"{self.task_id} waits for its claim",
        )

    def take_secrets(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Put the values of secrets into the arguments; SecretRefused, which fails the run, if one is not allowed."""
        if holds_secret(args) or holds_secret(kwargs):
            self.secrets = resolve(args, kwargs, os.environ)
            self.hide = Hiding([*self.secrets, *values_by_name([args, kwargs])])
            hide_in_logs(self.hide, self.secrets)

    def ask_retry(self, signature: Any, request: Any, timezone: Any) -> None:
        """Keep the retry's request for the report; called in place of Celery's sending of a message."""
        try:
            self.retry = asked_retry(signature, request, timezone)
        except (TypeError, ValueError, ArithmeticError, RecursionError, BadValue) as exc:
            self.broken_retry = exc
            raise

    def put_back(self, rejected: Any, task: Any) -> None:
        """Turn a rejected message into a retry: as often as a retry may happen, after short pauses."""
        retries, most = task.request.retries, task.max_retries
        if rejected.requeue and self.retry is None and (most is None or retries < most):
            pause = min(2 ** min(retries, 16), task.default_retry_delay)
            self.retry = AskedRetry(reporting.clock() + int(pause * SECOND), None, None, retries + 1)

    def end(self, state: str | None, outcome: object) -> None:
        """Report how it ended, and hold the slot until the worker's main process or Redis has the report."""
        ended_at = time.time_ns()
        while True:
            try:
                if self.timer is not None:
                    self.timer.lift()
                report = self._report(state, outcome)
                if self.secrets:
                    report = replace(report, body=concealed_body(report.body, self.secrets))
                if (shown := self.run.shown()) is not None:
                    report = replace(report, body={**report.body, PROGRESS_FIELD: list(shown)})
                self._send(report)
            except _TOO_LATE:
                continue  # the task is over: its limit and requests to stop it no longer matter
            break
        if self.span is not None:
            self.span.end(report.kind, outcome, ended_at, self.hide)
        task_ended()

    def _send(self, report: Report) -> None:
        kept = None if self.log is None else self.log.end(report.kind != "succeeded")
        if self.won:
            if self.registry.hand_over(report, self.token, kept):
                return
            self.registry.report_sent(report, self.token)
        patiently(
            lambda: reporting.send(self.connection, report, self.token, self.won, log=kept),
            f"{self.task_id} reports {report.kind}",
        )

    def _report(self, state: str | None, outcome: object) -> Report:
        builder = ReportBuilder(self.task_id, self.worker, self.started_at, self.hide)
        if self.retry is not None:
            asked = self.retry
            return builder.retry(asked.due_at, asked.args, asked.kwargs, asked.retries, _cause(outcome))
        if self.broken_retry is not None:
            return builder.failed(self.broken_retry)
        if state == "SUCCESS":
            unrun = unrun_code(outcome)
            return builder.succeeded(outcome) if unrun is None else builder.failed(unrun)
        if isinstance(outcome, Reject) and vars(outcome)["requeue"]:
            return builder.failed(outcome, REJECTED)  # it was put back as often as allowed
        if isinstance(outcome, Ignore | Reject):
            return builder.succeeded(None, IGNORED)
        if isinstance(outcome, SoftTimeLimitExceeded):
            return builder.failed(outcome, TIMED_OUT)
        if isinstance(outcome, OUT_OF_TIME) and self._over_hard_limit():
            return builder.failed(outcome, TIMED_OUT)
        if isinstance(outcome, KILLED):
            return builder.failed(outcome, TERMINATED)
        if isinstance(outcome, SystemExit) and outcome.code == _STOPPED:
            return builder.failed(outcome, TIMED_OUT if self._over_hard_limit() else TERMINATED)
        return builder.failed(
            outcome if isinstance(outcome, BaseException) else RuntimeError(f"ended in state {state}")
        )

    def _over_hard_limit(self) -> bool:
        if self.hard_limit is None or self.started_at is None:
            return False
        return reporting.clock() - self.started_at >= (self.hard_limit - _LIMITS_ARE_ROUGH) * SECOND


def unrun_code(outcome: object) -> Exception | None:
    """The error of a task whose body never ran: it only returned a coroutine or a generator."""
    if inspect.isawaitable(outcome):
        what, instead = "is async, which Celery does not run", "call asyncio.run() in a plain function"
    elif inspect.isgenerator(outcome) or inspect.isasyncgen(outcome):
        what, instead = "is a generator, which Celery does not run", "do the work in a plain function"
    else:
        return None
    if inspect.iscoroutine(outcome) or inspect.isgenerator(outcome):
        outcome.close()
    kind = type(outcome).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return TypeError(f"the task {what}: it returned {article} {kind}, and its body did not run; {instead}")


def _flagged(connection: RedisConnection, task_id: str) -> bool:
    try:
        return bool(connection.client.exists(connection.keys.cancel(task_id)))
    except AWAY:
        return False  # unknown: asked again soon


def _cause(outcome: object) -> BaseException | None:
    if isinstance(outcome, Retry):
        return outcome.exc if isinstance(outcome.exc, BaseException) else None
    return outcome if isinstance(outcome, BaseException) else None
