"""Intervals within a window: what they mean, what is refused, and a minute-by-minute model over clock changes."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, SECOND, format_instant
from scheduler_service.core.index.expansion import Entry, expand
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import (
    canonical_spec,
    count,
    latest,
    next_after,
    occurrences,
    upcoming,
)
from scheduler_service.core.schedules.spec_reading import WEEKDAYS
from tests.support.examples import examples
from tests.support.jumps import whole_minutes, zone_and_moment
from tests.support.moments import at, schedule_of
from tests.support.window_model import Window

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)
OFFICE = {"from": "09:00", "until": "17:00", "days": "mon-fri"}


def windowed(every: str, window: dict[str, Any], zone: str = "UTC", **more: Any) -> Any:
    return schedule_of({"kind": "interval", "every": every, "window": window, "timezone": zone, **more})


def local(schedule: Any, start: str, end: str) -> list[str]:
    return [format_instant(found)[5:16] for found in occurrences(schedule, at(start), at(end))]


def test_it_counts_anew_at_each_opening_and_only_on_its_days() -> None:
    found = local(windowed("90m", OFFICE), "2026-11-27T00:00:00Z", "2026-12-01T00:00:00Z")  # a Friday
    day = ["09:00", "10:30", "12:00", "13:30", "15:00", "16:30"]
    assert found == [f"{date}T{time}" for date in ("11-27", "11-30") for time in day]


def test_it_has_its_first_instant_and_not_its_last() -> None:
    found = local(windowed("4h", OFFICE), "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z")
    assert found == ["11-27T09:00", "11-27T13:00"]


def test_an_offset_counts_from_the_opening() -> None:
    found = local(windowed("4h", OFFICE, offset="30m"), "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z")
    assert found == ["11-27T09:30", "11-27T13:30"]


def test_a_window_over_midnight_belongs_to_the_day_of_its_opening() -> None:
    night = windowed("3h", {"from": "22:00", "until": "06:00", "days": "fri"})
    found = local(night, "2026-11-27T00:00:00Z", "2026-12-04T00:00:00Z")
    assert found == ["11-27T22:00", "11-28T01:00", "11-28T04:00"]


def test_a_window_whose_ends_are_equal_lasts_a_day() -> None:
    found = local(windowed("7h", {"from": "00:00", "until": "00:00"}), "2026-11-27T00:00:00Z", "2026-11-28T08:00:00Z")
    assert [text[6:] for text in found] == ["00:00", "07:00", "14:00", "21:00", "00:00", "07:00"]


@pytest.mark.parametrize(
    ("start", "window", "expected"),
    [
        # The clocks go from 02:00 to 03:00: it opens where the gap ends, and one hour of elapsed time is missing.
        ("2027-03-28T00:00:00Z", {"from": "02:30", "until": "05:00"}, ["01:00", "02:00"]),
        ("2027-03-28T00:00:00Z", {"from": "01:00", "until": "04:00"}, ["00:00", "01:00"]),
        ("2027-03-28T00:00:00Z", {"from": "02:00", "until": "03:00"}, []),
        # From 03:00 back to 02:00: it opens the first time, and closes when the clocks first reach its end.
        ("2027-10-31T00:00:00Z", {"from": "02:30", "until": "04:00"}, ["00:30", "01:30", "02:30"]),
        ("2027-10-31T00:00:00Z", {"from": "02:00", "until": "02:30"}, ["00:00"]),
    ],
)
def test_its_ends_follow_the_clock_rules_and_elapsed_time_runs_within(
    start: str, window: dict[str, str], expected: list[str]
) -> None:
    schedule = windowed("1h", window, "Europe/Berlin")
    found = [format_instant(each)[11:16] for each in occurrences(schedule, at(start), at(start) + 8 * HOUR)]
    assert found == expected


def test_a_window_of_a_day_that_a_zone_skipped_does_not_open() -> None:
    schedule = windowed("6h", {"from": "09:00", "until": "17:00"}, "Pacific/Apia")  # no 30 December 2011
    found = occurrences(schedule, at("2011-12-29T10:00:00Z"), at("2011-12-31T10:00:00Z"))
    assert [format_instant(each) for each in found] == [
        "2011-12-29T19:00:00Z", "2011-12-30T01:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T01:00:00Z",
    ]  # fmt: skip


def test_a_night_that_would_begin_in_a_skipped_day_does_not_open_after_it() -> None:
    schedule = windowed("2h", {"from": "22:00", "until": "03:00"}, "Pacific/Apia")
    found = occurrences(schedule, at("2011-12-30T08:00:00Z"), at("2011-12-31T10:00:00Z"))
    # That of the 29th ends where the clocks leave out the 30th, and the next one is that of the 31st.
    assert [format_instant(each) for each in found] == ["2011-12-30T08:00:00Z", "2011-12-31T08:00:00Z"]


def test_the_canonical_spec_has_days_as_a_list_and_is_unchanged_when_read_again() -> None:
    spec = canonical_spec({"kind": "interval", "every": "90m", "window": {**OFFICE, "days": "fri-sun, TUE"}})
    assert spec["window"] == {"from": "09:00", "until": "17:00", "days": ["sun", "tue", "fri", "sat"]}
    assert canonical_spec(spec) == spec
    without = canonical_spec({"kind": "interval", "every": "90m", "window": {"from": "09:00", "until": "17:00"}})
    assert without["window"]["days"] == list(WEEKDAYS)
    assert "window" not in canonical_spec({"kind": "interval", "every": "90m", "window": None})


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"window": "09:00-17:00"}, "window"),
        ({"window": {"until": "17:00"}}, "window.from"),
        ({"window": {**OFFICE, "until": "24:00"}}, "window.until"),
        ({"window": {**OFFICE, "days": []}}, "window.days"),
        ({"window": {**OFFICE, "days": "mon-xyz"}}, "window.days"),
        ({"window": {**OFFICE, "day": "mon"}}, "window.day"),
        ({"window": OFFICE, "balanced": True}, "balanced"),
        ({"window": OFFICE, "anchor": "2026-11-27T00:00:00Z"}, "anchor"),
        ({"window": {"from": "09:00", "until": "10:00"}, "every": "3h", "offset": "1h"}, "offset"),
    ],
)
def test_what_it_cannot_have_is_refused_by_name(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        schedule_of({"kind": "interval", "every": "90m", **more})
    assert refused.value.field == f"schedule.{field}"


def test_its_sentence_says_when_it_opens_and_on_which_days() -> None:
    assert describe(windowed("90m", OFFICE, "Europe/Berlin")) == (
        "Every 1 hour 30 minutes from 09:00 until before 17:00, "
        "on Monday, Tuesday, Wednesday, Thursday and Friday (Europe/Berlin)"
    )
    night = windowed("3h", {"from": "22:00", "until": "06:00"}, offset="10m")
    assert describe(night) == (
        "Every 3 hours from 22:00 until before 06:00 of the next day, beginning 10 minutes after it opens, "
        "every day (UTC)"
    )


@dataclass(frozen=True)
class Case:
    """A random window near a jump of its zone's clocks; all of it follows from the seed."""

    seed: int
    start: int
    end: int
    model: Window

    @property
    def spec(self) -> dict[str, Any]:
        """The same, as JSON."""
        opens, until = (_clock(time % 86_400) for time in (self.model.opens, self.model.closes))
        days = [WEEKDAYS[day] for day in sorted(self.model.weekdays)]
        every, offset = f"{self.model.every}s", f"{self.model.offset}s"
        window = {"from": opens, "until": until, "days": days}
        return {"kind": "interval", "every": every, "offset": offset, "window": window, "timezone": self.model.zone}


def _clock(time: int) -> str:
    return f"{time // 3600:02d}:{time // 60 % 60:02d}"


def case_of(seed: int) -> Case:
    """The case of a seed."""
    dice = Random(seed)
    zone, start = zone_and_moment(dice)
    opens = dice.choice((0, 60 * dice.randrange(240), 60 * dice.randrange(1440)))
    closes = opens + 60 * dice.choice((1, dice.randrange(1, 240), dice.randrange(1, 1440), 1440))
    every = dice.choice((60, 61, 600, 5400, 3600, 7, 86_400))
    offset = dice.choice((0, 0, dice.randrange(every))) % (closes - opens)
    weekdays = dice.choice(({0, 1, 2, 3, 4, 5, 6}, {dice.randrange(7) for _ in range(4)}))
    start += dice.choice((0, 0, 1, -dice.randrange(86_400)))
    end = start + dice.choice((1, 60, 3600, 8 * 3600, 2 * 86_400))
    return Case(seed, start, end, Window(zone, every, offset, opens, closes, weekdays))


def hold_against_the_model(case: Case) -> int:
    """Every engine fires when the plain model does; return how often."""
    assume(whole_minutes(case.model.zone, case.start))
    schedule = schedule_of(case.spec)
    start, end = case.start * SECOND, case.end * SECOND
    expected = [second * SECOND for second in case.model.fires(case.start, case.end)]
    assert occurrences(schedule, start, end) == expected
    assert expand([Entry(7, "job", schedule, start, end)], start, end).times.tolist() == expected
    assert count(schedule, start, end) == len(expected)
    assert latest(schedule, start, end) == (expected[-1] if expected else None)
    assert upcoming(schedule, start - 1, 5, end_at=end) == expected[:5]
    after = next_after(schedule, start - 1)
    assert after == expected[0] if expected else after is not None and after >= end
    return len(expected)


@settings(RELAXED, max_examples=10)
@given(st.integers(0, 2**60))
def test_every_engine_fires_when_the_plain_model_does(seed: int) -> None:
    hold_against_the_model(case_of(seed))


@pytest.mark.slow
@settings(RELAXED, max_examples=examples(100))
@given(st.integers(0, 2**60))
def test_every_engine_fires_when_the_plain_model_does_a_hundred_times(seed: int) -> None:
    hold_against_the_model(case_of(seed))


def test_a_year_in_one_call_is_the_year_in_parts() -> None:
    schedule = windowed("7s", OFFICE, "America/New_York")
    start, end = at("2026-11-27T00:00:00Z"), at("2027-04-01T00:00:00Z")
    whole = occurrences(schedule, start, end)
    assert len(whole) == count(schedule, start, end) == 89 * 4_115
    assert whole[:100] == upcoming(schedule, start, 100)
    assert latest(schedule, start, end) == whole[-1]
    days = [(day, min(day + DAY, end)) for day in range(start, end, DAY)]
    assert whole == [each for day in days for each in occurrences(schedule, *day)]
