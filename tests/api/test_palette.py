"""What the keyboard palette finds, and for whom."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.config.settings import Settings
from tests.support.answering_leader import AnsweringLeader

SECRET = "a-long-enough-secret-of-a-viewer"


def found(api: TestClient, typed: str, **headers: str) -> dict[str, str]:
    """Each place with its address."""
    answer = api.get("/parts/palette", params={"q": typed}, headers=headers)
    assert answer.status_code == 200, answer.text
    lines = re.findall(r'data-address="([^"]*)"><span>(.*?)</span> <small>(.*?)</small>', answer.text)
    return {f"{kind}: {name}": address for address, name, kind in lines}


@pytest.fixture
def filled(api: TestClient, job: dict[str, Any], leader: AnsweringLeader) -> TestClient:
    for job_id in ("mail.digest", "mail.news", "report"):
        assert api.post("/api/v1/jobs", json={**job, "job_id": job_id}).status_code == 201
    assert api.put("/api/v1/calendars/mail-free", json={"rules": [{"date": "2026-12-25"}]}).is_success
    return api


def test_each_kind_of_place_is_found(filled: TestClient) -> None:
    places = found(filled, "mail")
    assert places["Job: mail.digest"] == "/jobs/mail.digest"
    assert places["Job: mail.news"] == "/jobs/mail.news"
    assert places["Calendar: mail-free"] == "/calendars/mail-free"
    assert places["Search: Jobs with mail in id, title or task"] == "/jobs?q=mail"
    assert "Job: report" not in places
    run_id = filled.post("/api/v1/jobs/report/trigger").json()["run_id"]
    assert f"Run: {run_id}" in found(filled, run_id)
    assert found(filled, "report")["Runs: of report"] == "/runs?job_id=report"
    assert found(filled, "LIMIT")["Action: Define a limit"] == "/limits#changing"
    assert found(filled, "cron")["Manual: The cron dialect"].startswith("/manual/")
    assert "Action: Create a job" in found(filled, "")
    assert set(found(filled, "no such thing")) == {"Search: Jobs with no such thing in id, title or task"}


def test_a_letter_finds_a_few_of_many(filled: TestClient, job: dict[str, Any]) -> None:
    for n in range(9):
        filled.post("/api/v1/jobs", json={**job, "job_id": f"n{n}"})
    assert sum(name.startswith("Job: ") for name in found(filled, "n")) == 6


def test_a_limited_viewer_finds_its_own(
    filled: TestClient, settings: Settings, client_of: Callable[[Settings], TestClient]
) -> None:
    line = f"v:viewer:{hashlib.sha256(SECRET.encode()).hexdigest()}:jobs=mail.n"
    tokens = Settings(api_tokens=line).api_tokens  # type: ignore[arg-type]  # a text is read
    own = client_of(settings.model_copy(update={"api_tokens": tokens}))
    places = found(own, "mail", Authorization=f"Bearer {SECRET}")
    assert "Job: mail.news" in places
    assert not [name for name in places if name.startswith(("Job: mail.d", "Calendar", "Action"))]
