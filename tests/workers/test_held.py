"""What a worker holds back itself, behind a rate limit, is known to be held: nothing is sent again, all is started."""

import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import SECOND
from scheduler_service.broker.message import headers_of
from scheduler_service.core.leader.messages import Heartbeat, Succeeded
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.leading import LeaderThread
from tests.support.processes import PATIENCE, WARM_STOP, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

pytestmark = [pytest.mark.slow, pytest.mark.redis]

# Thirty times as impatient as by default.
_IMPATIENT = CoreSettings(redispatch_after=SECOND, due_poll_interval=SECOND)


class Whole:
    """An impatient leader, and workers of one Redis."""

    def __init__(self, redis_url: str, database_url: str, folder: Path) -> None:
        self._urls = database_url, redis_url
        self.bench = Bench(redis_url, folder)
        self.lead()

    def lead(self) -> None:
        """Another leader takes over, once the one before has stopped."""
        self.leader = LeaderThread(*self._urls, settings=_IMPATIENT).__enter__()

    def close(self) -> None:
        self.bench.__exit__(None, None, None)
        self.leader.__exit__(None, None, None)

    def enqueue(self, task: str, number: int, *, queue: str = "default", first: int = 0) -> list[str]:
        runs = [NewRun(adhoc_run_id(f"{first + n:04}"), RunKind.ADHOC, task, 0, 0, queue=queue) for n in range(number)]
        made = [run for run, _ in self.leader.runs.enqueue(runs)]
        self.leader.inbox.send("run_enqueued", made[0].due_at, {"run_ids": [run.run_id for run in made]})
        return [run.run_id for run in made]

    def state(self, run_id: str) -> RunState:
        return self.leader.runs.get(run_id).state

    def ended(self, run_ids: list[str]) -> int:
        return sum(self.state(run_id) is RunState.COMPLETED for run_id in run_ids)

    def redispatched(self) -> float:
        text = self.leader.meter.exposition()
        lines = [line for line in text.splitlines() if line.startswith("scheduler_republished_total{")]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.fixture
def whole(redis_server: RedisServer, sqlite_url: str, tmp_path: Path) -> Iterator[Whole]:
    with closing(Whole(redis_server.url, sqlite_url, tmp_path)) as whole:
        yield whole


def test_runs_behind_a_rate_limit_are_started_at_its_rate_and_sent_once(whole: Whole) -> None:
    quiet = ["--without-gossip", "--without-mingle", "-l", "INFO"]
    argv = ["-m", "celery", "-A", "tests.workers.userapp", "worker", *quiet, "-c", "2"]
    forked = whole.bench.start([*argv, "-n", "forked@here", "-Q", "forked"])
    threads = whole.bench.start([*argv, "-n", "threads@here", "-Q", "threads", "-P", "threads"])
    runs = whole.enqueue("user.rationed", 4, queue="forked")
    runs += whole.enqueue("user.rationed", 4, queue="threads", first=4)
    wait_until(lambda: whole.ended(runs) == 8, what=lambda: f"{forked.output}\n{threads.output}")
    assert sorted(whole.bench.truth) == sorted(f"rationed {run_id}~1" for run_id in runs)
    assert whole.redispatched() == 0
    assert "claim refused" not in forked.output + threads.output


def test_what_a_rate_limit_holds_is_listed_and_goes_back_at_a_warm_shutdown(whole: Whole) -> None:
    first = whole.bench.worker("-c", "2", name="first")
    runs = whole.enqueue("user.rarely", 4)
    wait_until(lambda: whole.ended(runs) == 1, what=lambda: first.output)
    waiting = {run_id for run_id in runs if whole.state(run_id) is RunState.PENDING}
    wait_until(lambda: _held(whole.bench) == waiting, what="the heartbeats from before it started to pass")
    for _ in range(5):  # longer than the leader's patience
        assert _held(whole.bench) == waiting
    assert whole.redispatched() == 0
    whole.leader.__exit__(None, None, None)  # it trims what it has read, and the farewell comes once
    first.signal(signal.SIGTERM)
    assert first.wait(WARM_STOP) == 0
    last = whole.bench.reported(lambda m: isinstance(m, Heartbeat) and m.concurrency == 0)
    assert isinstance(last, Heartbeat)
    assert (last.worker, last.leaving, last.received) == ("first@here", True, ())
    whole.lead()
    whole.bench.worker("-c", "2", name="second")
    wait_until(lambda: whole.ended(runs) == 2, what="one more, by the second worker's own allowance")
    assert whole.redispatched() == 0
    assert sorted(whole.bench.truth) == sorted(set(whole.bench.truth))


def test_what_waits_for_a_process_a_consumer_or_its_time_is_listed(redis_server: RedisServer, tmp_path: Path) -> None:
    with Bench(redis_server.url, tmp_path) as bench:
        bench.worker("--autoscale=2,1", "-P", "prefork")
        gated = [dispatched(f"gated{n}", "user.gated", bench.gate()) for n in range(4)]
        bench.publish(*gated)
        headers = headers_of(dispatched("later", "user.add", 1, 2))
        later = {"task_id": "later~1", "headers": headers, "queue": "default", "countdown": 3600}
        bench.app.send_task("user.add", [1, 2], **later)
        everything = {run.run_id for run in gated} | {"later"}
        wait_until(lambda: _listed(bench) == everything, what="all to be listed")
        bench.app.control.cancel_consumer("default", destination=["one@here"], reply=True, timeout=PATIENCE)
        bench.publish(dispatched("after", "user.add", 3, 4))
        wait_until(lambda: bench.next_heartbeat().queues == (), what="a heartbeat since it takes from no queue")
        assert _listed(bench) == everything
        wait_until(lambda: bench.dispatcher.heads(["default"])["default"].length == 1, what="it to stay in its queue")
        bench.app.control.add_consumer("default", destination=["one@here"], reply=True, timeout=PATIENCE)
        bench.open_gate()
        for run in (*gated, dispatched("after", "user.add")):
            bench.report_of(run.run_id, Succeeded)
        wait_until(lambda: _listed(bench) == {"later"}, what="only what waits for its time")


def _listed(bench: Bench) -> set[str]:
    beat = bench.next_heartbeat()
    return {run_id for run_id, _ in (*beat.running, *beat.received)}


def _held(bench: Bench) -> set[str]:
    return {run_id for run_id, _ in bench.next_heartbeat().received}
