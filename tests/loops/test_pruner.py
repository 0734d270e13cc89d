"""The leader's pruner: it deletes what is old while runs go out, and ends with its leader."""

import re
from contextlib import closing
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import insert
from structlog.testing import capture_logs

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import DAY, SECOND, Instant
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.model import NewRun, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.pruner import Pruner, Retention
from scheduler_service.metrics.leader import PrometheusMeter
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.pruning import SqlPruning
from scheduler_service.sql.record_tables import audit_log
from tests.support.leading import LeaderThread
from tests.support.old_runs import keep, kept_of, old_run
from tests.support.processes import wait_until
from tests.support.store_bed import sql_bed

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def swept(meter: PrometheusMeter) -> float:
    return float(re.findall(r"^scheduler_swept_timestamp_seconds (\S+)$", meter.exposition(), re.MULTILINE)[0])


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
        wait_until(lambda: 'pruned_rows_total{table="runs"} 3000.0' in one.meter.exposition(), 20, "them to be counted")
        store = SqlPruning(one.database)
        ended_at = wait_until(lambda: store.last_sweep().ended_at, 20, "the sweep to be noted")
        wait_until(lambda: swept(one.meter) >= ended_at / SECOND, 20, "its end to be shown")
        again = keep(one.database, old_run(now - 31 * DAY))
        wait_until(lambda: not kept_of(one.database, again), 10, "the next sweep")


def test_a_record_that_is_young_again_since_the_clock_went_back_ends_no_leadership(sqlite_url: str) -> None:
    def ahead() -> Instant:
        return host_now() + 10 * DAY

    with sql_bed(sqlite_url) as bed, closing(Database(sqlite_url, clock=ahead)) as database, capture_logs() as said:
        lease, crashes = bed.lead(), list[BaseException]()
        keep(database, old_run(lease.now - 21 * DAY))
        bed.leader.create_runs(lease, CreateRuns((), ahead()))
        with database.write() as connection:
            change = {"at": lease.now - 85 * DAY, "actor": "ann", "role": "admin", "action": "x", "subject": "x"}
            connection.execute(insert(audit_log), change)
        renewer = cast(LeaseRenewer, SimpleNamespace(lease=lease, trusted=lambda: True))
        retention = Retention(SqlPruning(database), 30 * DAY, ahead, first=0, every=SECOND // 20)
        pruner = Pruner(retention, renewer, PrometheusMeter(), crashes.append)
        pruner.start()
        wait_until(lambda: crashes or len(said) > 1, 20, "it to be refused again and again")
        pruner.stop(5)
    assert crashes == []
    assert {(entry["event"], entry["error"]) for entry in said} == {("pruning put off", "audit_log is append-only")}


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
