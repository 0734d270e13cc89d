"""The recorder of logs over a real Redis and real databases: who works, what a kill leaves, what stops it not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from itinerary.protocol.attempt_logs import Tail, packed
from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import Duration
from itinerary.protocol.keys import Keys
from scheduler_service.broker.client import connect
from scheduler_service.broker.logs import RedisSentLogs
from scheduler_service.loops.log_recorder import LogRecorder
from scheduler_service.ports.logs import SentLog
from scheduler_service.sql.attempt_logs import SqlLogStore
from tests.support.store_bed import StoreBed, one_off, sql_bed

pytestmark = pytest.mark.redis
LOGS = Keys().logs


class Recording:
    """A recorder of the holder "me" over these stores."""

    def __init__(self, bed: StoreBed, redis_url: str) -> None:
        assert bed.database is not None
        self.bed = bed
        self.client = connect(redis_url)
        self.sent = RedisSentLogs(redis_url)
        self.store = SqlLogStore(bed.database)
        self.recorder = self.recorder_of("me")
        bed.runs.enqueue([replace(one_off(0), run_id=run_id) for run_id in ("one", "two")])

    def recorder_of(self, holder: str, store: SqlLogStore | None = None) -> LogRecorder:
        return LogRecorder(self.bed.leases, self.sent, store or self.store, holder)

    def send(self, task_id: str, text: str = "text") -> None:
        log = packed(Tail(text, len(text)))
        self.client.xadd(LOGS, {"task_id": task_id, "end": str(log.end), "log": log.text})

    def close(self) -> None:
        self.client.delete(LOGS)
        self.client.close()
        self.sent.close()


@pytest.fixture
def recording(database_url: str, redis_url: str) -> Iterator[Recording]:
    with sql_bed(database_url) as bed:
        opened = Recording(bed, redis_url)
        yield opened
        opened.close()


def test_the_leader_stores_what_workers_sent_and_leaves_nothing(recording: Recording) -> None:
    recording.bed.lead("me")
    for task_id in ("one~1", "absent~1", "two~3", "nonsense"):
        recording.send(task_id)
    assert recording.recorder.round()
    assert recording.store.read("one", 1) == recording.store.read("two", 3) == Tail("text", 4)
    assert not recording.client.exists(LOGS)


def test_another_leaders_logs_stay_for_it(recording: Recording) -> None:
    recording.bed.lead("another")
    recording.send("one~1")
    assert not recording.recorder.round()
    assert recording.client.xlen(LOGS) == 1
    assert recording.recorder_of("another").round()
    assert recording.store.attempts("one") == [1]


def test_a_standby_reads_no_logs_again_before_it_leads(recording: Recording, redis_url: str) -> None:
    lease = recording.bed.lead("another")
    recording.send("one~1")
    reads: list[int] = []

    class Counted(RedisSentLogs):
        def read(self, most: int, block: Duration) -> tuple[Sequence[SentLog], Sequence[str]]:
            reads.append(most)
            return recording.sent.read(most, block)

    standby = LogRecorder(recording.bed.leases, Counted(redis_url), recording.store, "me")
    assert [standby.round(), standby.round(), len(reads)] == [False, False, 1]
    recording.bed.leases.resign(lease)
    recording.bed.lead("me")
    assert standby.round()
    assert recording.store.attempts("one") == [1]


def test_a_leader_killed_between_storing_and_forgetting_changes_nothing(recording: Recording) -> None:
    recording.bed.lead("me")
    recording.send("one~1", "the log")

    class Killed(SqlLogStore):
        def keep(self, logs: Sequence[SentLog]) -> None:
            super().keep(logs)
            raise SystemExit

    assert recording.bed.database is not None
    with pytest.raises(SystemExit):
        recording.recorder_of("me", Killed(recording.bed.database)).round()
    assert (recording.store.attempts("one"), recording.client.xlen(LOGS)) == ([1], 1)
    assert recording.recorder.round()
    assert recording.store.read("one", 1) == Tail("the log", 7)
    assert not recording.client.exists(LOGS)


def test_a_database_that_is_away_loses_no_log(recording: Recording) -> None:
    recording.bed.lead("me")
    recording.send("one~1")

    class Away(SqlLogStore):
        def keep(self, logs: Sequence[SentLog]) -> None:
            raise StoreUnavailable("away")

    assert recording.bed.database is not None
    with pytest.raises(StoreUnavailable):
        recording.recorder_of("me", Away(recording.bed.database)).round()
    assert recording.recorder.round()
    assert recording.store.attempts("one") == [1]


def test_a_batch_is_bounded_and_the_rest_follows(recording: Recording) -> None:
    recording.bed.lead("me")
    for attempt in range(1, 251):
        recording.send(f"one~{attempt}")
    rounds = 0
    while recording.client.exists(LOGS):
        assert recording.recorder.round()
        rounds += 1
    assert rounds == 3
    assert len(recording.store.attempts("one")) == 250


def test_what_a_stranger_wrote_is_forgotten(recording: Recording) -> None:
    recording.bed.lead("me")
    recording.client.xadd(LOGS, {"task_id": "one~1", "end": "x", "log": ""})
    recording.send("a nul \x00~1")
    assert recording.recorder.round()
    assert not recording.client.exists(LOGS)
