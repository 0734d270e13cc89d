"""The Claims port together with the worker's half of the script: one start per attempt, whoever asks when."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Protocol

import pytest

from itinerary.protocol.errors import BrokerUnavailable
from itinerary.protocol.instants import SECOND
from itinerary.protocol.keys import Keys
from itinerary.protocol.wire import entry
from itinerary.worker.claim import claim
from itinerary.worker.connection import RedisConnection
from itinerary.worker.reporting import ReportBuilder, send
from scheduler_service.broker.claims import RedisClaims
from scheduler_service.broker.client import connect
from scheduler_service.core.leader.messages import Succeeded, decode
from scheduler_service.ports.broker import Claims
from tests.support.fakes_redis import FakeClaims
from tests.support.processes import free_port
from tests.support.redis_server import RedisServer

KEYS = Keys()

AT = 1_800_000_000 * SECOND
RUN = "billing.close_2026-12-01T01:00:00Z~1"
OTHER = "adhoc_0193~2"


class Parts(Protocol):
    """The leader's side, and a worker's."""

    claims: Claims

    def asks(self, task_id: str, token: str, queue: str = "default", seq: int | None = None) -> str: ...

    def worker_claims(self, task_id: str, token: str) -> bool: ...

    def worker_leaves(self, task_id: str, result: object) -> None: ...

    def wipe(self) -> None: ...


class FakeParts:
    def __init__(self) -> None:
        self.claims = FakeClaims()
        self.asks = self.claims.ask
        self.worker_claims = self.claims.claim
        self.wipe = self.claims.wipe

    def worker_leaves(self, task_id: str, result: object) -> None:
        report = ReportBuilder(task_id, "celery@here", AT).succeeded(result)
        self.claims.leave(task_id, entry(report.kind, report.at, dict(report.body)))


class RealParts:
    def __init__(self, url: str, claims: RedisClaims) -> None:
        self.claims = claims
        self._connection = RedisConnection(url)

    def asks(self, task_id: str, token: str, queue: str = "default", seq: int | None = None) -> str:
        return claim(self._connection, task_id, token, "celery@here", AT, seq, queue).value

    def worker_claims(self, task_id: str, token: str) -> bool:
        return self.asks(task_id, token) == "won"

    def wipe(self) -> None:
        self._connection.client.flushdb()

    def worker_leaves(self, task_id: str, result: object) -> None:
        assert send(self._connection, ReportBuilder(task_id, "celery@here", AT).succeeded(result), "*", True)

    def close(self) -> None:
        self._connection.client.close()


@pytest.fixture(params=["fake", pytest.param("redis", marks=pytest.mark.redis), "valkey"])
def fresh(request: pytest.FixtureRequest) -> Iterator[Parts]:
    if request.param == "fake":
        yield FakeParts()
        return
    url = request.getfixturevalue(f"{request.param}_url")
    with closing(RedisClaims(url)) as claims, closing(RealParts(url, claims)) as real:
        yield real


@pytest.fixture
def parts(fresh: Parts) -> Parts:
    """The same, in a generation that is accepted."""
    assert accepts(fresh)
    return fresh


@pytest.fixture
def accepted_url(redis_url: str) -> str:
    with closing(RedisClaims(redis_url)) as claims:
        assert claims.accept(claims.query_epoch().name, 0)
    return redis_url


def accepts(parts: Parts, watermark: int = 0) -> bool:
    return parts.claims.accept(parts.claims.query_epoch().name, watermark)


def decoded(fields: Mapping[str, str] | None) -> object:
    assert fields is not None
    message = decode(fields)
    assert isinstance(message, Succeeded)
    return message.result


def test_the_first_worker_that_asks_wins(parts: Parts) -> None:
    assert parts.worker_claims(RUN, "token-a")
    assert not parts.worker_claims(RUN, "token-b")


def test_the_same_token_is_told_yes_again(parts: Parts) -> None:
    assert parts.worker_claims(RUN, "token-a")
    assert parts.worker_claims(RUN, "token-a")


def test_attempts_are_claimed_apart(parts: Parts) -> None:
    assert parts.worker_claims("job_x~1", "token-a")
    assert parts.worker_claims("job_x~2", "token-b")


def test_a_claim_that_the_leader_took_is_refused_to_every_worker(parts: Parts) -> None:
    assert parts.claims.take([RUN]) == [True]
    assert not parts.worker_claims(RUN, "token-a")


def test_the_leader_does_not_win_what_a_worker_holds(parts: Parts) -> None:
    assert parts.worker_claims(RUN, "token-a")
    assert parts.claims.take([OTHER, RUN]) == [True, False]


def test_taking_again_gives_the_same_answers(parts: Parts) -> None:
    parts.worker_claims(RUN, "token-a")
    assert parts.claims.take([RUN, OTHER]) == parts.claims.take([RUN, OTHER]) == [False, True]


def test_an_attempt_that_is_flagged_is_not_started(parts: Parts) -> None:
    parts.claims.flag([RUN])
    assert not parts.worker_claims(RUN, "token-a")
    assert parts.worker_claims(OTHER, "token-b")


def test_taking_what_a_worker_holds_leaves_the_worker_alone(parts: Parts) -> None:
    parts.worker_claims(RUN, "token-a")
    parts.claims.take([RUN])
    assert parts.worker_claims(RUN, "token-a")


def test_a_result_is_found_until_it_is_forgotten(parts: Parts) -> None:
    parts.worker_claims(RUN, "token-a")
    parts.worker_leaves(RUN, {"rows": 3})
    found, missing = parts.claims.results([RUN, OTHER])
    assert decoded(found) == {"rows": 3}
    assert missing is None
    parts.claims.forget_results([RUN, OTHER])
    assert parts.claims.results([RUN]) == [None]
    assert not parts.worker_claims(RUN, "token-b")


def test_nothing_is_left_of_an_attempt_that_is_forgotten(parts: Parts) -> None:
    parts.worker_claims(RUN, "token-a")
    parts.worker_leaves(RUN, {"rows": 3})
    parts.claims.flag([RUN])
    parts.claims.forget([RUN, OTHER])
    assert parts.claims.results([RUN]) == [None]
    assert parts.worker_claims(RUN, "token-b")


def test_a_message_below_the_watermark_of_its_queue_starts_nothing(parts: Parts) -> None:
    assert parts.claims.raise_watermarks({"default": 100, "other": 5}, 0) == {"default": 100, "other": 5}
    verdicts = [parts.asks(f"job_{seq}~1", "token", "default", seq) for seq in (9, 99, 100, 101, 1000)]
    assert verdicts == ["stale", "stale", "won", "won", "won"]
    assert parts.asks("job_x~1", "token", "other", 9) == "won"
    assert parts.asks("job_y~1", "token", "third", 1) == "won"


def test_watermarks_only_rise_and_say_where_they_are(parts: Parts) -> None:
    parts.claims.raise_watermarks({"default": 100}, 0)
    assert parts.claims.raise_watermarks({"default": 99, "other": 1}, 0) == {"default": 100, "other": 1}
    assert parts.asks(RUN, "token", "default", 99) == "stale"


def test_the_lowest_watermark_holds_for_every_queue_and_never_sinks(parts: Parts) -> None:
    assert parts.claims.raise_watermarks({"default": 100}, 50) == {"default": 100}
    assert parts.claims.raise_watermarks({"other": 20}, 40) == {"other": 50}
    assert parts.claims.query_epoch().watermark == 50
    verdicts = [parts.asks(f"{queue}_{seq}~1", "token", queue, seq) for queue in ("other", "new") for seq in (49, 50)]
    assert verdicts == ["stale", "won", "stale", "won"]
    assert parts.asks("job_99~1", "token", "default", 99) == "stale"
    assert parts.claims.raise_watermarks({"default": 1}, 1) == {"default": 100}


def test_before_the_epoch_is_accepted_each_queue_keeps_its_own_watermark(fresh: Parts) -> None:
    assert fresh.claims.raise_watermarks({"default": 100, "other": 30}, 50) == {"default": 100, "other": 30}
    assert (fresh.claims.query_epoch().accepted, fresh.claims.query_epoch().watermark) == (False, 0)
    assert accepts(fresh, 20)
    verdicts = [fresh.asks(f"job_{seq}~1", "token", queue, seq) for queue, seq in (("default", 99), ("other", 29))]
    assert verdicts == ["stale", "stale"]
    assert fresh.asks("job_30~1", "token", "other", 30) == "won"


def test_a_recalled_message_starts_nothing_and_a_later_one_may(parts: Parts) -> None:
    assert parts.claims.recall([(RUN, 7), (OTHER, 8)]) == [True, True]
    assert [parts.asks(RUN, "token", seq=seq) for seq in (6, 7, None)] == ["stale"] * 3
    assert parts.asks(RUN, "token-a", seq=8) == "won"
    assert (parts.asks(RUN, "token-a", seq=8), parts.asks(RUN, "token-b", seq=9)) == ("won", "held")
    assert parts.asks(OTHER, "token", seq=8) == "stale"


def test_a_claim_wins_against_a_recall(parts: Parts) -> None:
    assert parts.asks(RUN, "token-a", seq=7) == "won"
    assert parts.claims.take([OTHER]) == [True]
    assert parts.claims.recall([(RUN, 7), (OTHER, 7)]) == [False, False]
    assert (parts.asks(RUN, "token-a", seq=7), parts.asks(OTHER, "token-b", seq=8)) == ("won", "held")


def test_a_recall_gives_the_same_answer_again_and_never_goes_back(parts: Parts) -> None:
    term = (2**31 - 2) << 32  # beyond the numbers that Lua knows exactly
    assert [parts.claims.recall([(RUN, seq)]) for seq in (term + 2, term + 2, 9)] == [[True]] * 3
    assert [parts.asks(RUN, "token", seq=seq) for seq in (term + 1, term + 2, term + 3)] == ["stale", "stale", "won"]


def test_a_recalled_attempt_is_taken_and_forgotten_like_any(parts: Parts) -> None:
    parts.claims.recall([(RUN, 7), (OTHER, 7)])
    assert parts.claims.take([RUN]) == [True]
    assert parts.asks(RUN, "token", seq=8) == "held"
    parts.claims.forget([OTHER])
    assert parts.asks(OTHER, "token", seq=7) == "won"


def test_a_recalled_attempt_that_is_flagged_does_not_start_by_a_later_message(parts: Parts) -> None:
    parts.claims.recall([(RUN, 7)])
    parts.claims.flag([RUN])
    assert parts.asks(RUN, "token", seq=8) == "cancelled"


@pytest.mark.redis
def test_the_watermarks_of_a_thousand_queues_are_dropped_once_the_lowest_has_reached_them(
    redis_server: RedisServer,
) -> None:
    """What each of them refused, the lowest refuses; those above it stay."""
    with closing(RedisClaims(redis_server.url)) as claims, connect(redis_server.url) as client:
        client.flushall()
        assert claims.accept(claims.query_epoch().name, 1)
        queues = {f"queue{number}": number for number in range(10, 1_010)}
        claims.raise_watermarks(queues, 5)
        assert len(client.keys(KEYS.watermark("*"))) == client.scard(KEYS.watermarks) == 1_000
        for _ in range(20):  # some more of them at each call
            claims.raise_watermarks({"default": 1_000}, 1_000)
        assert {name[len(KEYS.watermark("")) :] for name in client.keys(KEYS.watermark("*"))} == {
            f"queue{number}" for number in range(1_001, 1_010)
        }
        assert client.scard(KEYS.watermarks) == 9
        verdicts = [claim(RedisConnection(redis_server.url), f"job_{seq}~1", "t", "w", AT, seq, "queue10").value
                    for seq in (9, 999, 1_000)]  # fmt: skip
        assert verdicts == ["stale", "stale", "won"]


def test_watermarks_of_the_greatest_numbers_are_exact(parts: Parts) -> None:
    term = (2**31 - 2) << 32
    parts.claims.raise_watermarks({"default": term + 1}, 0)
    assert parts.asks("job_a~1", "token", "default", term) == "stale"
    assert parts.asks("job_b~1", "token", "default", term + 1) == "won"


def test_what_holds_its_claim_is_told_yes_again_below_the_watermark_too(parts: Parts) -> None:
    assert parts.asks(RUN, "token-a", "default", 7) == "won"
    parts.claims.raise_watermarks({"default": 100}, 0)
    assert parts.asks(RUN, "token-a", "default", 7) == "won"
    assert parts.asks(RUN, "token-b", "default", 7) == "held"


def test_a_second_message_of_a_forgotten_attempt_is_below_the_watermark(parts: Parts) -> None:
    parts.asks(RUN, "token-a", "default", 7)
    parts.claims.raise_watermarks({"default": 8}, 0)
    parts.claims.forget([RUN])
    assert parts.asks(RUN, "token-b", "default", 7) == "stale"


def test_nobody_claims_anything_before_the_epoch_is_accepted(fresh: Parts) -> None:
    assert not fresh.claims.query_epoch().accepted
    assert fresh.asks(RUN, "token-a", "default", 7) == "wait"
    assert fresh.claims.take([OTHER]) is None
    assert fresh.claims.recall([(OTHER, 7)]) is None
    assert accepts(fresh)
    assert fresh.asks(RUN, "token-a", "default", 7) == "won"
    assert fresh.claims.take([OTHER]) == [True]


def test_a_epoch_keeps_its_name_until_its_data_are_lost(fresh: Parts) -> None:
    name = fresh.claims.query_epoch().name
    assert accepts(fresh, 7)
    assert (
        fresh.claims.query_epoch().name,
        fresh.claims.query_epoch().accepted,
        fresh.claims.query_epoch().watermark,
    ) == (name, True, 7)
    fresh.wipe()
    there = fresh.claims.query_epoch()
    assert (there.accepted, there.watermark) == (False, 0)
    assert there.name != name
    assert fresh.claims.query_epoch().name == there.name


def test_a_epoch_that_is_gone_cannot_be_accepted(fresh: Parts) -> None:
    name = fresh.claims.query_epoch().name
    fresh.wipe()
    assert not fresh.claims.accept(name, 1)
    assert fresh.asks(RUN, "token-a", "default", 7) == "wait"


def test_after_a_wipe_nothing_is_claimed_though_it_was_accepted_before(parts: Parts) -> None:
    parts.wipe()
    assert parts.asks(RUN, "token-a", "default", 7) == "wait"


def test_the_watermark_of_a_epoch_holds_for_every_queue_and_never_sinks(parts: Parts) -> None:
    assert accepts(parts, 100)
    assert accepts(parts, 50)
    verdicts = [parts.asks(f"{queue}_{seq}~1", "token", queue, seq) for queue in ("a", "b") for seq in (99, 100)]
    assert verdicts == ["stale", "won", "stale", "won"]


def test_the_eviction_policy_is_known(parts: Parts) -> None:
    assert parts.claims.eviction_policy() == "noeviction"


@pytest.mark.redis
def test_a_epoch_named_before_a_restart_cannot_be_accepted_after_it(redis_server: RedisServer) -> None:
    with closing(RedisClaims(redis_server.url)) as claims, connect(redis_server.url) as client:
        before = claims.query_epoch().name
        client.save()
        redis_server.kill()
        redis_server.start()
        assert client.get(KEYS.epoch_seen) == before, "the data are those of before"
        assert not claims.accept(before, 1)
        assert claims.accept(claims.query_epoch().name, 1)


def test_nothing_is_asked_for_no_attempts(parts: Parts) -> None:
    assert parts.claims.take([]) == []
    assert parts.claims.recall([]) == []
    assert parts.claims.results([]) == []
    parts.claims.flag([])
    parts.claims.forget([])
    parts.claims.forget_results([])
    assert parts.claims.raise_watermarks({}, 0) == {}


def test_a_thousand_claims_are_taken_in_order(parts: Parts) -> None:
    attempts = [f"job_{n}~1" for n in range(1_200)]
    parts.worker_claims(attempts[700], "token-a")
    assert parts.claims.recall([(one, n) for n, one in enumerate(attempts)]) == [n != 700 for n in range(1_200)]
    assert parts.claims.take(attempts) == [n != 700 for n in range(1_200)]


@pytest.mark.redis
def test_claims_and_flags_live_a_day_and_recalls_a_week(accepted_url: str) -> None:
    with closing(RedisClaims(accepted_url)) as claims, connect(accepted_url) as client:
        claims.recall([(OTHER, 7)])
        assert 604_000 < client.ttl(KEYS.claim(OTHER)) <= 604_800
        claims.take([RUN])
        claims.flag([RUN])
        for key in (KEYS.claim(RUN), KEYS.cancel(RUN)):
            assert 86_000 < client.ttl(key) <= 86_400


@pytest.mark.redis
def test_a_claim_writes_started_into_the_inbox_once(accepted_url: str) -> None:
    connection = RedisConnection(accepted_url)
    for token in ("token-a", "token-a", "token-b"):
        claim(connection, RUN, token, "celery@here", AT, 7)
    ((_, fields),) = connection.client.xrange(KEYS.inbox)
    started = decode(fields)
    assert (started.run_id, started.attempt, started.worker, started.seq) == (RUN[:-2], 1, "celery@here", 7)
    connection.client.close()


@pytest.mark.redis
def test_an_attempt_is_reported_once_whoever_reports_it(accepted_url: str) -> None:
    connection = RedisConnection(accepted_url)
    claim(connection, RUN, "token-a", "celery@here", AT)
    told = ReportBuilder(RUN, "celery@here", AT)
    assert send(connection, told.succeeded(1), "token-a", True)
    assert not send(connection, told.succeeded(1), "token-a", True)
    assert not send(connection, told.failed(RuntimeError("killed"), "worker_lost"), "*", True)
    assert [fields["type"] for _, fields in connection.client.xrange(KEYS.inbox)] == ["started", "succeeded"]
    assert 86_000 < connection.client.ttl(KEYS.result(RUN)) <= 86_400
    connection.client.close()


@pytest.mark.redis
def test_a_delivery_without_its_claim_reports_nothing(accepted_url: str) -> None:
    connection = RedisConnection(accepted_url)
    claim(connection, RUN, "token-a", "celery@here", AT)
    told = ReportBuilder(RUN, "celery@there", AT)
    assert not send(connection, told.succeeded(2), "token-b", True)
    assert not send(connection, ReportBuilder(OTHER, "celery@there", AT).succeeded(2), "token-b", False)
    assert send(connection, told.succeeded(1), "token-a", True)
    connection.client.close()


@pytest.mark.redis
def test_a_result_is_reported_even_if_redis_lost_its_claim(accepted_url: str) -> None:
    connection = RedisConnection(accepted_url)
    claim(connection, RUN, "token-a", "celery@here", AT)
    connection.client.flushdb()
    assert send(connection, ReportBuilder(RUN, "celery@here", AT).succeeded(1), "token-a", True)
    connection.client.close()


def test_a_server_that_is_away_is_reported_as_such() -> None:
    with closing(RedisClaims(f"redis://127.0.0.1:{free_port()}/0")) as claims:
        for call in (claims.take, claims.flag, claims.results, claims.forget, claims.forget_results):
            with pytest.raises(BrokerUnavailable):
                call([RUN])
        with pytest.raises(BrokerUnavailable):
            claims.query_epoch()
