"""The Claims port together with the worker's half of the script: one start per attempt, whoever asks when."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Protocol

import pytest

from scheduler_service.adapters.redis_claims import RedisClaims
from scheduler_service.adapters.redis_client import connect
from scheduler_service.core.errors import BrokerUnavailable
from scheduler_service.core.instants import SECOND
from scheduler_service.core.messages import Succeeded, decode
from scheduler_service.core.wire import INBOX, cancel_key, claim_key, entry, result_key
from scheduler_service.ports import Claims
from tests.support.fakes_redis import FakeClaims
from tests.support.processes import free_port
from workers.claim import Verdict, claim
from workers.connection import RedisConnection
from workers.reporting import Told, send

AT = 1_800_000_000 * SECOND
RUN = "billing.close_2026-12-01T01:00:00Z~1"
OTHER = "adhoc_0193~2"


class Parts(Protocol):
    """The leader's side, and a worker's."""

    claims: Claims

    def worker_claims(self, task_id: str, token: str) -> bool: ...

    def worker_leaves(self, task_id: str, result: object) -> None: ...


class FakeParts:
    def __init__(self) -> None:
        self.claims = FakeClaims()
        self.worker_claims = self.claims.claim

    def worker_leaves(self, task_id: str, result: object) -> None:
        report = Told(task_id, "celery@here", AT).succeeded(result)
        self.claims.leave(task_id, entry(report.kind, report.at, dict(report.body)))


class RealParts:
    def __init__(self, url: str, claims: RedisClaims) -> None:
        self.claims = claims
        self._connection = RedisConnection(url)

    def worker_claims(self, task_id: str, token: str) -> bool:
        return claim(self._connection, task_id, token, "celery@here", AT) is Verdict.WON

    def worker_leaves(self, task_id: str, result: object) -> None:
        assert send(self._connection, Told(task_id, "celery@here", AT).succeeded(result), "*", True)

    def close(self) -> None:
        self._connection.client.close()


@pytest.fixture(params=["fake", pytest.param("redis", marks=pytest.mark.redis), "valkey"])
def parts(request: pytest.FixtureRequest) -> Iterator[Parts]:
    if request.param == "fake":
        yield FakeParts()
        return
    url = request.getfixturevalue(f"{request.param}_url")
    with closing(RedisClaims(url)) as claims, closing(RealParts(url, claims)) as real:
        yield real


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
    parts.claims.forget([RUN, OTHER])
    assert parts.claims.results([RUN]) == [None]


def test_nothing_is_asked_for_no_attempts(parts: Parts) -> None:
    assert parts.claims.take([]) == []
    assert parts.claims.results([]) == []
    parts.claims.flag([])
    parts.claims.forget([])


def test_a_thousand_claims_are_taken_in_order(parts: Parts) -> None:
    attempts = [f"job_{n}~1" for n in range(1_200)]
    parts.worker_claims(attempts[700], "token-a")
    assert parts.claims.take(attempts) == [n != 700 for n in range(1_200)]


@pytest.mark.redis
def test_claims_and_flags_live_a_day(redis_url: str) -> None:
    with closing(RedisClaims(redis_url)) as claims, connect(redis_url) as client:
        claims.take([RUN])
        claims.flag([RUN])
        for key in (claim_key(RUN), cancel_key(RUN)):
            assert 86_000 < client.ttl(key) <= 86_400


@pytest.mark.redis
def test_a_claim_writes_started_into_the_inbox_once(redis_url: str) -> None:
    connection = RedisConnection(redis_url)
    for token in ("token-a", "token-a", "token-b"):
        claim(connection, RUN, token, "celery@here", AT, 7)
    ((_, fields),) = connection.client.xrange(INBOX)
    started = decode(fields)
    assert (started.run_id, started.attempt, started.worker, started.seq) == (RUN[:-2], 1, "celery@here", 7)
    connection.client.close()


@pytest.mark.redis
def test_an_attempt_is_reported_once_whoever_reports_it(redis_url: str) -> None:
    connection = RedisConnection(redis_url)
    claim(connection, RUN, "token-a", "celery@here", AT)
    told = Told(RUN, "celery@here", AT)
    assert send(connection, told.succeeded(1), "token-a", True)
    assert not send(connection, told.succeeded(1), "token-a", True)
    assert not send(connection, told.failed(RuntimeError("killed"), "worker_lost"), "*", True)
    assert [fields["type"] for _, fields in connection.client.xrange(INBOX)] == ["started", "succeeded"]
    assert 86_000 < connection.client.ttl(result_key(RUN)) <= 86_400
    connection.client.close()


@pytest.mark.redis
def test_a_delivery_without_its_claim_reports_nothing(redis_url: str) -> None:
    connection = RedisConnection(redis_url)
    claim(connection, RUN, "token-a", "celery@here", AT)
    told = Told(RUN, "celery@there", AT)
    assert not send(connection, told.succeeded(2), "token-b", True)
    assert not send(connection, Told(OTHER, "celery@there", AT).succeeded(2), "token-b", False)
    assert send(connection, told.succeeded(1), "token-a", True)
    connection.client.close()


@pytest.mark.redis
def test_a_result_is_reported_even_if_redis_lost_its_claim(redis_url: str) -> None:
    connection = RedisConnection(redis_url)
    claim(connection, RUN, "token-a", "celery@here", AT)
    connection.client.flushdb()
    assert send(connection, Told(RUN, "celery@here", AT).succeeded(1), "token-a", True)
    connection.client.close()


def test_a_server_that_is_away_is_reported_as_such() -> None:
    with closing(RedisClaims(f"redis://127.0.0.1:{free_port()}/0")) as claims:
        for call in (claims.take, claims.flag, claims.results, claims.forget):
            with pytest.raises(BrokerUnavailable):
                call([RUN])
