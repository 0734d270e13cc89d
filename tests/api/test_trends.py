"""Trends over HTTP: windows, steps, gaps, marks, and what a limited token sees of them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from itinerary.client.results import Trends
from itinerary.protocol.instants import DAY, HOUR, MINUTE, Instant, format_instant
from scheduler_service.api.context import system_clock
from scheduler_service.api.services.limited_samples import LimitedSamples
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.model import Lease
from scheduler_service.core.samples import DELAY_BOUNDS, QueueSample, Sample, Step
from scheduler_service.core.token_limits import Limits
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.samples import SqlSampleStore
from tests.api.test_auth import bearer
from tests.api.test_limited_tokens import digest, settings_with

DELAYS = (10,) + (0,) * len(DELAY_BOUNDS)
MAILS, BILLS = QueueSample(3_000_000, 5, 1, 40, 39, 1, 0), QueueSample(0, 1, 1, 20, 20, 0, 0)
BOTH = QueueSample(3_000_000, 6, 2, 60, 59, 1, 0)


class Kept:
    """A database to which a leader writes samples by the minute."""

    def __init__(self, database: Database) -> None:
        lease = SqlLeaseStore(database).acquire(0, "a", HOUR)
        assert lease is not None
        self._lease: Lease = lease
        self._store = SqlSampleStore(database)
        self.now: Instant = system_clock() // MINUTE * MINUTE

    def sample(self, minutes_ago: int, step: Step = Step.MINUTE, **others: object) -> None:
        at = self.now - minutes_ago * MINUTE
        new = Sample(at - at % step.length, 1, "1.0", BOTH, DELAYS, 2, 0, {"mails": MAILS, "bills": BILLS})
        self._store.keep(self._lease, [(step, replace(new, **others))])  # type: ignore[arg-type]


@pytest.fixture
def kept(settings: Settings) -> Iterator[Kept]:
    with closing(Database(settings.database_url, pool_size=1)) as database:
        yield Kept(database)


def test_the_last_hour_by_minutes_has_a_gap_where_nobody_sampled(api: TestClient, kept: Kept) -> None:
    for minutes_ago in (30, 29, 27, 100):
        kept.sample(minutes_ago)
    found = api.get("/api/v1/stats/trends").json()
    assert (found["step"], found["queue"]) == ("1m", None)
    assert [point["at"] for point in found["points"]] == [format_instant(kept.now - n * MINUTE) for n in (30, 29, 27)]
    first = found["points"][0]
    assert (first["started"], first["failed"], first["lag"], first["workers"]) == (60, 1, "3s", 2)
    assert (first["dispatch_delay_p50"], first["dispatch_delay_p99"]) == ("0.0005s", "0.00099s")


def test_one_queue_has_its_own_figures_and_one_that_was_idle_has_zeros(api: TestClient, kept: Kept) -> None:
    kept.sample(5)
    mails, idle = (api.get("/api/v1/stats/trends", params={"queue": name}).json() for name in ("mails", "idle"))
    assert [(point["started"], point["lag"], point["workers"]) for point in mails["points"]] == [(40, "3s", None)]
    assert [(point["started"], point["lag"]) for point in idle["points"]] == [(0, "0s")]
    assert api.get("/api/v1/stats/trends", params={"queue": "no queue"}).status_code == 404


def test_a_long_window_is_read_from_ten_minutes_and_a_step_adds_them_up(api: TestClient, kept: Kept) -> None:
    for minutes_ago in (3 * 1440, 3 * 1440 - 10, 20):
        kept.sample(minutes_ago, Step.TEN_MINUTES)
    window = {"from": format_instant(kept.now - 7 * DAY), "to": format_instant(kept.now)}
    found = api.get("/api/v1/stats/trends", params=window).json()
    assert found["step"] == "30m"
    assert sum(point["started"] for point in found["points"]) == 180
    assert len(found["points"]) in (2, 3)


@pytest.mark.parametrize(("asked", "field"), [
    ({"step": "90s"}, "step"), ({"step": "0s"}, "step"), ({"from": "yesterday"}, "from"),
    ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "to"),
    ({"from": "2020-01-01T00:00:00Z", "step": "1m"}, "step"), ({"stp": "1m"}, "stp"),
])  # fmt: skip
def test_a_window_that_cannot_be_drawn_is_refused_by_the_name_of_its_field(
    api: TestClient, asked: dict[str, str], field: str
) -> None:
    refused = api.get("/api/v1/stats/trends", params=asked)
    assert refused.status_code == 422
    assert [error["loc"][-1] for error in refused.json()["errors"] or ()] == [field]


@pytest.mark.slow
def test_the_marks_are_leaders_versions_freezes_and_pauses_of_queues(api: TestClient, kept: Kept) -> None:
    kept.sample(3, worker_versions=("1.0",))
    kept.sample(2, version="1.1", worker_versions=("1.0", "1.1"))
    api.post("/api/v1/queues/mails/pause", json={"reason": "the server is away"})
    api.post("/api/v1/queues/mails/resume")
    api.post("/api/v1/freezes", json={"scope": {"queues": ["mails"]}, "reason": "a deploy"})
    later = format_instant(system_clock() + MINUTE)
    texts = [mark["text"] for mark in api.get("/api/v1/stats/trends", params={"to": later}).json()["marks"]]
    assert texts == [
        "the leader's version went from 1.0 to 1.1", "the workers' versions went from 1.0 to 1.0, 1.1",
        "a leader began term 1", "queue mails was paused", "queue mails was resumed", "freeze 1 began: a deploy",
    ]  # fmt: skip


def test_a_limited_token_sees_the_trends_of_its_queues_alone(
    client_of: Callable[[Settings], TestClient], settings: Settings, kept: Kept
) -> None:
    kept.sample(5)
    tokens = [f"one:viewer:{digest('one')}:queues=bills", f"two:viewer:{digest('two')}:tasks=bills.*"]
    limited = client_of(settings_with(settings, *tokens))
    (point,) = limited.get("/api/v1/stats/trends", headers=bearer("one")).json()["points"]
    assert (point["started"], point["lag"], point["dispatch_delay_p50"], point["workers"]) == (20, "0s", None, 0)
    others = limited.get("/api/v1/stats/trends", params={"queue": "mails"}, headers=bearer("one"))
    assert others.json()["points"][0]["started"] == 0
    assert limited.get("/api/v1/stats/trends", headers=bearer("two")).status_code == 403


def test_a_limited_token_reads_its_own_queue_alone(stores: Stores, kept: Kept) -> None:
    kept.sample(5)
    own = LimitedSamples(stores.samples, Limits(queues=("bills",)))
    for queue, figures in ((None, BILLS), ("bills", BILLS), ("mails", QueueSample())):
        (found,) = own.read_queue(Step.MINUTE, kept.now - HOUR, kept.now, queue)
        assert (found.at, found.figures) == (kept.now - 5 * MINUTE, figures), queue


def test_the_client_has_a_name_for_each_field(api: TestClient, kept: Kept) -> None:
    kept.sample(5)
    trends = Trends.of(api.get("/api/v1/stats/trends").json())
    assert (trends.points[0].started, trends.marks[0].kind, trends.step) == (60, "leader", "1m")
    assert trends.start < trends.points[0].at < trends.end
