"""Downloads of lists: everything that matches, page by page, and no cell that a spreadsheet carries out."""

import csv
import io
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from scheduler_service.api.services import exports

LATER = "2999-01-01T00:00:00Z"
FORMULA = '=HYPERLINK("http://x")'


@pytest.fixture
def runs(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Seven runs, read in pages of three."""
    monkeypatch.setattr(exports, "AT_ONCE", 3)
    made = []
    for number in range(7):
        run = {"task": f"task.{number % 2}", "run_at": LATER, "kwargs": {"password": "hidden"}}
        made.append(api.post("/api/v1/runs", json=run).json()["run_id"])
    return made[::-1]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("path", ["/api/v1/exports/runs", "/download/runs"])
def test_a_download_has_all_that_matches(api: TestClient, runs: list[str], path: str) -> None:
    answer = api.get(path)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="runs.csv"'
    assert [row["run_id"] for row in table(answer.text)] == runs
    assert [row["task"] for row in table(api.get(f"{path}?task=task.1").text)] == ["task.1"] * 3
    whole = api.get(f"{path}?format=json")
    assert [run["run_id"] for run in json.loads(whole.text)] == runs
    assert "hidden" not in whole.text
    assert json.loads(api.get(f"{path}?format=json&queue=none").text) == []
    assert table(api.get(f"{path}?queue=none").text) == []


def test_no_cell_is_a_formula(api: TestClient, job: dict[str, Any]) -> None:
    for number, title in enumerate((FORMULA, "+1", "-1", "@x", "\tx", "fine")):
        api.post("/api/v1/jobs", json={**job, "job_id": f"j{number}", "title": title, "tags": ["a,b"]})
    rows = table(api.get("/api/v1/exports/jobs").text)
    assert [row["title"][0] for row in rows] == ["'", "'", "'", "'", "'", "f"]
    assert rows[0]["title"] == f"'{FORMULA}"
    assert json.loads(rows[0]["tags"]) == ["a,b"]
    assert json.loads(api.get("/api/v1/exports/jobs?format=json").text)[0]["title"] == FORMULA
    assert "/download/jobs?tag=a%2Cb&amp;format=csv" in api.get("/jobs?tag=a,b").text


@pytest.mark.parametrize("address", [
    "/api/v1/exports/runs?state=lost", "/api/v1/exports/runs?format=xls", "/api/v1/exports/runs?since=1h",
    "/api/v1/exports/jobs?colour=red", "/download/runs?since=soon", "/download/jobs?paused=maybe",
])  # fmt: skip
def test_what_is_wrong_is_refused_before_the_first_byte(api: TestClient, address: str) -> None:
    assert api.get(address).status_code == 422
