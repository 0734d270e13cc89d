"""Other zone rules that come into force are, for a schedule, a change of the clocks at that instant."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.schedule import count, next_after, occurrences, parse_schedule
from scheduler_service.core.schedules.zone_eras import ALWAYS, Era, eras_in_force, put_in_force
from scheduler_service.core.schedules.zone_rules import zone_file
from scheduler_service.core.schedules.zone_sets import ZoneSet, installed_set, unpacked
from scheduler_service.core.schedules.zones import changes_between, offset_at, zone
from tests.support import oracle
from tests.support.cron_lines import random_line
from tests.support.examples import examples
from tests.support.moments import at, texts
from tests.support.tz_files import zone_file_of

ZONE = "America/Winnipeg"
OTHERS = ("Europe/Berlin", "America/St_Johns", "Asia/Tokyo", "Australia/Lord_Howe", "America/Santiago", ZONE)
ADOPTED = at("2026-11-29T14:30:00Z")
NOVEMBER = at("2026-11-01T07:00:00Z") // SECOND
STANDARD, PERMANENT = zone_file_of(-5 * 3600, (NOVEMBER, -6 * 3600)), zone_file_of(-5 * 3600)


@pytest.fixture(autouse=True)
def _installed_rules_again() -> Iterator[None]:
    yield
    put_in_force(())


def adopt(before: bytes, after: bytes, since: Instant = ADOPTED) -> None:
    old, new = ZoneSet("2025b", {ZONE: before}), ZoneSet("2026f", {ZONE: after})
    put_in_force([Era(ALWAYS, old), Era(since // SECOND, new)])


def runs_of(expr: str, start: str, end: str, **fields: str) -> list[str]:
    spec = {"kind": "cron", "expr": expr, "timezone": ZONE, **fields}
    schedule = parse_schedule(spec, job_id="a", created_at=0).schedule
    found = occurrences(schedule, at(start), at(end))
    expanded = expand([Entry(0, "a", schedule, at(start), at(end))], at(start), at(end)).times.tolist()
    assert found == expanded
    return texts(found)


def test_a_time_that_the_new_rules_have_behind_them_runs_when_they_come_into_force() -> None:
    adopt(STANDARD, PERMANENT)  # the clock shows 08:30, then 09:30: nothing of the day is lost
    day = runs_of("0 9 * * *", "2026-11-29T00:00:00Z", "2026-12-01T00:00:00Z")
    assert day == ["2026-11-29T14:30:00Z", "2026-11-30T14:00:00Z"]
    assert runs_of("0 9 * * *", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z") == ["2026-11-28T15:00:00Z"]
    assert runs_of("0 9 * * *", "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", dst_gap="skip") == []


def test_a_time_that_comes_again_by_the_new_rules_does_not_run_again() -> None:
    adopt(PERMANENT, STANDARD)  # 09:30, then 08:30 again
    day = runs_of("0 9 * * *", "2026-11-29T00:00:00Z", "2026-12-01T00:00:00Z")
    assert day == ["2026-11-29T14:00:00Z", "2026-11-30T15:00:00Z"]
    both = runs_of("0 9 * * *", "2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z", dst_fold="both")
    assert both == ["2026-11-29T14:00:00Z", "2026-11-29T15:00:00Z"]


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "rrule", "rrule": "FREQ=DAILY", "dtstart": "2026-01-01T09:00"},
        {"kind": "interval", "every": "8h", "window": {"from": "09:00", "until": "17:00"}},
    ],
)
def test_what_was_computed_by_the_rules_before_is_not_kept(spec: dict[str, str]) -> None:
    schedule = parse_schedule({**spec, "timezone": ZONE}, job_id="a", created_at=0).schedule
    days = at("2026-11-28T00:00:00Z"), at("2026-12-01T00:00:00Z")
    for new, last in ((STANDARD, "15:00"), (PERMANENT, "14:00")):
        adopt(STANDARD, new)
        assert texts(occurrences(schedule, *days))[-1] == f"2026-11-30T{last}:00Z"


def test_a_job_that_follows_elapsed_time_goes_on_as_before() -> None:
    adopt(STANDARD, PERMANENT)
    found = runs_of("*/20 * * * *", "2026-11-29T14:00:00Z", "2026-11-29T15:00:00Z")
    assert found == [f"2026-11-29T14:{minute:02d}:00Z" for minute in (0, 20, 40)]


def test_a_change_of_the_rules_within_days_of_a_change_of_the_clocks_is_seen() -> None:
    adopt(STANDARD, PERMANENT, (NOVEMBER + 86_400) * SECOND)  # back by the old rules, forward by the new ones
    changes = changes_between(ZONE, NOVEMBER - 86_400, NOVEMBER + 10 * 86_400)
    assert [(c.at - NOVEMBER, c.before, c.after) for c in changes] == [(0, -18000, -21600), (86_400, -21600, -18000)]


def test_the_newest_rules_name_the_zones_and_equal_files_are_one_part() -> None:
    adopt(STANDARD, STANDARD)
    assert [change.at for change in changes_between(ZONE, NOVEMBER - 1, ADOPTED // SECOND + 1)] == [NOVEMBER]
    with pytest.raises(BadValue):
        zone("Europe/Berlin")
    put_in_force(())
    assert zone("Europe/Berlin").key == "Europe/Berlin"
    assert eras_in_force() == ()


def test_rules_adopted_twice_within_a_minute_are_the_newer_ones() -> None:
    sets = [ZoneSet("2026d", {ZONE: STANDARD}), ZoneSet("2026e", {ZONE: zone_file_of(0)}), ZoneSet("2026f", {})]
    put_in_force([Era(ALWAYS, sets[0]), Era(100, sets[1]), Era(100, ZoneSet("2026f", {ZONE: PERMANENT}))])
    assert (offset_at(ZONE, 99), offset_at(ZONE, 100)) == (-5 * 3600, -5 * 3600)
    assert offset_at(ZONE, NOVEMBER) == -5 * 3600


def test_a_packed_set_reads_back_and_what_is_none_is_refused() -> None:
    whole = installed_set()
    again = unpacked(whole.version, whole.packed())
    assert again.files == whole.files
    assert again.digest == whole.digest != ZoneSet("x", {ZONE: STANDARD}).digest
    for wrong in ("", "PK", "-", whole.packed()[:-8], ZoneSet("x", {ZONE: b"TZif"}).packed()):
        with pytest.raises(BadValue, match="zone files"):
            unpacked("2026f", wrong)


class _TwoRules(tzinfo):
    """A clock by one file, then by another: told from instants alone, as the model asks."""

    def __init__(self, before: tzinfo, after: tzinfo, since: int) -> None:
        self._before, self._after, self._since = before, after, since
        self._offset: timedelta | None = None

    def fromutc(self, moment: datetime) -> datetime:
        instant = moment.replace(tzinfo=UTC)
        rules = self._after if instant.timestamp() >= self._since else self._before
        local = instant.astimezone(rules)
        self._offset = local.utcoffset()
        return datetime(*local.timetuple()[:6], tzinfo=self)  # type: ignore[misc]

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return self._offset  # of the instant that was told last: a wall time alone may mean two


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(st.integers(0, 2**60))
def test_every_engine_fires_when_the_plain_model_does(seed: int) -> None:
    dice = random.Random(seed)
    line, (old, new) = random_line(dice, dice.random() < 0.3), dice.sample(OTHERS, 2)
    put_in_force(())
    jumps = changes_between(dice.choice((old, new)), 1_700_000_000, 1_760_000_000)
    since = dice.choice([jump.at for jump in jumps] or [1_750_000_020]) + 60 * dice.choice((0, -90, 40, 1440, -4000))
    before, after = zone(old), zone(new)
    gap, fold = dice.choice(("next_valid", "shift", "skip")), dice.choice(("first", "last", "both"))
    start = (since + 60 * dice.randint(-600, 600)) * SECOND
    end = start + dice.choice((20 * MINUTE, HOUR, 5 * HOUR, 9 * HOUR))
    adopt(zone_file(old), zone_file(new), since * SECOND)
    spec = {"kind": "cron", "expr": line.text, "timezone": ZONE, "dst_gap": gap, "dst_fold": fold}
    try:
        schedule = parse_schedule(spec, job_id="a", created_at=0).schedule
    except BadValue:
        assume(False)
    clock = _TwoRules(before, after, since)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "load_zone", lambda _: clock)
        meaning = oracle.Meaning(**{**vars(line.meaning), "gap": gap, "fold": fold})
        expected = [s * SECOND for s in oracle.fires(meaning, ZONE, start // SECOND, end // SECOND)]
    assert occurrences(schedule, start, end) == expected, (line.text, old, new, since)
    assert expand([Entry(7, "job", schedule, start, end)], start, end).times.tolist() == expected
    assert count(schedule, start, end) == len(expected)
    first = next_after(schedule, start - 1)
    assert first == expected[0] if expected else first is None or first >= end
