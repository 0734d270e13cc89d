"""An app that enqueues by the release it was built with, in a schema of today: tests/vectors/enqueue_in.json.

Its statements are what a release of `enqueue_in` executed, never edited. A release with another statement adds its own.
"""

import json
from contextlib import closing
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from sqlalchemy import make_url, select

from itinerary import enqueue_in, enqueue_many_in
from itinerary.protocol.instants import SECOND
from itinerary.protocol.run_columns import ENQUEUED, HEADERS, LANE, LIMITS, START_BY, TRACEPARENT
from itinerary.version import VERSION
from scheduler_service.core.run_state import RunState
from scheduler_service.sql.tables import runs
from tests.support.processes import REPOSITORY
from tests.support.store_bed import StoreBed

RELEASES: dict[str, list[dict[str, Any]]] = json.loads(
    (REPOSITORY / "tests" / "vectors" / "enqueue_in.json").read_text("utf-8")
)


class Recorder:
    """A connection of the DB-API that keeps what is executed."""

    rowcount = 1

    def __init__(self) -> None:
        self.executed: list[dict[str, Any]] = []

    def cursor(self) -> "Recorder":
        return self

    def execute(self, statement: str, values: dict[str, Any]) -> None:
        self.executed.append({"statement": statement, "values": dict(values)})

    def fetchall(self) -> list[list[int]]:
        return [] if "keys" in self.executed[-1]["values"] else [[0]]

    def close(self) -> None:
        """Nothing is open."""


def executed_today() -> list[dict[str, Any]]:
    """What two runs execute, one with what must be given and one with all that can be; then both as a list."""
    bare, full, both = Recorder(), Recorder(), Recorder()
    both.rowcount = 2
    enqueue_in(bare, "shop.bare")
    with TracerProvider().get_tracer("shop").start_as_current_span("order"):
        fields: dict[str, Any] = {
            "args": [1, "\u00e4"], "kwargs": {"a": {"b": None}}, "run_at": "2999-01-01T00:00:00Z", "queue": "slow",
            "priority": 3, "timeout": "5m", "start_within": "1h", "retry": {"max_attempts": 3},
            "limits": ["api"], "fair_key": "north",
        }  # fmt: skip
        enqueue_in(full, "shop.full", idempotency_key="order-17", **fields)
        listed = {"task": "shop.full", "headers": {"tenant": "\u00e4"}, "idempotency_key": "order-18", **fields}
        enqueue_many_in(both, [{"task": "shop.bare"}, listed])
    return [bare.executed[-1], full.executed[-1], both.executed[-1]]


def test_the_statement_of_this_release_is_among_them() -> None:
    assert [one["statement"] for one in executed_today()] == [one["statement"] for one in RELEASES[VERSION]]


def test_the_table_requires_no_column_that_an_app_does_not_fill() -> None:
    required = {c.name for c in runs.columns if not c.nullable and c.server_default is None and c.identity is None}
    assert required <= {*ENQUEUED}
    assert {*ENQUEUED, START_BY, HEADERS, LIMITS, LANE, TRACEPARENT} <= {c.name for c in runs.columns}


@pytest.mark.postgres
@pytest.mark.parametrize("release", RELEASES)
def test_what_an_app_of_that_release_inserts_is_a_run(
    release: str, emptied_postgres_url: str, postgres_stores: StoreBed
) -> None:
    url = make_url(emptied_postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    *alone, both = RELEASES[release]
    with closing(psycopg.connect(url)) as connection:
        for one in alone:
            assert connection.execute(one["statement"], one["values"]).rowcount == 1
        assert connection.execute(both["statement"], both["values"]).rowcount == 2
        connection.commit()
    listed = [row["run_id"] for row in json.loads(both["values"]["rows"])]
    ids = [*(one["values"]["run_id"] for one in alone), *listed]
    for number, run in enumerate(map(postgres_stores.runs.get, ids)):
        if number in (0, 2):
            assert (run.task, run.queue, run.args, run.state) == ("shop.bare", "default", [], RunState.SCHEDULED)
        else:
            assert (run.task, run.queue, run.priority) == ("shop.full", "slow", 3)
            assert (run.args, run.kwargs) == ([1, "\u00e4"], {"a": {"b": None}})
            assert (run.limits, run.lane) in [((("api", None),), "key:north"), ((), "")]
            assert (run.timeout, run.start_by) == (300 * SECOND, run.due_at + 3600 * SECOND)
    assert run.headers == {"tenant": "\u00e4"}
    assert postgres_stores.database is not None
    with postgres_stores.database.read() as connection:
        for run_id, key, values in zip(ids[1::2], ("order-17", "order-18"), (alone[1], both), strict=True):
            wanted = select(runs.c.idempotency_key, runs.c.traceparent).where(runs.c.run_id == run_id)
            found = tuple(connection.execute(wanted).one())
            assert found[0] == key
            assert found[1] in str(values["values"])
