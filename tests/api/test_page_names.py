"""One name for each page: in the navigation, the title, the heading and the manual; and the way back from sub-pages."""

import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import scheduler_service
from scheduler_service.api.pages.shell import NAVIGATION

OWN_FRAME = ("/docs", "/flower", "/manual")
PAGES = [(path, name) for _, pages in NAVIGATION for path, name in pages if path not in OWN_FRAME]
MANUAL = Path(scheduler_service.__file__).parent / "manual" / "dashboard.md"


@pytest.mark.parametrize(("path", "name"), PAGES)
def test_a_page_has_one_name(api: TestClient, path: str, name: str) -> None:
    page = api.get(path).text
    assert re.search(rf"<title>{name}(, [^<]*)? · Itinerary</title>", page)
    assert re.search(rf"<h1[^>]*>{name}[<\s]", page)
    assert re.search(rf"^\| {name} `{re.escape(path)}[`?]", MANUAL.read_text("utf-8"), re.MULTILINE)


def test_sub_pages_lead_back_to_a_page_of_the_navigation(api: TestClient, job: dict[str, Any]) -> None:
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    plant = {"timezone": "UTC", "rules": [{"weekly": [{"days": ["sun"]}]}]}
    assert api.put("/api/v1/calendars/plant", json=plant).status_code == 200
    schedule = {"kind": "cron", "expr": "0 2 * * *"}
    assert api.put("/api/v1/monitors/backup", json={"schedule": schedule, "grace": "30m"}).status_code in (200, 201)
    run_id = api.post("/api/v1/jobs/a.job/trigger").json()["run_id"]
    adhoc = api.post("/api/v1/runs", json={"task": "pkg.task"}).json()["run_id"]
    ways = {
        "/jobs/a.job": ["/jobs"], "/new-job": ["/jobs"], "/jobs/a.job/edit": ["/jobs", "/jobs/a.job"],
        "/jobs/a.job/backfill": ["/jobs", "/jobs/a.job"], f"/runs/{run_id}": ["/runs", "/runs?job_id=a.job"],
        f"/runs/{adhoc}": ["/runs"], f"/runs/{adhoc}/logs": ["/runs", f"/runs/{adhoc}"],
        f"/runs/{adhoc}/again": ["/runs", f"/runs/{adhoc}"], "/queues/default": ["/queues"],
        "/calendars/plant": ["/calendars"], "/monitors/backup": ["/monitors"],
        "/failures/runs?within=7d&task=pkg.task&state=failed": ["/failures?within=7d"],
    }  # fmt: skip
    for path, back in ways.items():
        answer = api.get(path)
        assert answer.status_code == 200, path
        (crumbs,) = re.findall(r'<nav class="crumbs".*?</nav>', answer.text)
        assert re.findall(r'href="([^"]*)"', crumbs) == back, path
        assert crumbs in api.get(path, headers={"hx-request": "true"}).text or path.endswith("/logs"), path
