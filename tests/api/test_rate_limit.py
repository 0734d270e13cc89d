"""How much one token may ask for: 429 with Retry-After beyond it, and nobody else's share is touched."""

from collections.abc import Callable

import pytest
import structlog
from fastapi.testclient import TestClient

from scheduler_service.api.http.auth import is_loopback
from scheduler_service.api.http.rate_limit import DEFAULT_RATE, Buckets, rate_of
from scheduler_service.config.settings import Settings
from scheduler_service.observability.repeated_events import Seldom
from tests.api.test_auth import bearer, guarded_settings, token_line


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_holds_two_seconds_worth_and_fills_up_again() -> None:
    clock = Clock()
    buckets = Buckets(10, clock)
    assert [buckets.take("a") for _ in range(20)] == [0] * 20
    assert buckets.take("a") == 1
    assert buckets.take("b") == 0
    clock.now = 0.1
    assert (buckets.take("a"), buckets.take("a")) == (0, 1)
    clock.now = 100
    assert [buckets.take("a") for _ in range(21)] == [0] * 20 + [1]


def test_who_has_not_asked_for_long_is_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(1, clock)
    for number in range(10_000):
        buckets.take(f"address {number}")
    clock.now = 60
    buckets.take("address x")
    assert len(buckets._buckets) == 1


def test_over_its_rate_a_token_is_told_when_to_come_again_and_others_are_served(
    client_of: Callable[[Settings], TestClient], settings: Settings, rate_clock: list[float]
) -> None:
    api = client_of(guarded_settings(settings).model_copy(update={"api_rate_limit": 1}))
    answers = [api.get("/api/v1/jobs", headers=bearer("viewer")) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].headers["retry-after"] == "1"
    assert answers[2].headers["content-type"] == "application/problem+json"
    assert answers[2].json()["status"] == 429
    assert api.get("/api/v1/jobs", headers=bearer("operator")).status_code == 200
    assert [api.get("/healthz").status_code for _ in range(5)] == [200] * 5


def test_guessing_tokens_is_limited_too(
    client_of: Callable[[Settings], TestClient], settings: Settings, rate_clock: list[float]
) -> None:
    api = client_of(guarded_settings(settings).model_copy(update={"api_rate_limit": 1}))
    guesses = [api.get("/api/v1/jobs", headers=bearer(f"guess {n}")).status_code for n in range(3)]
    assert guesses == [401, 401, 429]


@pytest.mark.parametrize(
    ("host", "limit", "tokens", "rate"),
    [
        ("127.0.0.1", None, 0, 0), ("127.0.0.1", None, 1, DEFAULT_RATE), ("0.0.0.0", None, 1, DEFAULT_RATE),
        ("0.0.0.0", 0, 1, 0), ("::1", 7, 1, 7), ("::1", 7, 0, 7),
    ],
)  # fmt: skip
def test_on_loopback_there_is_no_limit_unless_one_or_a_token_is_set(
    host: str, limit: int | None, tokens: int, rate: int
) -> None:
    lines = [token_line("a", "viewer", "s")] * tokens
    settings = Settings(api_host=host, api_rate_limit=limit, api_tokens=lines)  # type: ignore[arg-type]
    assert rate_of(settings) == rate


@pytest.mark.slow
def test_on_loopback_wrong_tokens_are_limited_counted_and_logged(
    client_of: Callable[[Settings], TestClient], settings: Settings, rate_clock: list[float]
) -> None:
    api = client_of(guarded_settings(settings))
    assert is_loopback(settings.api_host)
    with structlog.testing.capture_logs() as logged:
        answers = [api.get("/api/v1/jobs", headers=bearer(f"guess {n}")).status_code for n in range(60)]
        rate_clock[0] = 1.0
        answers += [api.get("/api/v1/jobs", headers=bearer(f"guess {n}")).status_code for n in range(30)]
    refused = answers.count(401)
    assert answers == [401] * 40 + [429] * 20 + [401] * 20 + [429] * 10, "20 a second are judged"
    assert [line["event"] for line in logged] == ["login failed, the token is not known"] * len(logged)
    assert 1 <= len(logged) <= 3
    assert "guess" not in str(logged)
    assert api.get("/api/v1/jobs", headers=bearer("viewer")).status_code == 200, "whoever has a token is served"
    assert f"scheduler_api_failed_logins_total {refused}\n" in api.get("/metrics", headers=bearer("viewer")).text


def test_a_browser_that_was_not_asked_yet_is_no_failed_login(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    api = client_of(guarded_settings(settings))
    assert api.get("/").status_code == 401
    assert "scheduler_api_failed_logins_total 0\n" in api.get("/metrics", headers=bearer("viewer")).text


def test_a_flood_is_counted_whole_and_logged_seldom() -> None:
    clock = Clock()
    seldom = Seldom(10, clock)
    assert [seldom.count("a") for _ in range(100)] == [1] + [0] * 99
    assert seldom.count("b") == 1
    clock.now = 10
    assert (seldom.count("a"), seldom.count("a")) == (100, 0)


def test_a_flood_of_addresses_is_bounded_and_forgets_the_one_asked_of_longest_ago() -> None:
    buckets = Buckets(1, clock=lambda: 5.0)
    for number in range(10_500):
        assert buckets.take(f"address {number}") == 0
    assert len(buckets._buckets) == 10_000
    assert [buckets.take("address 10499"), buckets.take("address 10499")] == [0, 1]
