"""What a leader counts reaches the table once: across a stop, a takeover and a database that is away."""

import re
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.identity import adhoc_run_id
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.model import Lease, NewRun, RunKind
from scheduler_service.core.samples import DELAY_BOUNDS, QueueSample, Sample, Step
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.sampler import Sampler, Sampling
from scheduler_service.ports.samples import SampleSink, SampleSource
from scheduler_service.sql.samples import SqlSampleStore
from tests.support.leading import LeaderThread
from tests.support.processes import wait_until

NOTHING = (0,) * (len(DELAY_BOUNDS) + 1)


class Minutes(SampleSource, SampleSink):
    """A leader that counts one start for each sample, by a clock that the test moves; keeps what is written."""

    def __init__(self) -> None:
        self.now: Instant = HOUR
        self.kept: dict[tuple[Step, Instant], Sample] = {}
        self.is_away = self.is_lost = False
        self.taken = threading.Semaphore(0)
        renewer = SimpleNamespace(now=lambda: self.now, lease=Lease(0, 1, "a", 1), trusted=lambda: not self.is_lost)
        self.sampler = Sampler(Sampling(self, self), cast(LeaseRenewer, renewer), print)

    def take_sample(self, at: Instant, term: int) -> Sample:
        return Sample(at, term, "1", QueueSample(started=1), NOTHING, 1, 0)

    def keep(self, lease: Lease, samples: Sequence[tuple[Step, Sample]]) -> None:
        if self.is_away:
            raise StoreUnavailable("away")
        self.kept.update({(step, sample.at): sample for step, sample in samples})

    def sample_at(self, at: Instant) -> None:
        self.now = at
        self.sampler._sample()  # what its thread does at the end of each minute

    def started(self, step: Step) -> dict[int, int]:
        return {at // MINUTE - 60: sample.total.started for (of, at), sample in self.kept.items() if of is step}


def test_each_minute_is_a_row_and_is_added_to_its_ten_minutes() -> None:
    minutes = Minutes()
    for minute in range(1, 13):
        minutes.sample_at(HOUR + minute * MINUTE + 3)
    assert minutes.started(Step.MINUTE) == dict.fromkeys(range(12), 1)
    assert minutes.started(Step.TEN_MINUTES) == {0: 10, 10: 2}


def test_a_minute_that_is_written_in_two_parts_is_one_row_with_both() -> None:
    minutes = Minutes()
    for at in (HOUR + 30 * SECOND, HOUR + 59 * SECOND, HOUR + MINUTE):
        minutes.sample_at(at)
    assert minutes.started(Step.MINUTE) == {0: 3}
    assert minutes.started(Step.TEN_MINUTES) == {0: 3}


def test_a_minute_that_the_database_does_not_take_is_a_gap_and_the_next_one_is_written() -> None:
    minutes = Minutes()
    minutes.is_away = True
    minutes.sample_at(HOUR + MINUTE)
    minutes.is_away = False
    minutes.sample_at(HOUR + 2 * MINUTE)
    assert minutes.started(Step.MINUTE) == {1: 1}


def test_a_leader_without_its_lease_writes_nothing() -> None:
    minutes = Minutes()
    minutes.is_lost = True
    minutes.sample_at(HOUR + MINUTE)
    assert minutes.kept == {}


def test_a_stop_writes_the_minute_under_way() -> None:
    minutes = Minutes()
    minutes.sampler.start()
    minutes.now += 20 * SECOND
    minutes.sampler.stop(60)
    assert minutes.started(Step.MINUTE) == {0: 1}


@pytest.mark.redis
@pytest.mark.slow
def test_a_takeover_begins_at_zero_and_loses_no_minute_of_the_leader_before(sqlite_url: str, redis_url: str) -> None:
    with LeaderThread(sqlite_url, redis_url) as one:
        one.runs.enqueue([NewRun(adhoc_run_id("a"), RunKind.ADHOC, "demo.task", 0, 0, queue="mails")])
        for shown in (
            r'^scheduler_queue_pending_runs\{queue="mails"\} 1\.0$',
            r"^scheduler_dispatch_delay_seconds_count 1\.0$",
        ):
            wait_until(lambda shown=shown: re.search(shown, one.meter.exposition(), re.MULTILINE), what=shown)
    with LeaderThread(sqlite_url, redis_url, holder="two") as two:
        wait_until(lambda: two.leases.peek(0).holder == "two", what="the takeover")  # type: ignore[union-attr]
        wait_until(lambda: "is_leader 1.0" in two.meter.exposition(), what="it to lead")
        now = two.now()
    with LeaderThread(sqlite_url, redis_url, holder="three") as three:
        found = SqlSampleStore(three.database).read(Step.MINUTE, now - HOUR, now + HOUR)
    first, later = ([one for one in found if (one.term == 1) == is_first] for is_first in (True, False))
    assert max(one.queues["mails"].pending for one in first if "mails" in one.queues) == 1
    assert sum(sum(one.delays) for one in first) == 1, "it was dispatched once"
    assert sum(sum(one.delays) for one in later) == 0
