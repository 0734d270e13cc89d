"""The bucket map and the search for places: each test of the design it comes from has its twin here."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, parse_instant
from scheduler_service.core.balancing.slot_balancer import slot_key, slot_time, spread_of
from scheduler_service.core.balancing.slot_counts import HORIZON_SLOTS, SLOT
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import occurrences, upcoming
from tests.support.balanced import NOW, at_place, balanced, balancer_of, cron, held, map_of, places
from tests.support.examples import examples

BASE = slot_key(NOW)
RELAXED = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck), database=None)
INTERVALS = st.sampled_from([40 * SECOND, 7 * MINUTE, SLOT, 25 * MINUTE, HOUR, 100 * MINUTE, 6 * HOUR, DAY, 3 * DAY])


def test_times_of_one_quarter_of_an_hour_have_one_slot_and_the_next_quarter_another() -> None:
    assert slot_key(NOW) == slot_key(parse_instant("2026-11-30T10:14:59.999999Z"))
    assert slot_key(NOW) != slot_key(parse_instant("2026-11-30T10:15:00Z"))
    assert slot_time(slot_key(parse_instant("2026-11-30T10:14:59Z"))) == NOW


def test_a_new_job_avoids_the_loaded_slots() -> None:
    jobs = [at_place(f"job{n}", 6 * HOUR, NOW + HOUR + n * SECOND) for n in range(2)]
    jobs.append(at_place("job2", 6 * HOUR, NOW + 2 * HOUR))
    slots = map_of(BASE, jobs)
    place = slots.least_loaded("job4", 6 * HOUR, NOW)
    assert slots.load(slot_key(place.at)) == 0 == place.load
    assert slot_key(place.at) not in (slot_key(NOW + HOUR), slot_key(NOW + 2 * HOUR))


def test_a_job_weighs_on_every_slot_that_it_runs_in() -> None:
    slots = map_of(BASE, [at_place("hourly", HOUR, NOW + 20 * MINUTE)])
    assert [slots.load(BASE + n) for n in range(8)] == [0, 1, 0, 0, 0, 1, 0, 0]
    assert sum(slots.day()) == 24


def test_crons_weigh_too_and_a_new_job_goes_where_they_are_not() -> None:
    slots = map_of(BASE, [cron("nightly", "*/5 0-11 * * *")])
    place = slots.least_loaded("daily", DAY, NOW)
    assert place.load == 0
    assert (place.at % DAY) // HOUR >= 12


@pytest.mark.parametrize("number", [3, 30], ids=["a day at once", "hour by hour"])
def test_few_crons_and_many_are_counted_alike(number: int) -> None:
    jobs = [cron(f"cron{n}", f"{n},{n + 20} {n % 4}-23/{1 + n % 5} * * *") for n in range(number)]
    expected = [0] * 96
    for at in (at for job in jobs for at in occurrences(job.schedule, NOW, NOW + DAY)):
        expected[slot_key(at) - BASE] += 1
    assert map_of(BASE, jobs).day() == tuple(expected)


def test_the_rhythm_is_kept_exactly_whatever_the_interval() -> None:
    for every in (40 * SECOND, 25 * MINUTE, HOUR, 31 * HOUR):
        job = balanced("job", every)
        (placement,) = places(balancer_of([]), job)
        runs = upcoming(at_place("job", every, placement.anchor).schedule, NOW, 50)
        assert runs[0] == placement.anchor
        assert {later - earlier for earlier, later in pairwise(runs)} == {every}


def test_an_hour_later_is_four_slots_later() -> None:
    (placement,) = places(balancer_of([]), balanced("job", HOUR))
    first, second = upcoming(at_place("job", HOUR, placement.anchor).schedule, NOW, 2)
    assert slot_key(second) == slot_key(first) + 4


def test_ten_jobs_of_one_interval_go_to_ten_slots() -> None:
    found = places(balancer_of([]), *(balanced(f"job{n}", 6 * HOUR) for n in range(10)))
    assert len({slot_key(one.anchor) for one in found}) == 10


def test_within_their_slot_jobs_are_spread_over_its_900_seconds() -> None:
    found = places(balancer_of([]), *(balanced(f"job{n}", HOUR) for n in range(400)))
    within = [one.anchor % SLOT // SECOND for one in found]
    assert max(within.count(second) for second in within) < 8
    assert min(within) < 90
    assert max(within) >= 810
    assert all(one.anchor % SLOT == spread_of(one.job_id) for one in found)


def test_where_a_job_runs_in_its_slot_is_the_same_for_ever() -> None:
    assert [spread_of(name) // SECOND for name in ("a", "b", "billing.close")] == [207, 281, 897]


@RELAXED
@given(INTERVALS, st.integers(0, 10 * DAY // SECOND))
def test_a_place_is_never_past_and_within_one_interval(every: int, seconds: int) -> None:
    now = NOW + seconds * SECOND
    place = map_of(slot_key(now)).least_loaded("job", every, now)
    assert now <= place.at < now + every


def test_a_month_is_placed_within_the_week_that_the_map_holds() -> None:
    jobs = [balanced(f"job{n}", 30 * DAY) for n in range(20)]
    found = places(balancer_of([]), *jobs)
    assert len({slot_key(one.anchor) for one in found}) == 20
    assert all(NOW <= one.anchor < NOW + HORIZON_SLOTS * SLOT for one in found)


def test_equal_loads_give_the_same_places_every_time() -> None:
    jobs = [balanced(f"job{n}", every) for n, every in enumerate([HOUR, 25 * MINUTE, DAY, 6 * HOUR] * 5)]
    assert places(balancer_of([]), *jobs) == places(balancer_of([]), *jobs)


def test_a_removed_job_leaves_a_gap_and_nothing_else_moves() -> None:
    jobs = [at_place(f"job{n}", HOUR, NOW + n * SLOT) for n in range(4)]
    slots = map_of(BASE, jobs)
    assert slots.load(BASE + 1) == 1
    slots.remove("job1")
    slots.remove("nobody")
    assert [slots.load(BASE + n) for n in range(5)] == [1, 0, 1, 1, 1]
    assert slots.slot_of("job1") is None
    assert slots.slot_of("job2") == BASE + 2


def test_a_job_that_is_paused_or_over_weighs_nothing_and_bounds_are_kept() -> None:
    until = at_place("until", HOUR, NOW, end_at="2026-11-30T12:30:00Z")
    since = at_place("since", HOUR, NOW, start_at="2026-11-30T13:00:00Z")
    slots = map_of(BASE, [until, since])
    assert [slots.load(BASE + 4 * n) for n in range(5)] == [1, 1, 1, 1, 1]
    assert slots.load(BASE + HORIZON_SLOTS) == 0 == slots.load(BASE - 1)


def jobs_of(choices: list[tuple[int, int]]) -> list[Job]:
    found: list[Job] = []
    for number, (every, offset) in enumerate(choices):
        if number % 5 == 4:
            found.append(cron(f"job{number}", f"{offset % 60} */{1 + offset % 7} * * *"))
        else:
            found.append(at_place(f"job{number}", every, NOW - DAY + offset * SECOND))
    return found


CHOICES = st.lists(st.tuples(INTERVALS, st.integers(0, 3 * DAY // SECOND)), max_size=12)


@pytest.mark.slow
@RELAXED
@given(CHOICES, st.integers(0, 99))
def test_the_map_made_of_jobs_one_by_one_is_the_one_made_of_all_of_them(
    choices: list[tuple[int, int]], seed: int
) -> None:
    jobs = jobs_of(choices)
    Random(seed).shuffle(jobs)
    grown, extra = map_of(BASE), balanced("extra", HOUR)
    assert grown.load(BASE) == 0  # counted: each that comes now is counted for itself
    for job in held(at_place("extra", HOUR, NOW), *(extra if job.job_id == "extra" else job for job in jobs)):
        grown.add(job)
    grown.remove("extra")
    made = map_of(BASE, jobs)
    assert [grown.load(BASE + n) for n in range(HORIZON_SLOTS)] == [made.load(BASE + n) for n in range(HORIZON_SLOTS)]
    assert [grown.slot_of(job.job_id) for job in jobs] == [made.slot_of(job.job_id) for job in jobs]


@RELAXED
@given(CHOICES)
def test_the_loads_of_the_day_are_counts_of_occurrences(choices: list[tuple[int, int]]) -> None:
    jobs = jobs_of(choices)
    runs = [at for job in jobs for at in occurrences(job.schedule, NOW, NOW + DAY)]
    expected = [0] * 96
    for at in runs:
        expected[slot_key(at) - BASE] += 1
    assert map_of(BASE, jobs).day() == tuple(expected)


@RELAXED
@given(CHOICES, INTERVALS.filter(lambda every: every >= SLOT))
def test_no_other_place_has_a_lower_peak(choices: list[tuple[int, int]], every: int) -> None:
    slots = map_of(BASE, jobs_of(choices))
    place = slots.least_loaded("new", every, NOW)
    spread = spread_of("new")

    def peak(at: int) -> int:
        turns = max(1, HORIZON_SLOTS * SLOT // every)
        phase = (at - NOW) % every + NOW
        return max(slots.load(slot_key(phase + n * every)) for n in range(turns))

    candidates = [at for n in range(every // SLOT + 1) if NOW <= (at := NOW + n * SLOT + spread) < NOW + every]
    assert place.load == peak(place.at) == min(peak(at) for at in candidates)


@pytest.mark.parametrize("jobs", [1_000, 10_000])
def test_a_place_among_many_is_found_by_looking_at_one_weeks_slots_only(jobs: int) -> None:
    slots = map_of(BASE, [at_place(f"job{n}", DAY, NOW + n * MINUTE) for n in range(jobs)])
    assert slots.least_loaded("new", 6 * HOUR, NOW).load <= -(-4 * jobs // 96)
