"""Who judges SLAs, and when: the leader alone, once it has read what was reported before it."""

from collections.abc import Mapping
from contextlib import closing

import pytest

from itinerary.protocol.instants import HOUR, MINUTE
from scheduler_service.core.monitors.model import MonitorState
from scheduler_service.loops import sla_judge
from scheduler_service.loops.sla_judge import SlaJudge
from scheduler_service.ports.sla import Judged
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.monitors import SqlMonitorStore
from scheduler_service.sql.runs import SqlRunStore
from scheduler_service.sql.sla import SqlSlaStore
from tests.support.store_bed import one_off


class Counted(list[Judged]):
    """What a judge counts."""

    monitors: Mapping[MonitorState, int]

    def judged(self, found: Judged) -> None:
        self.append(found)

    def monitored(self, counts: Mapping[MonitorState, int]) -> None:
        self.monitors = counts


def late_runs(database: Database, number: int) -> None:
    SqlRunStore(database).enqueue([one_off(host_now() - HOUR, must_end_within=MINUTE) for _ in range(number)])


def judge_of(database: Database, holder: str, counted: Counted, after_a_takeover: int = 0) -> SlaJudge:
    leases = SqlLeaseStore(database)
    return SlaJudge(
        leases, SqlSlaStore(database), SqlMonitorStore(database), counted, holder, after_a_takeover=after_a_takeover
    )


def test_only_who_leads_judges_and_a_new_leader_waits_for_reports_first(sqlite_url: str) -> None:
    with closing(Database(sqlite_url, pool_size=2)) as database:
        late_runs(database, 1)
        counted = Counted()
        mine, other = judge_of(database, "me", counted), judge_of(database, "other", counted)
        hasty = judge_of(database, "me", counted, after_a_takeover=HOUR)
        mine.round()
        assert SqlLeaseStore(database).acquire(0, "me", HOUR) is not None
        other.round()
        hasty.round()
        assert counted == []
        mine.round()
        assert counted == [Judged(0, 1)]


def test_a_round_goes_on_page_by_page_and_then_has_nothing_to_do(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sla_judge, "_A_PAGE", 2)
    with closing(Database(sqlite_url, pool_size=2)) as database:
        late_runs(database, 5)
        counted = Counted()
        judge = judge_of(database, "me", counted)
        assert SqlLeaseStore(database).acquire(0, "me", HOUR) is not None
        judge.round()
        judge.round()
        assert [found.missed for found in counted] == [2, 2, 1, 0]
