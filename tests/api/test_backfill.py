"""Backfill over HTTP, on real databases: counted, made once, in order, explained, and no contradiction in history."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, format_instant
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.cli.invariants import findings
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, Transition
from scheduler_service.core.leader.messages import RunEnqueued
from scheduler_service.core.leader.planning import new_occurrence
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.conditions import SqlConditions
from scheduler_service.sql.database import Database
from scheduler_service.sql.tables import cursors, jobs
from tests.api.test_auth import bearer, guarded_settings
from tests.support.answering_leader import AnsweringLeader
from tests.support.led import Led

BACKFILL = "/api/v1/jobs/a.job/backfill"
HOURLY = {"kind": "cron", "expr": "0 * * * *"}


class Planned(Led):
    """Knows the hour, and what a leader does with the job's runs."""

    @property
    def hour(self) -> Instant:
        return self.lease.now - self.lease.now % HOUR

    def at(self, hours_ago: int) -> Instant:
        """The start of an hour."""
        return self.hour - hours_ago * HOUR

    def plan(self, *runs: Any, planned: tuple[tuple[str, int], ...] = (("a.job", 1),)) -> None:
        """Leaders are done with the job's occurrences so far, of which these got rows."""
        self.store.create_runs(self.lease, CreateRuns(runs, self.lease.now, planned=planned))

    def release(self, *run_ids: str) -> None:
        moved = self.store.dispatch_runs(
            self.lease, [Dispatch(run_id, 1, 1) for run_id in run_ids], self.lease.now + MINUTE
        )
        assert not moved.refused

    def end(self, run_id: str, event: Event, state: RunState) -> None:
        """End a released run so."""
        change = Transition(run_id, 1, event, state, self.lease.now + MINUTE)
        assert self.store.apply(self.lease, Apply((change,))) == ()


@pytest.fixture
def settings(database_url: str, redis_url: str) -> Settings:
    return Settings(database_url=database_url, redis_url=redis_url)


@pytest.fixture
def led(settings: Settings) -> Iterator[Planned]:
    with closing(Database(settings.database_url, pool_size=2)) as database:
        yield Planned(database)


@pytest.fixture
def hourly(api: TestClient, led: Planned) -> Planned:
    """An hourly job whose past is decided on."""
    assert api.post("/api/v1/jobs", json={"job_id": "a.job", "task": "t", "schedule": HOURLY}).status_code == 201
    led.plan()
    return led


def asked(
    api: TestClient, led: Planned, hours_ago: int, until: int = 0, status: int = 202, **more: Any
) -> dict[str, Any]:
    body = {"from": format_instant(led.at(hours_ago)), "to": format_instant(led.at(until)), **more}
    answer = api.post(BACKFILL, json=body)
    assert answer.status_code == status, answer.text
    said: dict[str, Any] = answer.json()
    return said


def runs_of(api: TestClient) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = api.get("/api/v1/runs?job_id=a.job&limit=1000").json()["items"]
    return items


def test_a_dry_run_counts_and_makes_nothing_and_then_each_occurrence_gets_a_run_of_its_time(
    api: TestClient, hourly: Planned
) -> None:
    dry = asked(api, hourly, 24, dry_run=True, status=200)
    assert (dry["occurrences"], dry["runs"], len(dry["first"]), dry["run_ids"]) == (24, 24, 10, [])
    assert dry["warnings"] == ["occurrences of the job that fall due meanwhile are skipped: its overlap rule is skip"]
    assert runs_of(api) == []

    freeze = api.post("/api/v1/freezes", json={"scope": {"jobs": ["a.job"]}, "reason": "a deploy"}).json()
    held = asked(api, hourly, 24, dry_run=True, status=200)["warnings"]
    assert held[:-1] == dry["warnings"]
    assert held[-1].startswith(f"the runs wait: held by freeze {freeze['freeze_id']} since ")
    api.post(f"/api/v1/freezes/{freeze['freeze_id']}/end")

    made = asked(api, hourly, 24)
    assert {**made, "run_ids": [], "dry_run": True} == dry
    runs = list(reversed(runs_of(api)))
    assert [run["run_id"] for run in runs] == made["run_ids"]
    assert [run["scheduled_at"] for run in runs] == [format_instant(hourly.at(hour)) for hour in range(24, 0, -1)]
    assert {run["state"] for run in runs} == {"scheduled"}
    assert {run["due_at"] > format_instant(hourly.hour) for run in runs} == {True}, "due at once"


def test_the_leader_is_told_once_it_is_in_the_database(api: TestClient, leader: AnsweringLeader) -> None:
    api.post("/api/v1/jobs", json={"job_id": "a.job", "task": "t", "schedule": HOURLY})
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z"}
    assert api.post(BACKFILL, json={**body, "dry_run": True}).json()["runs"] == 3
    made = api.post(BACKFILL, json=body).json()["run_ids"]
    leader.wait_for(RunEnqueued(tuple(made)))
    assert api.post(BACKFILL, json=body).json()["runs"] == 0
    assert [message for message in leader.told() if isinstance(message, RunEnqueued)] == [RunEnqueued(tuple(made))]


def test_asking_again_makes_nothing_and_a_failure_is_run_once_more(api: TestClient, hourly: Planned) -> None:
    first = asked(api, hourly, 3)
    again = asked(api, hourly, 3, status=200)
    assert (again["runs"], again["left_out"]["planned"], again["run_ids"]) == (0, 3, [])
    hourly.release(*first["run_ids"])
    assert asked(api, hourly, 3, status=200)["left_out"]["active"] == 3
    done, failed, cancelled = first["run_ids"]
    hourly.end(done, Event.SUCCEED, RunState.COMPLETED)
    hourly.end(failed, Event.FAIL, RunState.FAILED)
    hourly.end(cancelled, Event.CANCEL, RunState.CANCELLED)
    third = asked(api, hourly, 3)
    assert (third["runs"], third["left_out"]) == (2, {"completed": 1, "active": 0, "planned": 0})
    assert [api.get(f"/api/v1/runs/{run}").json()["retry_of"] for run in third["run_ids"]] == [failed, cancelled]
    assert asked(api, hourly, 3, status=200)["runs"] == 0


def test_of_many_who_ask_at_once_each_occurrence_gets_one_run(api: TestClient, hourly: Planned) -> None:
    body = {"from": format_instant(hourly.at(50)), "to": format_instant(hourly.at(0))}
    with ThreadPoolExecutor(4) as pool:
        answers = [answer.json() for answer in pool.map(lambda _: api.post(BACKFILL, json=body), range(4))]
    assert sum(said["runs"] for said in answers) == len(runs_of(api)) == 50
    assert [said["left_out"]["planned"] + said["runs"] for said in answers] == [50] * 4


def test_a_planned_run_that_completed_or_that_somebody_ran_again_is_left_out(
    api: TestClient, hourly: Planned, stores: Stores
) -> None:
    job = stores.jobs.get("a.job")
    runs = [new_occurrence(job, hourly.at(hour), 0, 0) for hour in (3, 2, 1)]
    hourly.plan(*runs)
    hourly.release(*(run.run_id for run in runs))
    hourly.end(runs[0].run_id, Event.SUCCEED, RunState.COMPLETED)
    for run in runs[1:]:
        hourly.end(run.run_id, Event.FAIL, RunState.FAILED)
    by_hand = api.post(f"/api/v1/runs/{runs[1].run_id}/retry").json()["run_id"]
    hourly.release(by_hand)
    hourly.end(by_hand, Event.SUCCEED, RunState.COMPLETED)
    said = asked(api, hourly, 4)
    assert said["left_out"] == {"completed": 2, "active": 0, "planned": 0}
    assert said["first"] == [format_instant(hourly.at(4)), format_instant(hourly.at(1))]


def test_what_no_leader_has_decided_on_is_left_to_it(api: TestClient, led: Planned) -> None:
    api.post("/api/v1/jobs", json={"job_id": "a.job", "task": "t", "schedule": {"kind": "cron", "expr": "* * * * * *"}})
    end = led.lease.now - led.lease.now % SECOND
    with led.database.write() as connection:  # an outage of twenty seconds
        connection.execute(update(cursors).values(materialised_until=end - 20 * SECOND))
    body = {"from": format_instant(end - 30 * SECOND), "to": format_instant(end), "dry_run": True}
    said = api.post(BACKFILL, json=body).json()
    assert (said["occurrences"], said["left_out"]["planned"]) == (30, 20)


def test_where_history_was_pruned_it_is_refused_with_the_time_that_would_do(api: TestClient, hourly: Planned) -> None:
    with hourly.database.write() as connection:
        connection.execute(update(cursors).values(pruned_until=hourly.at(2)))
    assert asked(api, hourly, 4, dry_run=True, status=200)["runs"] == 4, "the job was made after that"
    with hourly.database.write() as connection:
        connection.execute(update(jobs).values(created_at=hourly.at(9)))
    refused = asked(api, hourly, 4, status=422)
    assert refused["errors"][0]["loc"] == ["from"]
    assert format_instant(hourly.at(2)) in refused["errors"][0]["msg"]
    assert asked(api, hourly, 2)["runs"] == 2


@pytest.mark.slow
def test_a_thousand_at_once_are_one_transaction(api: TestClient, hourly: Planned, stores: Stores) -> None:
    said = asked(api, hourly, 1000)
    assert (said["runs"], len(set(said["run_ids"]))) == (1000, 1000)
    due = hourly.store.due_runs(hourly.lease.now + MINUTE, 10_000)
    assert [run.scheduled_at for run in due] == [hourly.at(hour) for hour in range(1000, 0, -1)], "a leader's order"
    refused = asked(api, hourly, 2001, 1000, status=422)
    assert refused["errors"][0]["loc"] == ["to"]
    assert "1,001 occurrences" in refused["errors"][0]["msg"]
    assert len(runs_of(api)) == 1000
    assert SqlConditions(hourly.database).waiting(hourly.lease.now + HOUR, 2000, None)[0] == [], "none is late"


def test_one_that_cannot_be_made_leaves_none_half_made(api: TestClient, hourly: Planned) -> None:
    taken = f"backfill:{format_instant(hourly.at(1))}:a.job"
    api.post("/api/v1/runs", json={"task": "t", "idempotency_key": taken})
    refused = asked(api, hourly, 3, status=409)
    assert taken in refused["detail"]
    assert runs_of(api) == []
    assert api.get("/api/v1/audit?action=job.backfill").json()["items"] == []


def test_a_paused_job_is_backfilled_and_a_deleted_one_is_not(api: TestClient, hourly: Planned) -> None:
    api.post("/api/v1/jobs/a.job/pause", json={"reason": "audit"})
    hourly.plan(planned=(("a.job", 2),))
    made = asked(api, hourly, 2)
    assert (made["runs"], made["warnings"]) == (2, [])
    hourly.release(*made["run_ids"])
    api.delete("/api/v1/jobs/a.job")
    asked(api, hourly, 5, status=404)


def test_it_is_for_operators_and_recorded(client_of: Any, settings: Settings, led: Planned) -> None:
    api = client_of(guarded_settings(settings))
    operator, viewer = bearer("operator"), bearer("viewer")
    api.post("/api/v1/jobs", json={"job_id": "a.job", "task": "t", "schedule": HOURLY}, headers=operator)
    led.plan()
    body = {"from": format_instant(led.at(3)), "to": format_instant(led.at(0))}
    assert api.post(BACKFILL, json=body, headers=viewer).status_code == 403
    made = api.post(BACKFILL, json=body, headers=operator).json()
    (entry,) = api.get("/api/v1/audit?action=job.backfill", headers=operator).json()["items"]
    assert (entry["subject"], entry["after"]) == ("a.job", {"run_ids": made["run_ids"]})


@pytest.mark.slow
def test_its_runs_are_named_where_an_occurrence_is_explained_and_contradict_nothing(
    api: TestClient, hourly: Planned
) -> None:
    made = asked(api, hourly, 2)
    first, second = made["run_ids"]
    hourly.release(first)
    hourly.end(first, Event.SUCCEED, RunState.COMPLETED)
    why = api.get("/api/v1/jobs/a.job/explain", params={"at": format_instant(hourly.at(2))}).json()
    assert why["verdict"] == "never_due", "by the schedule it was not: the job was made later"
    assert f"It was requested manually later, as run {first}, which is completed." in why["text"]
    told = api.get(f"/api/v1/runs/{second}/explain").json()["text"]
    assert f"requested manually, as job a.job, for {format_instant(hourly.at(1))}" in told
    assert list(findings(hourly.database)) == []
