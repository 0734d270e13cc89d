"""Enqueueing in the caller's own PostgreSQL transaction: the run is dispatched if, and only if, that commits.

Never commits, rolls back or opens a transaction. Light to import. A trigger notifies the leader at commit.
"""

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from itinerary.client import async_connections, connections
from itinerary.client.run_body import Duration, Moment, Task, listed_body, run_body
from itinerary.client.run_inserts import Steps, enqueued
from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.run_request import MOST_ERRORS, RunRequest, read_each, read_run_request

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _as(
    like: Callable[_P, _T],
) -> Callable[[Callable[..., Coroutine[Any, Any, _T]]], Callable[_P, Coroutine[Any, Any, _T]]]:
    """Give a coroutine function the arguments of `like`, for type checkers and `help`."""

    def typed(function: Callable[..., Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
        function.__dict__["__signature__"] = signature(like)
        return function

    return typed


def enqueue_in(
    connection_or_session: Any,
    task: Task,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    run_at: Moment | None = None,
    queue: str | None = None,
    priority: int | None = None,
    timeout: Duration | None = None,
    start_within: Duration | None = None,
    must_end_within: Duration | None = None,
    retry: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    limits: Sequence[str | Mapping[str, Any]] | None = None,
    fair_key: str | None = None,
    idempotency_key: str | None = None,
    schema: str | None = None,
) -> str:
    """Insert a new run of `task` in the open transaction of this connection or session; returns its id.

    The run is dispatched when that transaction commits, and never if it does not. `task` is a name, a Celery task or
    its signature; `run_at` an aware datetime or an RFC 3339 text. `timeout` is a timedelta or a text such as "5m".
    `schema` names the schema of Itinerary's tables if the search path does not contain it. The same key and request
    return the id of the existing run. `limits` are names, and objects of name and key: a run passes one that does not
    exist. Raises BadValues for values that cannot be enqueued, Conflict for a key of another request, and the driver's
    own errors.
    """
    run = request_of(
        task, args, kwargs, run_at=run_at, queue=queue, priority=priority, timeout=timeout,
        start_within=start_within, must_end_within=must_end_within, retry=retry, headers=headers, limits=limits,
        fair_key=fair_key, idempotency_key=idempotency_key,
    )  # fmt: skip
    return _answered(connection_or_session, schema, enqueued([run], of_list=False))[0]


def enqueue_many_in(
    connection_or_session: Any, runs: Sequence[Mapping[str, Any]], *, schema: str | None = None
) -> list[str]:
    """Insert up to 1,000 runs with one statement, each as `enqueue_in` would; returns their ids in order.

    Each run is a dictionary of the arguments of `enqueue_in`. BadValues names every wrong one by its place, such as
    `runs.3.priority`. It, and a Conflict about a key that was committed before, leave the transaction as it was.
    """
    return _answered(connection_or_session, schema, enqueued(_requests_of(runs), of_list=True))


@_as(enqueue_in)
async def enqueue_in_async(
    connection_or_session: Any, task: Any, args: Any = None, kwargs: Any = None, *, schema: Any = None, **fields: Any
) -> str:
    """`enqueue_in` for asyncio.

    Takes a connection of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's AsyncConnection or AsyncSession.
    """
    steps = enqueued([request_of(task, args, kwargs, **fields)], of_list=False)
    return (await _awaited(connection_or_session, schema, steps))[0]


@_as(enqueue_many_in)
async def enqueue_many_in_async(connection_or_session: Any, runs: Any, *, schema: Any = None) -> list[str]:
    """`enqueue_many_in` for asyncio, with the connections of `enqueue_in_async`."""
    return await _awaited(connection_or_session, schema, enqueued(_requests_of(runs), of_list=True))


def request_of(task: Any, args: Any, kwargs: Any, **fields: Any) -> RunRequest:
    """The request of these arguments of `enqueue_in`; BadValues for those that cannot be enqueued."""
    return read_run_request(_plain(run_body(task, args, kwargs, **fields)))


def _requests_of(runs: Any) -> list[RunRequest]:
    listed = list(runs) if isinstance(runs, Sequence) and not isinstance(runs, str) else runs
    try:
        read, errors = read_each(listed, lambda run: read_run_request(_plain(listed_body(run))))
    except BadValue as exc:
        raise BadValues([exc]) from None
    if errors:
        raise BadValues(errors[:MOST_ERRORS])
    return read


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """The request as JSON returns it, so that it has the same hash as over HTTP."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadValues([BadValue("args", "...", f"args and kwargs must be plain JSON ({str(exc)[:80]})")]) from exc
    return plain


def _answered(connection_or_session: Any, schema: str | None, steps: Steps[list[str]]) -> list[str]:
    """The result of the steps, each of their queries answered on the connection."""
    target = connections.target_of(connection_or_session, schema)
    query = next(steps)
    while True:
        answer = target.answer(query)
        try:
            query = steps.send(answer)
        except StopIteration as ended:
            return list(ended.value)


async def _awaited(connection_or_session: Any, schema: str | None, steps: Steps[list[str]]) -> list[str]:
    """As `_answered`, for asyncio."""
    target = await async_connections.async_target_of(connection_or_session, schema)
    query = next(steps)
    while True:
        answer = await target.answer(query)
        try:
            query = steps.send(answer)
        except StopIteration as ended:
            return list(ended.value)
