"""The leader's live state over HTTP, with and without a leader."""

from contextlib import closing

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR
from scheduler_service.cli.doctor import examine
from scheduler_service.config.settings import Settings
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from tests.support.answering_leader import AnsweringLeader


def test_the_status_joins_the_lease_and_what_the_leader_says(api: TestClient, leader: AnsweringLeader) -> None:
    seen = api.get("/api/v1/scheduler/status").json()
    assert seen.pop("inbox_depth") >= 1
    assert seen.pop("since").endswith("Z")
    assert seen.pop("last_heard_at").endswith("Z")
    assert seen == {
        "leader": "test-holder", "last_leader": "test-holder", "leader_answers": True, "term": 1,
        "leader_without_redis": False, "other_than_leaders": None,
        "zone_rules": installed_rules().version, "zone_rules_api": installed_rules().version,
        "zone_rules_standby": None,
        "index_runs": 42,
        "last_rebuild_at": "2026-11-27T10:00:30Z",
        "last_iteration_at": "2026-11-27T10:00:31Z", "oldest_due_at": None, "active_runs": 5, "workers": 1,
    }  # fmt: skip


def test_a_standby_that_takes_over_while_it_is_asked_is_told_instead_of_the_dead_holder(
    api: TestClient, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Database(settings.database_url, pool_size=1)) as database:
        leases = SqlLeaseStore(database)
        leases.acquire(0, "killed", HOUR)

        def take_over() -> None:
            if seen_by(leases) == "killed":
                leases.acquire(0, "standby", HOUR, leases.peek(0))
                answering.term = 2

        with AnsweringLeader(settings.redis_url, first=take_over) as answering:
            seen = api.get("/api/v1/scheduler/status").json()
            assert (seen["leader"], seen["term"], seen["leader_answers"], seen["workers"]) == ("standby", 2, True, 1)
            answering.term = 1  # and who was superseded does not speak for the holder
            seen = api.get("/api/v1/scheduler/status").json()
            assert (seen["leader"], seen["leader_answers"], seen["workers"]) == ("standby", False, None)
            assert "The leader does not answer within a second" in api.get("/").text
            assert examine(settings) == 1
            assert "FAIL  leader      standby leads with term 2, but another answered" in capsys.readouterr().out


def test_a_lease_that_ends_while_its_holder_is_asked_is_led_by_nobody(api: TestClient, settings: Settings) -> None:
    with closing(Database(settings.database_url, pool_size=1)) as database:
        leases = SqlLeaseStore(database)
        lease = leases.acquire(0, "leaving", HOUR)
        assert lease is not None
        with AnsweringLeader(settings.redis_url, first=lambda: leases.resign(lease)):
            seen = api.get("/api/v1/scheduler/status").json()
    assert (seen["leader"], seen["last_leader"], seen["leader_answers"]) == (None, "leaving", None)
    assert seen["workers"] is None


def seen_by(leases: SqlLeaseStore) -> str:
    seen = leases.peek(0)
    assert seen is not None
    return seen.holder


def test_without_a_leader_the_status_says_so(api: TestClient) -> None:
    answer = api.get("/api/v1/scheduler/status")
    assert answer.status_code == 200
    seen = answer.json()
    assert (seen["leader"], seen["active_runs"], seen["workers"]) == (None, None, None)


def test_workers_and_queues_come_from_the_leader(api: TestClient, leader: AnsweringLeader) -> None:
    workers = api.get("/api/v1/workers").json()["items"]
    assert [(w["name"], w["alive"], w["running"]) for w in workers] == [
        ("celery@here", True, ["a_2026-11-27T10:00:00Z"]),
        ("celery@gone", False, []),
    ]
    (queue,) = api.get("/api/v1/queues").json()["items"]
    assert (queue["name"], queue["depth"], queue["workers"]) == ("default", 2, 1)
    assert queue["oldest_age"][-1] in "smhd"
    assert (queue["defined"], queue["paused"], queue["waiting"], queue["pending"]) == (False, False, 0, 0)


def test_the_tasks_that_workers_know_come_from_the_leader(api: TestClient, leader: AnsweringLeader) -> None:
    of_the_release_before = api.get("/api/v1/tasks")
    assert (of_the_release_before.status_code, of_the_release_before.json()) == (200, {"items": [], "complete": False})
    leader.tasks = {"tasks": ["shop.count", "shop.sum"], "complete": True}
    assert api.get("/api/v1/tasks").json() == {"items": ["shop.count", "shop.sum"], "complete": True}


def test_without_a_leader_nobody_says_which_tasks_are_known(api: TestClient) -> None:
    assert api.get("/api/v1/tasks").json()["type"] == "urn:itinerary:problem:no-leader"


def test_where_no_leader_answers_the_caller_is_told_to_come_again(api: TestClient) -> None:
    answer = api.get("/api/v1/workers")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert answer.headers["content-type"] == "application/problem+json"


def test_ready_means_database_redis_and_a_live_leader(api: TestClient) -> None:
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "not ready", "database": "ok", "redis": "ok", "leader": "none leads"}


def test_with_a_leader_it_is_ready(api: TestClient, leader: AnsweringLeader) -> None:
    answer = api.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"


def test_alive_asks_nobody(api: TestClient) -> None:
    assert api.get("/healthz").json() == {"status": "ok"}
    assert (api.head("/healthz").status_code, api.head("/healthz").content) == (200, b"")


def test_the_metrics_are_the_leaders_or_say_that_none_leads(api: TestClient, request: object) -> None:
    answer = api.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "\nscheduler_is_leader 0\n" in answer.text


def test_the_leaders_own_metrics_are_passed_on(api: TestClient, leader: AnsweringLeader) -> None:
    assert api.get("/metrics").text.startswith("scheduler_is_leader 1\n")
