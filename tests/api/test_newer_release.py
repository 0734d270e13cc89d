"""Jobs that a newer release stored, met by this one: what it does not know is kept, named, and never half read."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from itinerary.protocol.instants import SECOND
from itinerary.protocol.run_fields import RetryPolicy
from scheduler_service.cli.job_checks import JobsRefused, check_jobs
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.fields import unread_retry
from scheduler_service.sql.database import Database
from scheduler_service.sql.tables import job_versions, jobs
from tests.support.forms import as_shown, submit

JOB = "/api/v1/jobs/a.job"


class Stored:
    """The job's definition as the database has it; set, it is what a newer release would have stored."""

    def __init__(self, settings: Settings) -> None:
        self._database = Database(settings.database_url, pool_size=1)
        self.database = self._database

    @property
    def definition(self) -> dict[str, Any]:
        with self._database.read() as connection:
            found: dict[str, Any] = connection.execute(select(jobs.c.definition)).scalar_one()
            return found

    @definition.setter
    def definition(self, definition: dict[str, Any]) -> None:
        with self._database.write() as connection:
            connection.execute(update(jobs).values(definition=definition))
            connection.execute(update(job_versions).values(definition=definition))


@pytest.fixture
def stored(api: TestClient, settings: Settings, job: dict[str, Any]) -> Stored:
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    return Stored(settings)


@pytest.fixture
def newer(stored: Stored) -> dict[str, Any]:
    """The job with fields that this release does not know, at every level."""
    known = stored.definition
    inner = {name: {**known[name], "newer": 1} for name in ("schedule", "misfire", "retry")}
    stored.definition = {**known, **inner, "owner": {"team": ["a", None]}}
    return stored.definition


UNKNOWN = ("misfire.newer", "owner", "retry.newer", "schedule.newer")


def test_what_a_newer_release_added_outlives_every_edit(api: TestClient, stored: Stored, newer: dict[str, Any]) -> None:
    seen = api.get(JOB).json()
    assert any(all(name in warning for name in UNKNOWN) for warning in seen["warnings"])
    body = {name: value for name, value in seen.items() if name not in ("next_runs", "warnings")}
    # What was read is written back: nothing changes.
    assert api.put(JOB, json=body).json()["version"] == 1
    assert api.put(JOB, json={**body, "title": "put"}).status_code == 200
    assert stored.definition == {**newer, "title": "put"}
    assert api.patch(JOB, json={"title": "patch", "retry": {"max_attempts": 2}}).status_code == 200
    patched = {**newer, "title": "patch", "retry": {**newer["retry"], "max_attempts": 2}}
    assert stored.definition == patched
    shown = as_shown(api.get("/jobs/a.job/edit").text)
    assert submit(api, "/jobs/a.job/edit", **shown).headers["location"].endswith("done=unchanged")
    assert submit(api, "/jobs/a.job/edit", **{**shown, "title": "form"}).status_code == 303
    assert stored.definition == {**patched, "title": "form"}
    assert api.post(f"{JOB}/pause", json={"reason": "why"}).status_code == 200
    assert api.post(f"{JOB}/resume").status_code == 200
    applied = {"source": "file", "jobs": [{name: body[name] for name in ("job_id", "task", "schedule")}]}
    assert api.post("/api/v1/jobs/apply", json=applied).status_code == 200
    assert stored.definition == newer
    assert api.get("/jobs/a.job").status_code == api.get("/jobs").status_code == 200
    assert api.get(f"{JOB}/preview").json()["occurrences"]
    assert api.post(f"{JOB}/trigger").status_code == 202


@pytest.mark.parametrize("change", [{"owner": None}, {"retry": {"newer": 2}}, {"schedule": {"newer": None}}])
def test_what_is_not_known_cannot_be_set_either(
    api: TestClient, stored: Stored, newer: dict[str, Any], change: dict[str, Any]
) -> None:
    assert api.patch(JOB, json=change).status_code == 422
    assert stored.definition == newer


def test_another_kind_of_schedule_takes_what_belonged_to_the_old_one_away(
    api: TestClient, stored: Stored, newer: dict[str, Any]
) -> None:
    assert api.patch(JOB, json={"schedule": {"kind": "hourly", "minute": 5}}).status_code == 200
    hourly = {"kind": "hourly", "minute": 5, "timezone": "UTC"}
    assert stored.definition == {**newer, "schedule": hourly}


def test_a_kind_that_is_not_known_is_kept_untouched_and_named(
    api: TestClient, stored: Stored, newer: dict[str, Any]
) -> None:
    lunar = {**newer, "schedule": {"kind": "lunar", "at": "2031-01-01T00:00:00Z", "timezone": "UTC"}}
    stored.definition = lunar
    for answer in (
        api.get(JOB),
        api.put(JOB, json={"task": "t", "schedule": {"kind": "hourly", "minute": 5}}),
        api.patch(JOB, json={"title": "x"}),
        api.post(f"{JOB}/pause"),
    ):
        assert answer.status_code == 409
        assert "schedule.kind" in answer.json()["detail"]
    assert api.get("/api/v1/jobs").json()["items"] == []
    assert stored.definition == lunar
    with pytest.raises(JobsRefused, match=r"not planned: a\.job, since a\.job is refused: schedule\.kind"):
        check_jobs(stored.database)


def test_doctor_names_the_fields_and_how_far_it_read(stored: Stored, newer: dict[str, Any]) -> None:
    words = check_jobs(stored.database)
    assert words.startswith("1 read; ")
    for name in UNKNOWN:
        assert f"{name} of a.job is of a newer release: kept, and without effect" in words
    assert check_jobs(stored.database, longest_s=0).startswith("the first 0 read")
    stored.definition = {name: value for name, value in newer.items() if name != "owner"}
    assert "owner" not in check_jobs(stored.database)


def test_a_stored_retry_policy_is_read_without_what_only_a_newer_release_knows() -> None:
    text = '{"max_attempts": 4, "initial": "1s", "factor": 3, "newer": {"a": 1}}'
    assert unread_retry(text) == RetryPolicy(4, SECOND, 3, unread=text)
    text = '{"max_attempts": 4, "initial": "of a newer release", "newer": 1}'
    assert unread_retry(text) == RetryPolicy(4, unread=text)
