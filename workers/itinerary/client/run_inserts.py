"""The rows that `enqueue_in` inserts, as queries to the caller's connection and what follows from their answers.

Owns the one INSERT, of one run or of many. Does no I/O: a connection, blocking or not, answers each query. Needs only
the right to insert, and with an idempotency key also to read three columns.
"""

import json
import secrets
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

from itinerary.protocol.errors import BadValue, BadValues, Conflict
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import format_instant
from itinerary.protocol.limits import lane_of, limits_text
from itinerary.protocol.run_columns import END_BY, ENQUEUED, HEADERS, LANE, LIMITS, START_BY, TRACEPARENT
from itinerary.protocol.run_fields import NO_RETRIES, retry_body
from itinerary.protocol.run_request import MOST_ERRORS, RunRequest, over_error
from itinerary.telemetry.tracing import caller_traceparent

_ONE: Final = """
SELECT {run_id}, 'adhoc', {task}, CAST({args} AS json), CAST({kwargs} AS json), {queue}, CAST({priority} AS integer),
       wanted.at, wanted.at, CAST({retry} AS text), CAST({timeout} AS bigint), clock_timestamp(),
       CAST({key} AS text), CAST({hash} AS text)"""
_FROM_ONE: Final = """
FROM (SELECT COALESCE(CAST({at} AS timestamptz), clock_timestamp()) AS at) AS wanted
"""
_MANY: Final = """
SELECT wanted.run_id, 'adhoc', wanted.task, wanted.args, wanted.kwargs, wanted.queue, wanted.priority,
       wanted.due, wanted.due, wanted.retry, wanted.timeout, clock_timestamp(), wanted.key, wanted.hash"""
_FROM_MANY: Final = """
FROM (SELECT given.*, COALESCE(given.at, clock_timestamp()) AS due
      FROM json_to_recordset(CAST({rows} AS json)) AS given(
          run_id text, task text, args json, kwargs json, queue text, priority integer, at timestamptz, retry text,
          timeout bigint, key text, hash text, within bigint, headers json, limits text, lane text,
          trace text{more})) AS wanted
"""
# Each by its column, its value of one run and of many: versions 0020, 0033, 0023, 0026 and 0009 of the schema add them.
_LATER: Final = {
    "within": (
        START_BY,
        "wanted.at + CAST({within} AS bigint) * interval '1 microsecond'",
        "wanted.due + wanted.within * interval '1 microsecond'",
    ),
    "end_within": (
        END_BY,
        "wanted.at + CAST({end_within} AS bigint) * interval '1 microsecond'",
        "wanted.due + wanted.end_within * interval '1 microsecond'",
    ),
    "headers": (HEADERS, "CAST({headers} AS json)", "wanted.headers"),
    "limits": (LIMITS, "CAST({limits} AS text)", "wanted.limits"),
    "lane": (LANE, "CAST({lane} AS text)", "COALESCE(wanted.lane, '')"),
    "trace": (TRACEPARENT, "CAST({trace} AS text)", "wanted.trace"),
}
_KEYED: Final = "ON CONFLICT DO NOTHING"
_KNOWN: Final = """SELECT idempotency_key, run_id, request_hash FROM {runs}
WHERE idempotency_key = ANY(ARRAY(SELECT json_array_elements_text(CAST({keys} AS json))))"""
_CLOCK: Final = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
_JSON_COLUMNS: Final = ("args", "kwargs", "headers")

T = TypeVar("T")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Insert:
    """Inserts the rows, those of known keys excepted; answered by how many it inserted."""

    rows: Sequence[Row]

    def sql(self) -> tuple[str, dict[str, Any]]:
        """The statement, `{name}` for each parameter, and the parameters."""
        later = [of for name, of in _LATER.items() if any(name in row for row in self.rows)]
        columns = ", ".join([*ENQUEUED, *(column for column, _, _ in later)])
        many = len(self.rows) > 1
        values, source = (_MANY, self._from_many()) if many else (_ONE, _FROM_ONE)
        values = ", ".join([values, *(of_many if many else of_one for _, of_one, of_many in later)])
        keyed = _KEYED if any(row["key"] is not None for row in self.rows) else ""
        parameters = {"rows": _json(self.rows)} if many else _parameters(self.rows[0])
        return f"INSERT INTO {{runs}} ({columns}){values}{source}{keyed}", parameters

    def _from_many(self) -> str:
        """The rows by their types. Statements without the newest field stay those of the release that knew none."""
        newest = ", end_within bigint" if any("end_within" in row for row in self.rows) else ""
        return _FROM_MANY.replace("{more}", newest)


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """Answered by rows of key, run id and request hash: the runs that have these keys."""

    keys: Sequence[str]

    def sql(self) -> tuple[str, dict[str, Any]]:
        """As `Insert.sql`."""
        return _KNOWN, {"keys": _json(self.keys)}


@dataclass(frozen=True, slots=True)
class Clock:
    """Answered by one row: the database's time in microseconds."""

    def sql(self) -> tuple[str, dict[str, Any]]:
        """As `Insert.sql`."""
        return _CLOCK, {}


Query = Insert | KnownKeys | Clock
Steps = Generator[Query, Any, T]


@dataclass(frozen=True, slots=True, eq=False)
class _New:
    """A run to insert; `place` names it in errors, if it is one of several."""

    run: RunRequest
    row: Row
    place: str

    @property
    def key(self) -> str | None:
        return self.run.idempotency_key


def enqueued(runs: Sequence[RunRequest], *, of_list: bool) -> Steps[list[str]]:
    """The ids of the runs, in their order, each new or that of the run which has its key.

    All are judged before one is inserted, so that an error leaves the transaction as it was. Only a transaction that
    commits the same keys meanwhile can make it a Conflict after that.
    """
    new = [_New(run, _row_of(run), f"runs.{place}" if of_list else "") for place, run in enumerate(runs)]
    first = _first_of_each_key(new)
    distinct = [one for one in new if one.key is None or first[one.key] is one]
    over = yield from _over(distinct)
    known = (yield from _known(first)) if first and (over or of_list) else {}
    refused = [error for one, error in over.items() if one.key not in known]
    if refused:
        raise BadValues(refused[:MOST_ERRORS])
    # By their keys, so that two transactions that insert the same ones do not deadlock.
    fresh = sorted((one for one in distinct if one.key not in known), key=lambda one: one.key or "")
    if fresh and (yield Insert([one.row for one in fresh])) < len(fresh):
        missing = {one.key: one for one in fresh if one.key is not None}
        known |= yield from _known(missing)
        for key in missing:
            if key not in known:
                problem = "was used by a transaction that this one cannot see; retry in a new one"
                raise Conflict(f"idempotency key {key!r} {problem}")
    ids = {key: one.row["run_id"] for key, one in first.items()} | known
    return [one.row["run_id"] if one.key is None else ids[one.key] for one in new]


def _first_of_each_key(new: Iterable[_New]) -> dict[str, _New]:
    first: dict[str, _New] = {}
    for one in new:
        if one.key is not None:
            _check_request(one.key, first.setdefault(one.key, one), one.run.request_hash)
    return first


def _over(new: Iterable[_New]) -> Steps[dict[_New, BadValue]]:
    """The runs that could only be missed, by the database's clock; asks it only if that is possible."""
    limited = [one for one in new if one.run.run_at and one.run.start_within is not None]
    if not limited:
        return {}
    ((now,),) = yield Clock()
    over = {one: over_error(one.run.run_at, one.run.start_within, int(now)) for one in limited}
    return {one: error.under(one.place) if one.place else error for one, error in over.items() if error is not None}


def _known(new: Mapping[str, _New]) -> Steps[dict[str, str]]:
    """The ids of existing runs by their keys; Conflict for one of another request."""
    known: dict[str, str] = {}
    for key, run_id, request_hash in (yield KnownKeys(list(new))):
        _check_request(key, new[key], request_hash)
        known[key] = run_id
    return known


def _check_request(key: str, one: _New, request_hash: str | None) -> None:
    if one.run.request_hash != request_hash:
        raise Conflict(f"idempotency key {key!r} was used for another request")


def _uuid7() -> UUID:
    """An id that sorts by its creation time (RFC 9562, to 0.25 microseconds); Python has one from 3.14 on."""
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    return UUID(int=milliseconds << 80 | 7 << 76 | rest * 4096 // 1_000_000 << 64 | 2 << 62 | secrets.randbits(62))


def _row_of(run: RunRequest) -> Row:
    """The values of a run's row by their names in the statements; those of later columns only if it has them."""
    trace, lane = caller_traceparent(), lane_of(run.limits, run.fair_key)
    return {
        "run_id": adhoc_run_id(str(_uuid7())), "task": run.task, "args": run.args, "kwargs": run.kwargs,
        "queue": run.queue, "priority": run.priority, "at": None if run.run_at is None else format_instant(run.run_at),
        "retry": None if run.retry == NO_RETRIES else _json(retry_body(run.retry)), "timeout": run.timeout,
        "key": run.idempotency_key, "hash": run.request_hash, **({} if trace is None else {"trace": trace}),
        **({} if run.start_within is None else {"within": run.start_within}),
        **({} if run.must_end_within is None else {"end_within": run.must_end_within}),
        **({} if not run.headers else {"headers": run.headers}),
        **({} if not run.limits else {"limits": limits_text(run.limits)}), **({} if not lane else {"lane": lane}),
    }  # fmt: skip


def _parameters(row: Row) -> dict[str, Any]:
    return {name: _json(value) if name in _JSON_COLUMNS else value for name, value in row.items()}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
