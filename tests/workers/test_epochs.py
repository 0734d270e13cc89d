"""A real leader, a real worker, and a Redis that loses what it held: one start an attempt, and every run ends."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.keys import Keys
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import FINAL, RunState
from tests.support.leading import LeaderThread
from tests.support.processes import PATIENCE, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench

KEYS = Keys()

pytestmark = [pytest.mark.slow, pytest.mark.redis]


class Whole:
    """One leader and one worker over a Redis of their own."""

    def __init__(self, redis_server: RedisServer, database_url: str, folder: Path) -> None:
        self.redis = redis_server
        self.database_url = database_url
        self.leader = LeaderThread(database_url, redis_server.url).__enter__()
        self.bench = Bench(redis_server.url, folder)
        self._made = 0

    def close(self) -> None:
        self.bench.__exit__(None, None, None)
        self.leader.__exit__(None, None, None)

    def enqueue(self, task: str, *args: object) -> str:
        """A run that is due at once."""
        self._made += 1
        run = NewRun(adhoc_run_id(f"{self._made:04}"), RunKind.ADHOC, task, 0, 0, args=list(args))
        ((made, _),) = self.leader.runs.enqueue([run])
        self.leader.inbox.send("run_enqueued", made.due_at, {"run_ids": [made.run_id]})
        return made.run_id

    def state(self, run_id: str) -> RunState:
        return self.leader.runs.get(run_id).state

    def becomes(self, run_id: str, state: RunState, timeout: float = PATIENCE) -> None:
        wait_until(lambda: self.state(run_id) is state, timeout, lambda: f"{run_id}: {self.leader.runs.get(run_id)}")

    def all_complete(self, *run_ids: str, timeout: float = PATIENCE) -> None:
        for run_id in run_ids:
            wait_until(lambda run=run_id: self.state(run) in FINAL, timeout, lambda run=run_id: f"{run} to end")
        assert {run_id: self.state(run_id).value for run_id in run_ids} == dict.fromkeys(run_ids, "completed")

    def starts(self) -> dict[str, int]:
        """How often each attempt's body was begun, by the file that the bodies wrote."""
        ids = [line.split()[1].removesuffix("~1") for line in self.bench.truth if line.startswith(("gated", "who"))]
        return {run_id: ids.count(run_id) for run_id in ids}

    def change_leader(self) -> None:
        """The next process leads."""
        self.leader = LeaderThread(self.database_url, self.redis.url, holder="two").__enter__()


@pytest.fixture
def whole(redis_server: RedisServer, sqlite_url: str, tmp_path: Path) -> Iterator[Whole]:
    with closing(Whole(redis_server, sqlite_url, tmp_path)) as whole:
        yield whole


@pytest.fixture(params=["prefork", "threads"])
def busy(request: pytest.FixtureRequest, whole: Whole) -> tuple[str, list[str]]:
    """One run is running and waits for its gate, three are pending behind it."""
    with whole.redis.client() as client:  # else the first run may be sent again for the first epoch
        wait_until(lambda: client.get(KEYS.epoch))
    whole.bench.worker("-c", "1", "-P", request.param, CAREFUL="yes")
    running = whole.enqueue("user.gated", whole.bench.gate())
    whole.becomes(running, RunState.RUNNING)
    pending = [whole.enqueue("user.who") for _ in range(3)]
    for run_id in pending:  # before it is published, it would be sent again as unconfirmed
        wait_until(lambda run=run_id: whole.leader.runs.get(run).published_at)
        assert whole.state(run_id) is RunState.PENDING
    return running, pending


def flush(whole: Whole) -> None:
    with whole.redis.client() as client:
        client.flushall()


def restart(whole: Whole) -> None:
    whole.redis.kill()
    whole.redis.start()


def restart_empty(whole: Whole) -> None:
    whole.redis.kill()
    shutil.rmtree(whole.redis.folder)
    whole.redis.folder.mkdir()
    whole.redis.start()


@pytest.mark.parametrize("loss", [flush, restart, restart_empty])
def test_what_runs_goes_on_and_what_is_pending_starts_once_each(
    whole: Whole, busy: tuple[str, list[str]], loss: object
) -> None:
    running, pending = busy
    loss(whole)  # type: ignore[operator]
    whole.bench.open_gate()
    whole.all_complete(running, *pending)
    assert whole.starts() == dict.fromkeys([running, *pending], 1)
    assert f'scheduler_republished_total{{cause="generation"}} {len(pending)}.0' in whole.leader.meter.exposition()


def test_messages_that_a_worker_held_when_the_data_were_lost_start_nothing(whole: Whole) -> None:
    """It had prefetched them; the same attempts come by new messages."""
    worker = whole.bench.worker("-c", "1")
    running = whole.enqueue("user.gated", whole.bench.gate())
    whole.becomes(running, RunState.RUNNING)
    pending = [whole.enqueue("user.who") for _ in range(3)]
    wait_until(lambda: len(whole.bench.next_heartbeat(pending[0]).received) == 3)
    flush(whole)
    whole.bench.open_gate()
    whole.all_complete(running, *pending)
    assert whole.starts() == dict.fromkeys([running, *pending], 1)
    assert "verdict=stale" in worker.output


def test_what_runs_while_nobody_leads_is_not_started_by_the_next_leader(whole: Whole) -> None:
    """The word of its start is lost: only the worker knows."""
    whole.bench.worker("-c", "1")
    whole.enqueue("user.add", 1, 1)
    wait_until(lambda: "add 1 1" in whole.bench.truth)
    running = whole.enqueue("user.gated", whole.bench.gate())
    whole.becomes(running, RunState.RUNNING)
    whole.leader.__exit__(None, None, None)
    with whole.redis.client() as client:
        client.flushall()
    whole.change_leader()
    with whole.leader.database.write() as connection:  # as if the leader had died before it read the start
        connection.execute(text("UPDATE runs SET state = 'pending', started_at = NULL WHERE state = 'running'"))
    whole.leader.__exit__(None, None, None)
    whole.change_leader()
    whole.becomes(running, RunState.RUNNING)
    whole.bench.open_gate()
    whole.all_complete(running)
    assert whole.starts() == {running: 1}


def test_a_report_that_was_lost_unread_is_said_again(whole: Whole) -> None:
    whole.bench.worker("-c", "1")
    run_id = whole.enqueue("user.gated", whole.bench.gate())
    whole.becomes(run_id, RunState.RUNNING)
    whole.leader.__exit__(None, None, None)
    whole.bench.open_gate()
    with whole.redis.client() as client:
        wait_until(lambda: client.get(KEYS.claim(f"{run_id}~1")) == "done")
        client.flushall()
    whole.change_leader()
    whole.all_complete(run_id)
    assert whole.leader.runs.get(run_id).result == "through"
    assert whole.starts() == {run_id: 1}


def test_a_leader_without_a_loss_lets_runs_start_at_once(whole: Whole) -> None:
    whole.bench.worker("-c", "1")
    run_id = whole.enqueue("user.who")
    whole.becomes(run_id, RunState.COMPLETED)
    with closing(RedisClaims(whole.redis.url)) as claims:
        assert claims.query_epoch().accepted


def test_claims_of_what_is_over_are_gone_within_seconds(whole: Whole) -> None:
    whole.bench.worker("-c", "2")
    run_ids = [whole.enqueue("user.who") for _ in range(10)]
    whole.all_complete(*run_ids)
    with whole.redis.client() as client:
        wait_until(lambda: not client.keys("itinerary:claim:*"), what=lambda: str(client.keys("*")))
        assert client.keys("itinerary:result:*") == []
