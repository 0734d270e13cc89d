"""`enqueue_in` of the service in memory: in place of a connection, whichever the program gives.

Knows no transaction: a run is stored at the call, also if the program's transaction is rolled back later.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from itinerary.client.transactional import CLOCK
from itinerary.protocol.instants import format_duration
from itinerary.protocol.run_request import read_run_request

if TYPE_CHECKING:
    from itinerary.testing.store import Store


class Target:
    """The connection that `enqueue_in` executes its statements on."""

    def __init__(self, store: "Store") -> None:
        self._store = store

    def execute(self, _statement: str, values: Mapping[str, Any]) -> int:
        """Store the run of these values; 0 if its key is known, as PostgreSQL's ON CONFLICT DO NOTHING."""
        if self._store.with_key(values["key"]) is not None:
            return 0
        durations = {"timeout": values["timeout"], "start_within": values.get("within")}
        body = {
            "task": values["task"], "args": json.loads(values["args"]), "kwargs": json.loads(values["kwargs"]),
            "queue": values["queue"], "priority": values["priority"], "run_at": values["at"],
            "headers": None if values.get("headers") is None else json.loads(values["headers"]),
            "retry": None if values["retry"] is None else json.loads(values["retry"]),
            **{name: None if value is None else format_duration(value) for name, value in durations.items()},
        }  # fmt: skip
        run, _ = self._store.enqueue(read_run_request(body), values["run_id"])
        run.key, run.request_hash = values["key"], values["hash"]
        return 1

    def first(self, statement: str, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The answer to one of its two questions: what the clock shows, and which run has a key."""
        if statement == CLOCK:
            return (self._store.now,)
        known = self._store.with_key(values["key"])
        return None if known is None else (known.run_id, known.request_hash)
