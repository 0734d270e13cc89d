"""The leader's pruner: it deletes what is old while runs go out, and ends with its leader."""

import pytest

from scheduler_service.adapters.sql_pruning import SqlPruning
from scheduler_service.core.identity import adhoc_run_id
from scheduler_service.core.instants import DAY
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.leading import LeaderThread
from tests.support.old_runs import keep, kept_of, old_run
from tests.support.processes import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def test_a_leader_prunes_what_is_old_and_counts_it_while_runs_go_out(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url, retention=30 * DAY) as one:
        now = one.now()
        old = keep(one.database, *(old_run(now - 31 * DAY + n) for n in range(3_000)))
        young = keep(one.database, old_run(now - 29 * DAY))
        ((run, _),) = one.runs.enqueue([NewRun(adhoc_run_id("meanwhile"), RunKind.ADHOC, "demo.task", 0, 0)])
        wait_until(lambda: one.runs.get(run.run_id).published_at, 10, "a run to go out meanwhile")
        wait_until(lambda: not kept_of(one.database, old), 20, "the old ones to go")
        assert kept_of(one.database, young) == young
        assert one.runs.get(run.run_id).state is RunState.PENDING
        wait_until(lambda: 'pruned_rows_total{table="runs"} 3000.0' in one.meter.exposition(), 5, "them to be counted")
        store = SqlPruning(one.database)
        wait_until(lambda: store.last_sweep().ended_at, 5, "the sweep to be noted")
        again = keep(one.database, old_run(now - 31 * DAY))
        wait_until(lambda: not kept_of(one.database, again), 10, "the next sweep")


def test_a_leader_stops_at_once_amid_a_sweep_and_the_next_one_goes_on(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url, retention=30 * DAY) as one:
        now = one.now()
        old = keep(one.database, *(old_run(now - 31 * DAY + n) for n in range(10_000)))
        wait_until(lambda: len(kept_of(one.database, old)) < len(old), 10, "the sweep to begin")
        one.stop()
        left = len(kept_of(one.database, old))
        assert left > 0
        with LeaderThread(database_url, redis_url, holder="two", retention=30 * DAY):
            wait_until(lambda: len(kept_of(one.database, old)) < left, 10, "the next leader to go on")
