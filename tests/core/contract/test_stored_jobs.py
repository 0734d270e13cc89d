"""Definitions that were read like another one are the jobs that each of them is alone."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import DAY, parse_instant
from scheduler_service.core.compact_history import CompactHistory
from scheduler_service.core.contract.job_json import definition_of, read_job, read_stored_job
from scheduler_service.core.contract.stored_jobs import StoredJobs
from scheduler_service.core.model import Job, JobHistory

MADE = parse_instant("2026-11-27T11:22:33Z")
_BALANCED = {"kind": "interval", "every": "1h", "balanced": True}
_WINDOW = {"kind": "interval", "every": "10m", "window": {"from": "08:00", "until": "18:00"}}
_SCHEDULES: Mapping[str, Mapping[str, Any]] = {
    "cron": {"kind": "cron", "expr": "0 4 * * *", "timezone": "Europe/Berlin"},
    "cron of another dialect": {"kind": "cron", "expr": "0 0 4 * * ?", "dialect": "quartz"},
    "cron by the id": {"kind": "cron", "expr": "H H * * *"},
    "hourly": {"kind": "hourly", "minute": 5},
    "interval": {"kind": "interval", "every": "7m"},
    "interval with an anchor": {"kind": "interval", "every": "7m", "anchor": "2026-11-01T00:00:00Z"},
    "balanced": _BALANCED,
    "window": _WINDOW,
    "calendar": {"kind": "calendar", "every": 3, "unit": "day", "at": ["06:00"]},
    "calendar with a start": {"kind": "calendar", "every": 3, "unit": "day", "at": ["06:00"], "start": "2026-11-02"},
    "once": {"kind": "once", "at": "2027-01-01T00:00:00Z"},
    "solar": {"kind": "solar", "event": "sunset", "latitude": 52.5, "longitude": 13.4},
    "rrule": {"kind": "rrule", "rrule": "FREQ=WEEKLY", "dtstart": "2026-11-01T06:00:00"},
    "any of the id's": {"kind": "any", "of": [{"kind": "cron", "expr": "H 4 * * *"}, {"kind": "hourly", "minute": 1}]},
    "any that counts": {"kind": "any", "of": [{"kind": "interval", "every": "7m"}, {"kind": "hourly", "minute": 1}]},
}
_FULL: Mapping[str, Any] = {
    "task": "billing.close",
    "queue": "billing",
    "retry": {"max_attempts": 3},
    "headers": {"a": "b"},
    "limits": ["api"],
    "tags": ["x", "y"],
    "description": 'says "kwargs": {} here',
}


def stored(job_id: str, schedule: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The definition that a store keeps; its schedule as an older release kept it, with its `H`."""
    job, _ = read_job({"job_id": job_id, "task": "t", "schedule": schedule, **more}, created_at=MADE)
    return {**definition_of(job), "schedule": {**schedule}}


def alone(definition: Mapping[str, Any], number: int) -> Job:
    return read_stored_job(definition, created_at=MADE + number * DAY, version=number, paused=number == 2)


def texts(definition: Mapping[str, Any]) -> Iterator[str]:
    yield json.dumps(definition, separators=(",", ":"))
    yield json.dumps(definition)
    yield json.dumps(dict(reversed(definition.items())))


@pytest.mark.parametrize("kind", _SCHEDULES)
@pytest.mark.parametrize("form", range(3))
def test_each_job_is_as_if_read_alone(kind: str, form: int) -> None:
    many = StoredJobs()
    own = [
        {},
        {"title": 'Zahlläufe \\ "kwargs": {}', "args": [1, {"kwargs": {"args": []}}]},
        {"title": '"', "kwargs": {"kwargs": {"title": "x"}, "deep": [[["}"]]]}, "args": ["\\"]},
        {"kwargs": {"tenant": 7}, "task": "other"},
        {"kwargs": {"tags": ["k"], "description": "k"}, "tags": ["a", "a", '"', "ü"], "description": 'x", "tags": []'},
    ]
    for number, more in enumerate(own):
        for full in ({}, _FULL):
            definition = stored(f"job-{number}", _SCHEDULES[kind], **{**full, **more})
            text = [*texts(definition)][form]
            job = many.read(text, created_at=MADE + number * DAY, version=number, paused=number == 2)
            assert job == alone(definition, number)


@pytest.mark.parametrize("kind", _SCHEDULES)
def test_the_history_of_each_is_that_of_the_job_read_alone(kind: str) -> None:
    many, compact = StoredJobs(), 0
    for number in range(8):
        own = {"title": f"job {number}", "args": [number], "kwargs": {"n": number}} if number > 2 else {}
        noted = {"tags": ["x", f"{number}"], "description": f"of {number}"} if number > 3 else {}
        definition = stored(f"job-{number}", _SCHEDULES[kind], **{**_FULL, **own, **noted})
        beside = {"version": 1 + number % 2, "paused": number == 7}
        text, planned, created, effective = json.dumps(definition), number % 3, MADE - number * DAY, MADE + number
        history = many.history(text, planned, created, effective, beside)
        job = read_stored_job(definition, created_at=created, effective_from=effective, **beside)
        assert history == JobHistory((job,), planned)
        compact += isinstance(history, CompactHistory)
    # The first of each version and the paused one are samples; a schedule that depends on the id is read for itself.
    assert compact == (0 if "id" in kind else 5)


def test_the_fields_of_a_newer_release_are_kept_in_each() -> None:
    many = StoredJobs()
    for number in range(3):
        newer = {**stored(f"job-{number}", _SCHEDULES["cron"]), "moon": "full"}
        job = many.read(json.dumps(newer), created_at=MADE + number * DAY, version=number, paused=number == 2)
        assert job == alone(newer, number)
        assert job.unknown == {"moon": "full"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_id": "no blank"},
        {"title": "x" * 10_001},
        {"args": {}},
        {"kwargs": []},
        {"kwargs": {"x": "y" * 300_000}},
        {"kwargs": {"nul": "\0"}},
        {"kwargs": {"number": float("nan")}},
        {"args": [float("-inf")]},
        {"args": [*json.loads("[" * 101 + "]" * 101)]},
        {"args": [{"$type": "moon", "$value": 5}]},
        {"tags": [""]},
        {"tags": ["x" * 101]},
        {"tags": [f"{n}" for n in range(51)]},
        {"tags": ["x", 5]},
        {"description": "x" * 10_001},
        {"description": "\0"},
        {"queue": "no blank"},
        {"job_id": "no blank", "title": 5},
    ],
)
def test_what_is_refused_alone_is_refused_like_that(wrong: dict[str, Any]) -> None:
    many, well = StoredJobs(), stored("well", _SCHEDULES["cron"])
    reads: list[Callable[..., object]] = [
        many.read,
        partial(many.history, planned_version=1, effective_from=MADE, stored={}),
        lambda text, **made: read_stored_job(json.loads(text), **made),
    ]
    for definition in (well, {**well, **wrong}):
        refusals = []
        for read in reads:
            try:
                read(json.dumps(definition), created_at=MADE)
                refusals.append("")
            except BadValues as error:
                refusals.append(str(error))
        assert len(set(refusals)) == 1
        assert bool(refusals[0]) is (definition is not well)


def test_jobs_that_are_alike_share_what_was_read_once() -> None:
    many = StoredJobs()
    jobs = []
    for n in range(9):
        own = {"title": f"t{n}", "kwargs": {"n": n}, "tags": [f"{n}"], "description": f"{n}"}
        definition = stored(f"job-{n}", _SCHEDULES["interval"], limits=["api"], **own)
        jobs.append(many.read(json.dumps(definition), created_at=MADE))
    assert len({id(job.limits) for job in jobs}) == 1
    assert [job.kwargs for job in jobs] == [{"n": n} for n in range(9)]


def test_it_forgets_definitions_rather_than_keep_very_many() -> None:
    many = StoredJobs(most=2)
    first, second = (
        [many.read(json.dumps(stored("job", _SCHEDULES["cron"], limits=[name])), created_at=MADE) for name in "abc"]
        for _ in range(2)
    )
    assert first == second
    assert first[0].limits is not second[0].limits
