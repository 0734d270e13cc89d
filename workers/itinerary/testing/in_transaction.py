"""`enqueue_in` of the service in memory: in place of a connection, whichever the program gives.

Knows no transaction: a run is stored at the call, also if the program's transaction is rolled back later.
"""

import json
from typing import TYPE_CHECKING, Any

from itinerary.client.run_inserts import Clock, Insert, Query, Row
from itinerary.protocol.instants import format_duration
from itinerary.protocol.limits import RUN_LIMITS, fair_key_of, limits_of
from itinerary.protocol.run_request import read_run_request

if TYPE_CHECKING:
    from itinerary.testing.store import Store


class Target:
    """The connection that `enqueue_in` asks."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def answer(self, query: Query) -> Any:
        """The answer to a query, as PostgreSQL gives it."""
        if isinstance(query, Insert):
            return sum(self._is_stored(row) for row in query.rows)
        if isinstance(query, Clock):
            return [(self._store.now,)]
        known = [(key, self._store.with_key(key)) for key in query.keys]
        return [(key, run.run_id, run.request_hash) for key, run in known if run is not None]

    def _is_stored(self, row: Row) -> bool:
        """Store the run of this row, unless its key is known, as ON CONFLICT DO NOTHING."""
        if self._store.with_key(row["key"]) is not None:
            return False
        durations = {
            "timeout": row["timeout"],
            "start_within": row.get("within"),
            "must_end_within": row.get("end_within"),
        }
        body = {
            "task": row["task"], "args": row["args"], "kwargs": row["kwargs"], "queue": row["queue"],
            "priority": row["priority"], "run_at": row["at"], "headers": row.get("headers"),
            "limits": RUN_LIMITS.write(limits_of(row.get("limits", "[]"))),
            "fair_key": fair_key_of(row.get("lane", "")),
            "retry": None if row["retry"] is None else json.loads(row["retry"]),
            **{name: None if value is None else format_duration(value) for name, value in durations.items()},
        }  # fmt: skip
        run, _ = self._store.enqueue(read_run_request(body), row["run_id"])
        run.key, run.request_hash = row["key"], row["hash"]
        return True


class AsyncTarget:
    """The connection that `enqueue_in_async` asks."""

    def __init__(self, store: "Store") -> None:
        self._target = Target(store)

    async def opened(self, *_: Any) -> "AsyncTarget":
        """This, for whatever connection was given."""
        return self

    async def answer(self, query: Query) -> Any:
        """As `Target.answer`."""
        return self._target.answer(query)
