"""A leader on PostgreSQL hears of commits at once, whoever made them, and does without when it cannot hear."""

import sys
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import make_url

from itinerary.client.sync import enqueue_in
from itinerary.protocol.instants import HOUR
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.run_state import RunState
from scheduler_service.loops import job_watcher
from scheduler_service.ports.stores import RunFilter
from tests.support.leading import LeaderThread
from tests.support.processes import Child, project_env, wait_until

pytestmark = [pytest.mark.redis, pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def url(postgres_url: str) -> str:
    return make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def one(postgres_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeaderThread]:
    """A leader that hears of a commit in time, or in an hour."""
    monkeypatch.setattr(job_watcher, "_EVERY_SECONDS", 3600)
    with LeaderThread(postgres_url, redis_url, settings=CoreSettings(due_poll_interval=HOUR)) as leader:
        wait_until(lambda: "scheduler_is_leader 1.0" in leader.meter.exposition(), what="a leader")
        wait_until(lambda: listeners(leader), what="it to listen")
        yield leader


def listeners(leader: LeaderThread) -> int:
    with leader.database.read() as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'itinerary wakeups'"
        return int(connection.exec_driver_sql(asked).scalar_one())


def out(leader: LeaderThread, run_id: str) -> bool:
    return leader.runs.get(run_id).state is not RunState.SCHEDULED


def test_a_run_of_somebody_elses_transaction_goes_out_at_its_commit(one: LeaderThread, url: str) -> None:
    with psycopg.connect(url) as mine:
        run_id = enqueue_in(mine, "demo.task")
    wait_until(lambda: out(one, run_id), what="the run to go out, though nobody told the inbox", every=0.005)


def test_a_job_changed_past_the_api_is_planned_at_once(one: LeaderThread) -> None:
    body = {"job_id": "a", "task": "demo.task", "schedule": {"kind": "interval", "every": "1s"}}
    one.jobs.create(read_job(body, created_at=0)[0])
    wait_until(lambda: one.runs.list(RunFilter(job_id="a"), 1, None).items, what="its first rows", every=0.01)


def test_a_leader_whose_connection_for_notices_breaks_listens_again(one: LeaderThread, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'itinerary wakeups'"
        )
        meanwhile = enqueue_in(admin, "demo.task")
        wait_until(lambda: out(one, meanwhile), what="the run that nobody told of to be found")
        wait_until(lambda: listeners(one), what="it to listen again")
        after = enqueue_in(admin, "demo.task")
    wait_until(lambda: out(one, after), what="the run to go out", every=0.005)


def test_a_thousand_commits_are_a_thousand_runs(one: LeaderThread, url: str) -> None:
    with closing(psycopg.connect(url)) as mine:
        for _ in range(1000):
            last = enqueue_in(mine, "demo.task")
            mine.commit()
    wait_until(lambda: out(one, last), what="the last to go out")
    waiting = RunFilter(states=(RunState.SCHEDULED,))
    wait_until(lambda: not one.runs.list(waiting, 1, None).items, what="all to go out")


CRASHING = """
import os, signal, sys, psycopg
from itinerary.client.sync import enqueue_in
mine = psycopg.connect(sys.argv[1])
print("enqueued", enqueue_in(mine, "demo.task"), flush=True)
if sys.argv[2] == "commit":
    mine.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("point", ["commit", "crash"])
def test_a_process_that_dies_around_its_commit_has_enqueued_exactly_if_it_committed(
    one: LeaderThread, url: str, point: str
) -> None:
    with Child([sys.executable, "-c", CRASHING, url, point], env=project_env()) as dying:
        run_id = dying.wait_for_line("enqueued").split()[1]
        assert dying.wait() == -9
    if point == "commit":
        wait_until(lambda: out(one, run_id), what="the run to go out")
    assert [run.run_id for run in one.runs.list(RunFilter(), 10, None).items] == ([run_id] if point == "commit" else [])
