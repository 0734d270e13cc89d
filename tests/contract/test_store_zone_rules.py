"""Adopted zone rules: the first, then newer ones only, from the next full minute that nothing was planned for."""

import pytest
from sqlalchemy import select, text

from itinerary.protocol.errors import LeaseLost, NotFound
from itinerary.protocol.instants import MINUTE, SECOND, format_instant
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.schedules.zone_sets import ZoneSet
from scheduler_service.sql.record_tables import audit_log
from tests.support.store_bed import StoreBed
from tests.support.tz_files import zone_file_of


def rules(version: str, hours: int = 1) -> ZoneSet:
    return ZoneSet(version, {"Europe/Berlin": zone_file_of(hours * 3600), "UTC": zone_file_of(0)})


def test_the_first_rules_are_adopted_then_newer_ones_only(bed: StoreBed) -> None:
    lease = bed.lead("a")
    assert list(bed.zone_rules.adopted()) == []
    for version, hours in (("2026b", 1), ("2026a", 2), ("2026b", 3), ("unknown", 4), ("2026c", 5)):
        bed.zone_rules.adopt(lease, rules(version, hours), f"{version} of a test")
        view = bed.leases.peek(0)
        assert view is not None
        assert view.zone_rules == ("2026c" if version == "2026c" else "2026b")
    found = bed.zone_rules.adopted()
    assert [(one.version, one.source, one.holder) for one in found] == [
        ("2026b", "2026b of a test", "a"), ("2026c", "2026c of a test", "a"),
    ]  # fmt: skip
    newest = bed.zone_rules.read(found[-1].number)
    assert newest.files == rules("2026c", 5).files
    assert (newest.version, newest.digest) == ("2026c", found[-1].digest)
    with pytest.raises(NotFound):
        bed.zone_rules.read(found[-1].number + 1)


class Known(ZoneSet):
    def packed(self) -> str:
        raise AssertionError("a takeover waits for what is packed")


def test_rules_that_are_known_are_not_packed_at_each_takeover(bed: StoreBed) -> None:
    lease = bed.lead("a")
    bed.zone_rules.adopt(lease, rules("2026b"), "a")
    for version in ("2026b", "2026a"):
        bed.zone_rules.adopt(lease, Known(version, rules(version).files), "b")
    assert [one.source for one in bed.zone_rules.adopted()] == ["a"]


def test_newer_rules_decide_after_everything_that_is_planned(bed: StoreBed) -> None:
    lease = bed.lead("a")
    bed.zone_rules.adopt(lease, rules("2026a"), "a")
    planned = lease.now + 3 * MINUTE + SECOND
    bed.leader.create_runs(lease, CreateRuns((), cursor=planned))
    bed.zone_rules.adopt(lease, rules("2026b"), "b")
    first, second = bed.zone_rules.adopted()
    assert first.adopted_at <= first.effective_from < first.adopted_at + MINUTE
    assert planned <= second.effective_from < planned + MINUTE
    assert first.effective_from % MINUTE == second.effective_from % MINUTE == 0


def test_a_leader_of_the_past_adopts_nothing_and_eight_sets_are_kept(bed: StoreBed) -> None:
    lease = bed.lead("a")
    successor = bed.take_over(lease)
    with pytest.raises(LeaseLost):
        bed.zone_rules.adopt(lease, rules("2026a"), "a")
    assert list(bed.zone_rules.adopted()) == []
    for letter in "abcdefghij":
        bed.zone_rules.adopt(successor, rules(f"2026{letter}"), letter)
    assert [one.version[-1] for one in bed.zone_rules.adopted()] == list("cdefghij")


def test_an_adoption_is_in_the_audit_log_of_the_system(sql_stores: StoreBed) -> None:
    assert sql_stores.database is not None
    lease = sql_stores.lead("a")
    for version in ("2026a", "2026a", "2026b"):
        sql_stores.zone_rules.adopt(lease, rules(version), "a test")
    first, second = sql_stores.zone_rules.adopted()
    with sql_stores.database.read() as connection:
        entries = connection.execute(select(audit_log).order_by(audit_log.c.id)).all()
        assert connection.execute(text("SELECT max(length(files)) FROM zone_rules")).scalar_one() < 2_000
    assert [(e.actor, e.role, e.action, e.subject) for e in entries] == [
        ("system", "system", "zone_rules.adopt", "zone rules")
    ] * 2
    assert entries[0].before is None
    assert entries[1].before == {"version": "2026a", "digest": first.digest}
    assert entries[1].after == {
        "version": "2026b", "digest": second.digest, "source": "a test", "holder": "a",
        "effective_from": format_instant(second.effective_from),
    }  # fmt: skip
