"""enqueue_many_in: runs of one list in the caller's own transaction, each as enqueue_in would enqueue it."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider

from itinerary import BadValues, Conflict, enqueue_in, enqueue_many_in
from itinerary.protocol.errors import NotFound
from itinerary.protocol.instants import HOUR
from scheduler_service.core.contract.run_requests import read_batch
from tests.support.app_connections import Way, an_earlier_clock, by_psycopg, each_way, plain, tasks
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed

pytestmark = pytest.mark.postgres
AT = datetime(2099, 1, 1, tzinfo=UTC)
FULL: dict[str, Any] = {
    "task": "shop.send", "args": [1, 1.50, "ä"], "kwargs": {"note": "50 % :off"}, "run_at": AT, "queue": "mail",
    "priority": 2, "timeout": timedelta(hours=1), "retry": {"max_attempts": 3}, "start_within": "365d",
    "headers": {"tenant": "ä"}, "idempotency_key": "one", "limits": [{"name": "tenant", "key": "ä"}],
}  # fmt: skip


@pytest.fixture
def url(emptied_postgres_url: str) -> str:
    return plain(emptied_postgres_url)


@each_way
def test_what_commits_is_there_as_each_was_asked_for(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    with opened(url) as mine:
        with TracerProvider().get_tracer("shop").start_as_current_span("checkout"):
            ids = enqueue_many_in(mine, [{"task": "a"}, FULL, {"task": "b", "args": [None]}])
        mine.commit()
    bare, full, other = (postgres_stores.runs.get(run_id) for run_id in ids)
    assert (bare.task, bare.args, bare.kwargs, bare.queue, bare.priority) == ("a", [], {}, "default", 5)
    assert (bare.timeout, bare.retry.max_attempts, bare.start_by, bare.headers) == (None, 1, None, None)
    assert (other.task, other.args) == ("b", [None])
    assert bare.due_at <= other.due_at < full.due_at
    assert (full.args, full.kwargs, full.headers) == ([1, 1.5, "ä"], {"note": "50 % :off"}, {"tenant": "ä"})
    assert (full.queue, full.priority, full.timeout, full.retry.max_attempts) == ("mail", 2, HOUR, 3)
    assert (full.limits, full.lane) == ((("tenant", "ä"),), 'limits:[["tenant","ä"]]')
    assert (bare.limits, bare.lane, other.lane) == ((), "", "")
    assert full.due_at == full.scheduled_at
    assert full.start_by == full.due_at + 365 * 24 * HOUR
    assert bare.traceparent == full.traceparent is not None


@each_way
def test_what_is_rolled_back_never_was(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    with opened(url) as mine:
        ids = enqueue_many_in(mine, [{"task": "a"}, {"task": "b"}])
        mine.rollback()
    for run_id in ids:
        with pytest.raises(NotFound):
            postgres_stores.runs.get(run_id)


def test_a_thousand_runs_are_the_most(url: str, postgres_stores: StoreBed) -> None:
    with by_psycopg(url) as mine:
        wrong: list[tuple[Any, str]] = [
            ([], "a list of 0"), ([{"task": "t"}] * 1001, "a list of 1001"), ("t", "str"), (5, "int"),
        ]  # fmt: skip
        for runs, kind in wrong:
            with pytest.raises(BadValues, match=rf"runs: '{kind}' is not accepted; give a list of 1 to 1000 runs"):
                enqueue_many_in(mine, runs)
        assert mine.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert len(set(enqueue_many_in(mine, ({"task": "t"},) * 1000))) == 1000
        assert mine.execute("SELECT count(*) FROM runs").fetchone() == (1000,)


@each_way
def test_the_same_key_and_request_is_the_same_run(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    other = {"task": "z", "idempotency_key": "another"}
    with opened(url) as mine:
        first = enqueue_many_in(mine, [FULL, {"task": "a"}, FULL])
        assert first[0] == first[2] != first[1]
        again = enqueue_many_in(mine, [other, {"task": "b"}, FULL, other])
        assert again[2] == first[0]
        assert again[0] == again[3]
        alone = {name: value for name, value in FULL.items() if name != "task"}
        assert enqueue_in(mine, "shop.send", **alone) == first[0]
        mine.commit()
        assert enqueue_many_in(mine, [FULL, other]) == [first[0], again[0]]
    assert tasks(postgres_stores) == ["a", "b", "shop.send", "z"]
    body = {"runs": [other, {"task": "c", "idempotency_key": "new"}]}
    (over_http, created), _ = postgres_stores.runs.enqueue(read_batch(body, iter("12").__next__, 0))
    assert (over_http.run_id, created) == (again[0], False), "the key means the same over HTTP"


@each_way
def test_a_conflict_leaves_the_transaction_as_it_was(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    another = {**FULL, "queue": "other"}
    with opened(url) as mine:
        with pytest.raises(Conflict, match="idempotency key 'one' was used for another request"):
            enqueue_many_in(mine, [{"task": "a"}, FULL, another])
        enqueue_in(mine, "b", idempotency_key="one")
        with pytest.raises(Conflict, match="'one' was used for another request"):
            enqueue_many_in(mine, [{"task": "a"}, FULL])
        mine.commit()
    assert tasks(postgres_stores) == ["b"]


def test_every_error_is_named_by_its_run_and_field_before_the_transaction_is_touched(url: str) -> None:
    wrong: list[Any] = [
        {"task": "t", "priority": 11, "colour": 1}, {"task": "t"}, {"task": "t", "args": [0, {1}]}, {}, 5,
        {"task": "t", "headers": 5}, {1: "t"}, {"task": "t", "run_at": datetime(2099, 1, 1)},  # noqa: DTZ001
    ]  # fmt: skip
    with by_psycopg(url) as mine:
        with pytest.raises(BadValues) as refused:
            enqueue_many_in(mine, wrong)
        assert mine.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    fields = [error.field for error in refused.value.errors]
    assert fields == [
        "runs.0.priority", "runs.0.colour", "runs.2.args.1", "runs.3.task", "runs.4", "runs.5.headers", "runs.6",
        "runs.7.run_at",
    ]  # fmt: skip
    assert "runs.3.task: this field is required;" in str(refused.value)


@each_way
def test_a_deadline_that_is_over_is_refused_unless_the_run_is_there(
    url: str, postgres_stores: StoreBed, opened: Way
) -> None:
    over: dict[str, Any] = {"task": "t", "run_at": "2020-01-01T00:00:00Z", "start_within": "1h"}
    with opened(url) as mine:
        with pytest.raises(BadValues) as refused:
            enqueue_many_in(mine, [{"task": "a"}, over, {**over, "idempotency_key": "k"}, {**over, "run_at": AT}])
        assert [error.field for error in refused.value.errors] == ["runs.1.run_at", "runs.2.run_at"]
        late = {**over, "run_at": datetime.now(UTC) - timedelta(hours=2), "idempotency_key": "late"}
        with an_earlier_clock(hours=2):
            (run_id,) = enqueue_many_in(mine, [late])
        mine.commit()
        assert enqueue_many_in(mine, [{"task": "b"}, late])[1] == run_id
        mine.commit()
    assert tasks(postgres_stores) == ["b", "t"]


@pytest.mark.parametrize("is_same", [True, False])
def test_a_key_that_another_transaction_commits_meanwhile_counts(
    url: str, postgres_stores: StoreBed, is_same: bool
) -> None:
    """The insert waits for that transaction at the first of its keys in their order, so that neither waits for ever."""
    runs = [{"task": "t", "idempotency_key": key} for key in "ab"]
    theirs = runs if is_same else [{**run, "queue": "other"} for run in runs]
    found: list[Any] = []

    def enqueue_backwards() -> None:
        try:
            found.extend(enqueue_many_in(mine, [*reversed(runs), {"task": "x"}]))
        except Conflict as exc:
            found.append(str(exc))

    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with by_psycopg(url) as other, by_psycopg(url) as mine, by_psycopg(url) as watching:
        watching.autocommit = True
        ids = enqueue_many_in(other, theirs[:1])
        thread = threading.Thread(target=enqueue_backwards)
        thread.start()
        wait_until(lambda: watching.execute(waiting).fetchone() == (1,), what=lambda: "it does not wait")
        ids += enqueue_many_in(other, theirs[1:])
        other.commit()
        thread.join(60)
        mine.rollback()
    if is_same:
        assert found[:2] == ids[::-1]
        assert len(found) == 3
    else:
        assert found == ["idempotency key 'a' was used for another request"]


def test_a_role_that_may_only_insert_can_enqueue_runs_without_keys(url: str) -> None:
    with by_psycopg(url) as admin:
        admin.execute("CREATE ROLE many_enqueuer")
        admin.execute("GRANT INSERT ON runs TO many_enqueuer")
        admin.execute("SET ROLE many_enqueuer")
        assert len(enqueue_many_in(admin, [{"task": "a"}, {"task": "b"}])) == 2
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            enqueue_many_in(admin, [{"task": "a", "idempotency_key": "k"}])
        admin.rollback()


def test_keys_are_looked_up_by_their_index_however_many_runs_there_are(url: str) -> None:
    executed: list[Any] = []

    class Recording(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> "Recording":
            executed.append((query, params))
            return super().execute(query, params, **options)

    with by_psycopg(url) as mine:
        mine.execute(
            "INSERT INTO runs (run_id, kind, task, args, kwargs, queue, priority, scheduled_at, due_at, created_at, "
            "idempotency_key) SELECT 'r' || n, 'adhoc', 't', '[]', '{}', 'q', 5, now(), now(), now(), 'k' || n "
            "FROM generate_series(1, 5000) n"
        )
        mine.execute("ANALYZE runs")
        mine.cursor_factory = Recording
        enqueue_many_in(mine, [{"task": "a", "idempotency_key": f"new{n}"} for n in range(1000)])
        assert [query.split()[0] for query, _ in executed] == ["SELECT", "INSERT"]
        plan = "".join(line for (line,) in mine.execute("EXPLAIN " + executed[0][0], executed[0][1]).fetchall())
    assert "uq_runs_idempotency_key" in plan
    assert "Seq Scan" not in plan
