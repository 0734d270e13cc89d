"""The leader's pruner: it deletes what is old while runs go out, and ends with its leader."""

import re
import time
from contextlib import closing
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import insert
from structlog.testing import capture_logs

from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from scheduler_service.core.contract.pruning import Pace
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
from tests.support.processes import PATIENCE, wait_until
from tests.support.store_bed import sql_bed

pytestmark = [pytest.mark.redis, pytest.mark.slow]


def a_change(at: Instant) -> dict[str, object]:
    return {"at": at, "actor": "ann", "role": "admin", "action": "x", "subject": "x"}


def swept(meter: PrometheusMeter) -> float:
    return float(re.findall(r"^scheduler_swept_timestamp_seconds (\S+)$", meter.exposition(), re.MULTILINE)[0])


def test_a_leader_prunes_what_is_old_and_counts_it_while_runs_go_out(database_url: str, redis_url: str) -> None:
    with LeaderThread(database_url, redis_url, retention=30 * DAY) as one:
        now = one.now()
        old = keep(one.database, *(old_run(now - 31 * DAY + n) for n in range(3_000)))
        young = keep(one.database, old_run(now - 29 * DAY))
        ((run, _),) = one.runs.enqueue([NewRun(adhoc_run_id("meanwhile"), RunKind.ADHOC, "demo.task", 0, 0)])
        wait_until(lambda: one.runs.get(run.run_id).published_at, what="a run to go out meanwhile")
        wait_until(lambda: not kept_of(one.database, old), what="the old ones to go")
        assert kept_of(one.database, young) == young
        assert one.runs.get(run.run_id).state is RunState.PENDING
        wait_until(
            lambda: 'pruned_rows_total{table="runs"} 3000.0' in one.meter.exposition(), what="them to be counted"
        )
        store = SqlPruning(one.database)
        ended_at = wait_until(lambda: store.last_sweep().ended_at, what="the sweep to be noted")
        wait_until(lambda: swept(one.meter) >= ended_at / SECOND, what="its end to be shown")
        again = keep(one.database, old_run(now - 31 * DAY))
        wait_until(lambda: not kept_of(one.database, again), what="the next sweep")


def test_a_record_that_is_young_again_since_the_clock_went_back_ends_no_leadership(sqlite_url: str) -> None:
    def ahead() -> Instant:
        return host_now() + 10 * DAY

    with sql_bed(sqlite_url) as bed, closing(Database(sqlite_url, clock=ahead)) as database, capture_logs() as said:
        lease, crashes = bed.lead(), list[BaseException]()
        keep(database, old_run(lease.now - 21 * DAY))
        bed.leader.create_runs(lease, CreateRuns((), ahead()))
        with database.write() as connection:
            connection.execute(insert(audit_log), a_change(lease.now - 85 * DAY))
        renewer = cast(LeaseRenewer, SimpleNamespace(lease=lease, trusted=lambda: True))
        retention = Retention(SqlPruning(database), 30 * DAY, ahead, first=0, every=SECOND // 20)
        pruner = Pruner(retention, renewer, PrometheusMeter(), lambda: False, crashes.append)
        pruner.start()
        wait_until(lambda: crashes or len(said) > 1, what="it to be refused again and again")
        pruner.stop(60)
    assert crashes == []
    assert {(entry["event"], entry["error"]) for entry in said} == {("pruning put off", "audit_log is append-only")}


@pytest.mark.parametrize("refused", [False, True], ids=["each ends", "each is refused"])
def test_a_sweep_begins_where_the_last_one_ended_and_with_the_oldest_run_after_a_day(
    sqlite_url: str, refused: bool
) -> None:
    ahead = [10 * DAY]

    def clock() -> Instant:
        return host_now() + ahead[0]

    with sql_bed(sqlite_url) as bed, closing(Database(sqlite_url, clock=clock)) as database:
        now, renewer = clock(), cast(LeaseRenewer, SimpleNamespace(lease=bed.lead(), trusted=lambda: True))
        bed.leader.create_runs(renewer.lease, CreateRuns((), now + DAY))
        if refused:  # behind the runs, by a row that is young for the database
            with database.write() as connection:
                connection.execute(insert(audit_log), a_change(now - 95 * DAY))

        def pruner(whole: Duration) -> Pruner:
            retention = Retention(SqlPruning(database), 30 * DAY, clock, first=0, every=SECOND // 20, whole=whole)
            return Pruner(retention, renewer, PrometheusMeter(), lambda: False, lambda exc: None)

        first = keep(database, old_run(now - 31 * DAY))
        by_day, always = pruner(DAY), pruner(0)
        by_day.start()
        wait_until(lambda: not kept_of(database, first), what="the first sweep")
        late = keep(database, old_run(now - 31 * DAY - HOUR))
        for hours in range(2):
            following = keep(database, old_run(now - 30 * DAY + hours * HOUR + 30 * MINUTE))
            ahead[0] += HOUR
            wait_until(lambda: not kept_of(database, following), what="a later sweep")  # noqa: B023
        by_day.stop(PATIENCE)
        assert kept_of(database, late) == late
        always.start()
        wait_until(lambda: not kept_of(database, late), what="a sweep that begins with the oldest run")
        always.stop(PATIENCE)


def test_a_leader_stops_at_once_amid_a_sweep_and_the_next_one_goes_on(
    database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "rest", lambda self, took: HOUR)
    with closing(Database(database_url)) as database:
        old = keep(database, *(old_run(host_now() - 31 * DAY + n) for n in range(2_000)))
    with LeaderThread(database_url, redis_url, retention=30 * DAY) as one:
        wait_until(lambda: len(kept_of(one.database, old)) < len(old), what="the sweep to begin")
        one.stop()
        left = len(kept_of(one.database, old))
        assert left > 0
        with LeaderThread(database_url, redis_url, holder="two", retention=30 * DAY):
            wait_until(lambda: len(kept_of(one.database, old)) < left, what="the next leader to go on")


def test_while_the_leader_is_behind_a_sweep_goes_on_with_longer_rests(sqlite_url: str) -> None:
    with sql_bed(sqlite_url) as bed, closing(Database(sqlite_url)) as database:
        lease, asked, crashes = bed.lead(), list[bool](), list[BaseException]()
        old = keep(database, *(old_run(lease.now - 31 * DAY + n) for n in range(700)))
        bed.leader.create_runs(lease, CreateRuns((), host_now()))
        renewer = cast(LeaseRenewer, SimpleNamespace(lease=lease, trusted=lambda: True))
        retention = Retention(SqlPruning(database), 30 * DAY, host_now, first=0, every=DAY)

        def is_behind() -> bool:
            asked.append(bool(kept_of(database, old)))
            return len(asked) == 1

        began = time.monotonic()
        pruner = Pruner(retention, renewer, PrometheusMeter(), is_behind, crashes.append)
        pruner.start()
        wait_until(lambda: crashes or not kept_of(database, old), what="the old ones to go")
        pruner.stop(PATIENCE)
        assert crashes == []
        assert asked[0]  # a part was left when it was asked first
        assert time.monotonic() - began >= 1
