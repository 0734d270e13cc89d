"""Solar schedules: Celery's own times to the second, days without the event, and the same answer in every window."""

import random

import pytest
from celery import Celery
from celery.schedules import solar

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, SECOND
from scheduler_service.core.index.expansion import Entry, ScheduleTable, expand, expand_table
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import (
    SOLAR_EVENTS,
    SolarSchedule,
    latest,
    next_after,
    occurrences,
    parse_schedule,
    upcoming,
)
from scheduler_service.migrating.beat_fires import beat_fires
from tests.support.moments import at, schedule_of, texts

pytest.importorskip("ephem", reason="ephem is not installed: install the environment of the present lock")
START = at("2026-11-29T00:00:00Z")
APP = Celery("sun", set_as_current=False, changes={"timezone": "UTC"})
PLACES = [(52.52, 13.405), (-33.87, 151.21), (0.0, -179.9), (69.65, 18.96), (-77.85, 166.67), (40.7, -74.0)]


def place(event: str, latitude: float, longitude: float) -> SolarSchedule:
    found = schedule_of({"kind": "solar", "event": event, "latitude": latitude, "longitude": longitude})
    assert isinstance(found, SolarSchedule)
    return found


def test_the_events_are_celerys() -> None:
    assert set(SOLAR_EVENTS) == solar._all_events


@pytest.mark.parametrize("event", ["sunrise", "solar_noon", "dusk_civil"])
def test_the_times_are_those_at_which_beat_sends(event: str) -> None:
    theirs = beat_fires(solar(event, 52.52, 13.405), APP, START, START + 15 * DAY)
    ours = occurrences(place(event, 52.52, 13.405), START, START + 15 * DAY)
    assert len(theirs) == len(ours) == 15
    assert max(abs(one - other) for one, other in zip(theirs, ours, strict=True)) <= SECOND


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "latitude", "longitude"),
    [
        *((event, 52.52, 13.405) for event in sorted(SOLAR_EVENTS)),
        *(("sunset", *where) for where in PLACES[1:4]),
        ("dawn_civil", *PLACES[4]),
    ],
)
def test_a_year_of_beats_own_times(event: str, latitude: float, longitude: float) -> None:
    theirs = beat_fires(solar(event, latitude, longitude), APP, START, START + 366 * DAY)
    ours = occurrences(place(event, latitude, longitude), START, START + 366 * DAY)
    assert len(ours) > 100
    odd = [at for at in ours if not any(abs(at - other) <= SECOND for other in theirs)]
    odd += [at for at in theirs if not any(abs(at - other) <= SECOND for other in ours)]
    # Celery searches from its last sending: on the day that begins or ends a polar season it may find none, or one.
    assert len(odd) <= 2
    assert all(at + 2 * DAY < next_after(place(event, latitude, longitude), at + HOUR) for at in odd)  # type: ignore[operator]


def test_a_polar_night_has_no_sunrise_and_the_search_for_the_next_one_ends() -> None:
    tromso = place("sunrise", 69.65, 18.96)
    found = next_after(tromso, START)
    assert found is not None
    assert texts([found])[0][:10] == "2027-01-15"
    assert occurrences(tromso, START, START + 40 * DAY) == []
    assert latest(tromso, START, START + 40 * DAY) is None
    parsed = parse_schedule(
        {"kind": "solar", "event": "sunrise", "latitude": 69.65, "longitude": 18.96}, job_id="", created_at=START
    )
    assert "some days of the year have no sunrise" in parsed.warnings[0]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"event": "moonrise", "latitude": 1, "longitude": 1}, "schedule.event"),
        ({"event": "sunrise", "latitude": 91, "longitude": 1}, "schedule.latitude"),
        ({"event": "sunrise", "latitude": float("nan"), "longitude": 1}, "schedule.latitude"),
        ({"event": "sunrise", "latitude": True, "longitude": 1}, "schedule.latitude"),
        ({"event": "sunrise", "latitude": 1, "longitude": "13"}, "schedule.longitude"),
        ({"event": "sunrise", "latitude": 1}, "schedule.longitude"),
        ({"event": "sunrise", "latitude": 90, "longitude": 1}, "schedule.event"),
        ({"event": "sunrise", "latitude": 1, "longitude": 1, "at": "05:00"}, "schedule.at"),
    ],
)
def test_what_is_no_event_at_a_place_is_refused_by_its_field(spec: dict[str, object], field: str) -> None:
    with pytest.raises(BadValue) as refused:
        parse_schedule({"kind": "solar", **spec}, job_id="", created_at=START)
    assert refused.value.field == field


def test_every_window_shows_the_same_times_and_both_engines_agree() -> None:
    schedules = [place(event, *where) for event in ("sunset", "dawn_nautical") for where in PLACES]
    entries = [Entry(n, f"job{n:02}", schedule, START, START + 9 * DAY) for n, schedule in enumerate(schedules)]
    whole = {(at, n) for n, one in enumerate(schedules) for at in occurrences(one, START, START + 9 * DAY)}
    assert whole == set(zip(*_listed(expand(entries, START, START + 9 * DAY)), strict=True))
    table, rng, begin, found = ScheduleTable.of(entries), random.Random(7), START, []
    while begin < START + 9 * DAY:
        end = begin + rng.randrange(1, 20 * HOUR)
        found += list(zip(*_listed(expand_table(table, begin, min(end, START + 9 * DAY))), strict=True))
        begin = end
    assert found == sorted(whole)
    for n, one in enumerate(schedules):
        own = sorted(at for at, ordinal in whole if ordinal == n)
        assert upcoming(one, START - 1, len(own)) == own
        assert all(latest(one, START, at + 1) == at for at in own)


@pytest.mark.parametrize("longitude", [-179.9, 0.0, 179.9])
def test_each_time_is_found_by_a_window_of_its_own(longitude: float) -> None:
    """Near the polar circle the sun sets about midnight, so that a solar day's event lies in the next day."""
    begin = at("2026-10-20T00:00:00Z"), at("2027-06-01T00:00:00Z")
    for event, start in (("solar_noon", begin[0]), ("sunset", begin[1]), ("sunrise", begin[1])):
        schedule = place(event, 65.6, longitude)
        own = occurrences(schedule, start, start + 40 * DAY)
        assert len(own) > 20
        for moment in own:
            assert occurrences(schedule, moment, moment + 1) == [moment]
            assert next_after(schedule, moment - 1) == moment
            assert latest(schedule, moment, moment + 1) == moment


def test_the_search_for_an_event_that_never_comes_ends() -> None:
    pole = SolarSchedule("sunrise", 90.0, 0.0, "UTC")
    assert next_after(pole, START) is None
    assert latest(pole, START - 40_000 * DAY, START) is None


def test_a_schedule_table_changes_a_solar_job_and_keeps_another() -> None:
    import numpy as np

    sunset, noon = place("sunset", 52.52, 13.405), place("solar_noon", 40.7, -74.0)
    old = ScheduleTable.of([Entry(0, "a", sunset, START, START + DAY), Entry(1, "b", noon, START, START + DAY)])
    fresh = ScheduleTable.of([Entry(0, "a", noon, START, START + DAY)])
    changed = old.changed(np.asarray([-1, 1], dtype=np.int32), fresh)
    both = _listed(expand_table(changed, START, START + DAY))
    noon_at = occurrences(noon, START, START + DAY)
    assert both == (noon_at * 2, [0, 1])


def test_it_is_said_in_words() -> None:
    assert describe(place("dusk_civil", -33.87, 151.21)) == "At civil dusk at 33.87 S, 151.21 E (UTC)"
    assert describe(place("solar_noon", 40.7, -74.0)) == "At solar noon at 40.7 N, 74 W (UTC)"


def _listed(found: object) -> tuple[list[int], list[int]]:
    return found.times.tolist(), found.ordinals.tolist()  # type: ignore[attr-defined]
