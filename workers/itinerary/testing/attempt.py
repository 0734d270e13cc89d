"""One attempt of a run, in this process: the app's task through Celery's own tracer, as a worker would call it.

Owns what becomes of the run: completed, failed, or a retry at the time that the task or the run's policy asks for.
Needs Celery; sends no message of its own.
"""

import json
import os
from typing import Any

from celery import Celery
from celery.app.trace import build_tracer
from celery.exceptions import Ignore, Reject, Retry
from celery.utils.time import maybe_iso8601, maybe_make_aware
from kombu.utils.json import dumps, loads

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import SECOND, Instant, from_datetime, to_datetime
from itinerary.protocol.run_fields import RetryPolicy
from itinerary.protocol.typed_values import careful, from_python
from itinerary.testing.run import WORKER, Run
from itinerary.worker.current import CurrentRun, RunCancelled, running
from itinerary.worker.delivery import unrun_code
from itinerary.worker.escapes import learn_escapes
from itinerary.worker.plain import plain_error, plain_result
from itinerary.worker.secret_arguments import holds_secret, resolve


def attempt(app: Celery, run: Run, now: Instant) -> None:
    """Run the task once, now, and move the run to what came of it."""
    learn_escapes()
    task: Any = app.tasks.get(run.task)
    run.started_at, run.error, run.failure = now, None, None
    if task is None:
        _fail(run, ItineraryError(f"the app {app.main} has no task {run.task}; is it misspelt, or not loaded?"), now)
        run.reason = "unknown_task" if run.state == "failed" else run.reason
        return
    current = CurrentRun(
        run.run_id, run.job_id, run.attempt, to_datetime(run.scheduled_at), to_datetime(run.due_at),
        lambda: run.cancel_requested_at is not None,
    )  # fmt: skip
    token = running.set(current)
    try:
        outcome, value = _traced(app, task, run)
    except Exception as exc:  # noqa: BLE001 - secrets that are refused, and what a hook of the task raises
        outcome, value = "FAILURE", exc
    finally:
        running.reset(token)
    _judge(app, run, outcome, value, now)


def _traced(app: Celery, task: Any, run: Run) -> tuple[str, Any]:
    """The state and value that Celery's tracer returns."""
    args, kwargs = _arguments(run)
    if holds_secret(args) or holds_secret(kwargs):
        resolve(args, kwargs, os.environ)
    own_id = task_id(run.run_id, run.attempt)
    request = {
        **(run.headers or {}),
        "id": own_id, "root_id": own_id, "task": task.name, "retries": run.retries, "is_eager": True,
        "hostname": WORKER, "loglevel": 0, "callbacks": None, "errbacks": None, "ignore_result": True,
        "delivery_info": {"is_eager": True, "exchange": None, "routing_key": run.queue, "priority": run.priority},
    }  # fmt: skip
    tracer: Any = build_tracer(task.name, task, eager=True, propagate=False, app=app)
    ended = tracer(own_id, args, kwargs, request)
    return ("SUCCESS", ended.retval) if ended.info is None else (ended.info.state, ended.info.retval)


def _arguments(run: Run) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as a worker decodes them."""
    text = json.dumps([run.args, run.kwargs])
    args, kwargs = loads(json.dumps(careful(run.args, run.kwargs, text)))
    return args, kwargs


def _judge(app: Celery, run: Run, outcome: str, value: Any, now: Instant) -> None:
    if outcome == "SUCCESS":
        unrun = unrun_code(value)
        if unrun is not None:
            _fail(run, unrun, now)
            return
        run.result = plain_result(value)
        run.end("completed", None, now)
    elif isinstance(value, Retry) and getattr(value, "sig", None) is not None:
        _ask_again(app, run, value, now)
    elif isinstance(value, RunCancelled):
        run.end("cancelled", None, now)
    elif isinstance(value, Ignore | Reject):
        run.end("completed", "ignored", now)
    else:
        _fail(run, value, now)


def _ask_again(app: Celery, run: Run, asked: Retry, now: Instant) -> None:
    """Wait until the time that the task gave to `retry()`, with the arguments that it gave."""
    signature: Any = vars(asked)["sig"]
    _note(run, asked.exc if isinstance(asked.exc, BaseException) else None)
    run.args, run.kwargs = (json.loads(dumps(from_python(given, _by_kombu)))
                            for given in (list(signature.args or ()), dict(signature.kwargs or {})))  # fmt: skip
    run.end("retrying", None, now)
    run.retries, run.due_at = run.retries + 1, _due_at(signature.options, app, now)
    run.attempt += 1


def _by_kombu(value: object) -> Any:
    return json.loads(dumps(value))


def _due_at(options: Any, app: Celery, now: Instant) -> Instant:
    countdown, eta = options.get("countdown"), options.get("eta")
    if eta is None or countdown:
        return now + int((countdown or 0) * SECOND)
    moment: Any = maybe_iso8601(eta)
    return from_datetime(maybe_make_aware(moment, app.timezone))


def _fail(run: Run, error: BaseException, now: Instant) -> None:
    """Fail, or retry by the run's own policy."""
    _note(run, error)
    if run.attempt >= run.retry.max_attempts:
        run.end("failed", None, now)
        return
    run.end("retrying", None, now)
    run.due_at = now + _pause(run.retry, run.attempt)
    run.attempt += 1


def _pause(retry: RetryPolicy, attempt: int) -> int:
    return int(min(retry.max, retry.initial * float(retry.factor) ** min(attempt - 1, 64)))


def _note(run: Run, error: BaseException | None) -> None:
    run.failure = error
    run.error = None if error is None else plain_error(error)
