"""Enqueueing in the caller's own PostgreSQL transaction: the run is dispatched if, and only if, that commits.

Owns one INSERT. Never commits, rolls back or opens a transaction. Needs only the right to insert, and with an
idempotency key also to read three columns. Light to import. A trigger notifies the leader at commit.
"""

import json
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from itinerary.client.run_body import Duration, Moment, Task, run_body
from itinerary.protocol.errors import BadValue, BadValues, Conflict
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import format_instant
from itinerary.protocol.run_columns import ENQUEUED, HEADERS, START_BY, TRACEPARENT
from itinerary.protocol.run_fields import NO_RETRIES, retry_body
from itinerary.protocol.run_request import RunRequest, over_error, read_run_request
from itinerary.telemetry.tracing import caller_traceparent

_VALUES: Final = """
SELECT {run_id}, 'adhoc', {task}, CAST({args} AS json), CAST({kwargs} AS json), {queue}, CAST({priority} AS integer),
       wanted.at, wanted.at, CAST({retry} AS text), CAST({timeout} AS bigint), clock_timestamp(),
       CAST({key} AS text), CAST({hash} AS text)"""
_FROM: Final = """
FROM (SELECT COALESCE(CAST({at} AS timestamptz), clock_timestamp()) AS at) AS wanted
"""
_LATER: Final = {
    "within": (START_BY, "wanted.at + CAST({within} AS bigint) * interval '1 microsecond'"),  # version 0020
    "headers": (HEADERS, "CAST({headers} AS json)"),  # version 0023
    "trace": (TRACEPARENT, "CAST({trace} AS text)"),  # version 0009
}
_KEYED: Final = "ON CONFLICT DO NOTHING"
_KNOWN: Final = "SELECT run_id, request_hash FROM {runs} WHERE idempotency_key = {key}"
CLOCK: Final = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
_ALLOWED: Final = (
    "give a connection of psycopg or Django, or an SQLAlchemy Connection or Session, to Itinerary's PostgreSQL database"
)


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
    retry: Mapping[str, Any] | None = None,
    headers: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    schema: str | None = None,
) -> str:
    """Insert a new run of `task` in the open transaction of this connection or session; returns its id.

    The run is dispatched when that transaction commits, and never if it does not. `task` is a name, a Celery task or
    its signature; `run_at` an aware datetime or an RFC 3339 text. `timeout` is a timedelta or a text such as "5m".
    `schema` names the schema of Itinerary's tables if the search path does not contain it. The same key and request
    return the id of the existing run. Raises BadValues for values that cannot be enqueued, Conflict for a key of
    another request, and the driver's own errors.
    """
    run = request_of(
        task, args, kwargs, run_at=run_at, queue=queue, priority=priority, timeout=timeout,
        start_within=start_within, retry=retry, headers=headers, idempotency_key=idempotency_key,
    )  # fmt: skip
    values = _values_of(run)
    target = _target_of(connection_or_session, schema)
    over = _deadline_over(run, target)
    if over is None and target.execute(_insert_of(values) + (_KEYED if run.idempotency_key else ""), values):
        return str(values["run_id"])
    known = target.first(_KNOWN, {"key": run.idempotency_key}) if run.idempotency_key else None
    if known is None:
        if over is not None:
            raise over
        problem = "was used by a transaction that this one cannot see; retry in a new one"
        raise Conflict(f"idempotency key {idempotency_key!r} {problem}")
    if known[1] != values["hash"]:
        raise Conflict(f"idempotency key {idempotency_key!r} was used for another request")
    return str(known[0])


def request_of(task: Any, args: Any, kwargs: Any, **fields: Any) -> RunRequest:
    """The request of these arguments of `enqueue_in`; BadValues for those that cannot be enqueued."""
    return read_run_request(_plain(run_body(task, args, kwargs, **fields)))


def _insert_of(values: Mapping[str, Any]) -> str:
    """The INSERT, with columns of later versions only if they are needed: an older schema lacks them."""
    later = [column for name, column in _LATER.items() if name in values]
    columns = ", ".join([*ENQUEUED, *(name for name, _ in later)])
    return f"INSERT INTO {{runs}} ({columns})" + ", ".join([_VALUES, *(value for _, value in later)]) + _FROM


def _deadline_over(run: RunRequest, target: "_DbApi | _SqlAlchemy") -> BadValues | None:
    """The error if the run could only be missed, by the database's clock; asks it only if that is possible."""
    if not run.run_at or run.start_within is None:
        return None
    now = target.first(CLOCK, {})
    assert now is not None
    error = over_error(run.run_at, run.start_within, int(now[0]))
    return None if error is None else BadValues([error])


def _uuid7() -> UUID:
    """An id that sorts by its creation time (RFC 9562, to 0.25 microseconds); Python has one from 3.14 on."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    return UUID(int=milliseconds << 80 | 7 << 76 | rest * 4096 // 1_000_000 << 64 | 2 << 62 | secrets.randbits(62))


def _values_of(run: RunRequest) -> dict[str, Any]:
    trace = caller_traceparent()
    return {
        "run_id": adhoc_run_id(str(_uuid7())), "task": run.task, "args": _json(run.args), "kwargs": _json(run.kwargs),
        "queue": run.queue, "priority": run.priority, "at": None if run.run_at is None else format_instant(run.run_at),
        "retry": None if run.retry == NO_RETRIES else _json(retry_body(run.retry)), "timeout": run.timeout,
        "key": run.idempotency_key, "hash": run.request_hash, **({} if trace is None else {"trace": trace}),
        **({} if run.start_within is None else {"within": run.start_within}),
        **({} if not run.headers else {"headers": _json(run.headers)}),
    }  # fmt: skip


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """The request as JSON returns it, so that it has the same hash as over HTTP."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadValues([BadValue("args", "...", f"args and kwargs must be plain JSON ({str(exc)[:80]})")]) from exc
    return plain


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _DbApi:
    """A connection of the DB-API with `%(name)s` parameters: psycopg, psycopg2, Django's."""

    connection: Any
    runs: str

    @property
    def _unnamed(self) -> dict[str, bool]:
        """Keep psycopg from preparing frequent statements by name, which a pooler would give to other clients."""
        return {"prepare": False} if type(self.connection).__module__.partition(".")[0] == "psycopg" else {}

    def execute(self, statement: str, values: Mapping[str, Any]) -> int:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(_filled(statement, self.runs, values, "%({})s"), values, **self._unnamed)
            return int(cursor.rowcount)

    def first(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(_filled(statement, self.runs, values, "%({})s"), values, **self._unnamed)
            row = cursor.fetchone()
        return None if row is None else tuple(row.values() if isinstance(row, Mapping) else row)


@dataclass(frozen=True, slots=True)
class _SqlAlchemy:
    """A Connection of SQLAlchemy with any driver."""

    connection: Any
    runs: str

    def execute(self, statement: str, values: Mapping[str, Any]) -> int:
        return int(self._run(statement, values).rowcount)

    def first(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        row = self._run(statement, values).first()
        return None if row is None else tuple(row)

    def _run(self, statement: str, values: Mapping[str, Any]) -> Any:
        from sqlalchemy import text

        return self.connection.execute(text(_filled(statement, self.runs, values, ":{}")), dict(values))


def _filled(statement: str, runs: str, values: Mapping[str, Any], parameter: str) -> str:
    return statement.format(runs=runs, **{name: parameter.format(name) for name in values})


def _target_of(target: Any, schema: str | None) -> _DbApi | _SqlAlchemy:
    if schema is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema, re.ASCII):
        raise BadValue("schema", schema, "give the name of a schema, in letters, digits and _")
    runs = "runs" if schema is None else f'"{schema}".runs'
    homes = {kind.__module__.partition(".")[0] for kind in type(target).__mro__}
    shown = f"{type(target).__module__}.{type(target).__qualname__}"
    if "Async" in type(target).__name__ or homes & {"asyncpg", "sqlite3"}:
        raise BadValue("connection_or_session", shown, f"{_ALLOWED}; from async code use its run_sync")
    if "sqlalchemy" in homes:
        connection = target.connection() if hasattr(target, "get_bind") else target
        if getattr(getattr(connection, "dialect", None), "name", None) != "postgresql":
            raise BadValue("connection_or_session", shown, _ALLOWED)
        return _SqlAlchemy(connection, runs)
    # A connection of Django says which database it is for.
    if not hasattr(target, "cursor") or getattr(target, "vendor", "postgresql") != "postgresql":
        raise BadValue("connection_or_session", shown, _ALLOWED)
    return _DbApi(target, runs)
