"""Samples of the past are read and merged once in a process, for each set of limits apart, and no more than some."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import insert

from itinerary.protocol.instants import DAY, HOUR, MINUTE, Instant, format_instant
from scheduler_service.api.context import system_clock
from scheduler_service.api.services.past_steps import MOST, PastSteps
from scheduler_service.config.settings import Settings
from scheduler_service.core.samples import DELAY_BOUNDS, QueueSample, Sample, Step, in_steps
from scheduler_service.sql.database import Database
from scheduler_service.sql.record_tables import samples
from scheduler_service.sql.samples import SqlSampleStore, row_of
from tests.api.test_auth import bearer
from tests.api.test_limited_tokens import digest, settings_with

NOW: Instant = system_clock() // DAY * DAY
DELAYS = (1,) * (len(DELAY_BOUNDS) + 1)


class Reads(SqlSampleStore):
    """Notes the times that are read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.times: list[tuple[Instant, Instant]] = []

    def read(self, step: Step, since: Instant, until: Instant) -> list[Sample]:
        self.times.append((since, until))
        return super().read(step, since, until)


def sample_at(at: Instant, number: int) -> Sample:
    """Different each time: its figures, its queues, now and then its term and version."""
    queues = {f"queue-{n}": QueueSample(number % 7, n, number % 3, number, n, 1, 0) for n in range(number % 4)}
    total = QueueSample(number, 9, 9, number, 9, 9, 9)
    return Sample(at, 1 + number // 50, f"1.{number // 40}", total, DELAYS, number % 5, 0, queues, ("1.0",))


def fill(database: Database, step: Step, since: Instant, until: Instant) -> None:
    """A sample for each step, but for some gaps."""
    times = [at for at in range(since - since % step.length, until, step.length) if at // step.length % 11]
    with database.engine.begin() as connection:
        connection.execute(insert(samples), [row_of(step, sample_at(at, n)) for n, at in enumerate(times)])


@pytest.fixture
def store(settings: Settings) -> Iterator[Reads]:
    with closing(Database(settings.database_url, pool_size=1)) as database:
        fill(database, Step.MINUTE, NOW - 8 * HOUR, NOW)
        fill(database, Step.TEN_MINUTES, NOW - 8 * DAY, NOW)
        yield Reads(database)


@pytest.mark.parametrize("step", [MINUTE, 7 * MINUTE, 30 * MINUTE, 4 * HOUR, DAY])
def test_the_steps_are_those_of_the_database_however_often_they_are_asked_for(store: Reads, step: int) -> None:
    steps = PastSteps()
    for now in (NOW - 3 * HOUR, NOW - 2 * HOUR, NOW - HOUR, NOW):
        since = now - 5 * HOUR - (now - 5 * HOUR) % step
        stored = Step.MINUTE if step % (10 * MINUTE) else Step.TEN_MINUTES
        read = SqlSampleStore(store._database).read(stored, since, now + -now % step)
        shown = steps.read(store, None, step, since, now, now)
        assert shown.samples == in_steps(read, step)
        known = [(b.at, a.leader, b.leader) for a, b in pairwise(shown.versions) if a.leader != b.leader]
        changes = [(b.at, a.version, b.version) for a, b in pairwise(read) if a.version != b.version]
        assert [change for change in known if read and read[0].at < change[0] <= read[-1].at] == changes


def test_only_what_is_not_over_is_read_again(store: Reads) -> None:
    steps = PastSteps()
    for now in (NOW, NOW + MINUTE, NOW + 2 * MINUTE):
        steps.read(store, None, MINUTE, now - 6 * HOUR, now, now)
        steps.read(store, None, 30 * MINUTE, now - 7 * DAY - now % (30 * MINUTE), now, now)
    first, of_a_week, *later = store.times
    assert first[0] <= NOW - 6 * HOUR
    assert of_a_week[0] <= NOW - 7 * DAY
    assert [since >= NOW - HOUR for since, _ in later[::2]] == [True, True]
    assert [since >= NOW - 9 * HOUR for since, _ in later[1::2]] == [True, True]


def test_what_is_not_over_is_not_kept(store: Reads) -> None:
    steps, at = PastSteps(), NOW + 5 * MINUTE
    assert at not in steps.read(store, None, MINUTE, NOW - HOUR, NOW + 10 * MINUTE, NOW + 10 * MINUTE).samples
    with store._database.engine.begin() as connection:
        connection.execute(insert(samples), [row_of(Step.MINUTE, sample_at(at, 1))])
    assert at in steps.read(store, None, MINUTE, NOW - HOUR, NOW + 10 * MINUTE, NOW + 10 * MINUTE).samples


def test_no_more_is_kept_than_some_thousand_samples_and_those_used_last(store: Reads) -> None:
    steps = PastSteps()

    def asked_on(day: int) -> int:
        before = len(store.times)
        steps.read(store, None, MINUTE, NOW - day * DAY, NOW - day * DAY + 20 * HOUR, NOW)
        return len(store.times) - before

    assert (asked_on(100), asked_on(100)) == (1, 0)
    for day in range(101, 101 + MOST // 49):
        asked_on(day)
        assert asked_on(101) == 0 or day == 101
    assert asked_on(100) == 1


def test_a_limited_token_gets_nothing_that_was_kept_for_others(
    client_of: Callable[[Settings], TestClient], settings: Settings, store: Reads
) -> None:
    at = system_clock() // (10 * MINUTE) * (10 * MINUTE) - DAY
    both = {"mails": QueueSample(5, 5, 1, 40, 39, 1, 0), "bills": QueueSample(0, 1, 1, 20, 20, 0, 0)}
    with store._database.engine.begin() as connection:
        new = replace(sample_at(at, 0), queues=both, total=QueueSample(5, 6, 2, 60, 59, 1, 0), term=99)
        connection.execute(samples.delete())
        connection.execute(insert(samples), [row_of(Step.TEN_MINUTES, new)])
    names = {"all": "", "bills": ":queues=bills", "mails": ":queues=mails", "tasks": ":tasks=bills.*"}
    client = client_of(settings_with(settings, *(f"{name}:viewer:{digest(name)}{of}" for name, of in names.items())))
    asked = {"from": format_instant(at - HOUR), "to": format_instant(at + HOUR), "step": "10m"}

    def started(name: str) -> list[int]:
        answer = client.get("/api/v1/stats/trends", params=asked, headers=bearer(name))
        return [answer.status_code] if answer.is_error else [one["started"] for one in answer.json()["points"]]

    for names_in_order in (["all", "bills", "mails", "tasks"], ["tasks", "mails", "all", "bills"]):
        found = {name: started(name) for name in names_in_order}
        assert found == {"all": [60], "bills": [20], "mails": [40], "tasks": [403]}
