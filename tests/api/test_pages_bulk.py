"""Lists that are acted on in bulk: columns, presets, typed times; preview, beginning, result and undo on pages."""

import html
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import format_instant, parse_instant
from scheduler_service.api.pages.reader_zone import _SHOWN, ReaderZone
from scheduler_service.api.pages.typed_times import read_typed_time
from tests.support.forms import submit

LATER = "2999-01-01T00:00:00Z"
NOW = parse_instant("2026-12-01T10:30:00Z")


@pytest.fixture
def jobs(api: TestClient, job: dict[str, Any]) -> None:
    for name in ("a", "b", "c"):
        api.post("/api/v1/jobs", json={**job, "job_id": f"job.{name}", "tags": [] if name == "c" else ["night"]})


def orders(page: str) -> dict[str, str]:
    """The hidden fields of the form that begins."""
    form = page[page.index('action="/bulk"') :]
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in fields if name != "csrf"}


def test_all_that_a_filter_finds_is_previewed_begun_and_undone(api: TestClient, jobs: None) -> None:
    listed = api.get("/jobs?tag=night")
    assert "all 2 that match" in listed.text
    seen = api.get("/bulk/new?on=jobs&action=pause&scope=all&tag=night&reason=audit")
    assert (seen.status_code, "Pause: 2 jobs" in seen.text) == (200, True)
    assert api.get("/api/v1/bulk").json()["items"] == []
    fields = orders(seen.text)
    began = submit(api, "/bulk", **fields).headers["location"]
    assert submit(api, "/bulk", **fields).headers["location"] == began, "sent twice, begun once"
    paused = api.get("/api/v1/jobs?paused=true").json()["items"]
    assert [(one["job_id"], one["pause_reason"]) for one in paused] == [("job.a", "audit"), ("job.b", "audit")]
    shown = api.get(began)
    assert "Begun." in shown.text
    assert "/jobs?tag=night" in shown.text
    undo = submit(api, f"{began.partition('?')[0]}/undo").headers["location"]
    assert "as before" in api.get(undo).text
    assert api.get("/api/v1/jobs?paused=true").json()["items"] == []
    assert "undone" in api.get("/bulk").text


def test_ticked_rows_are_those_that_are_changed(api: TestClient, jobs: None) -> None:
    seen = api.get("/bulk/new?on=jobs&action=move&scope=ticked&id=job.a&id=job.c&tag=night")
    assert "name the queue to move to" in seen.text.lower()
    assert (seen.status_code, 'name="id" value="job.c"' in seen.text) == (422, True)
    seen = api.get("/bulk/new?on=jobs&action=move&scope=ticked&id=job.a&id=job.c&tag=night&into=slow")
    submit(api, "/bulk", **orders(seen.text))
    queues = {one["job_id"]: one["queue"] for one in api.get("/api/v1/jobs").json()["items"]}
    assert queues == {"job.a": "slow", "job.b": "default", "job.c": "slow"}
    nothing = api.get("/bulk/new?on=jobs&action=move&scope=ticked&into=slow")
    assert (nothing.status_code, "tick some rows" in nothing.text.lower()) == (422, True)


def test_runs_are_cancelled_from_their_list(api: TestClient) -> None:
    for queue in ("mail", "mail", "other"):
        api.post("/api/v1/runs", json={"task": "t", "queue": queue, "run_at": LATER})
    seen = api.get("/bulk/new?on=runs&action=cancel&scope=all&queue=mail&since=now")
    assert "scheduled" in seen.text
    submit(api, "/bulk", **orders(seen.text))
    runs = api.get("/api/v1/runs").json()["items"]
    assert sorted((run["queue"], run["state"]) for run in runs) == [
        ("mail", "cancelled"), ("mail", "cancelled"), ("other", "scheduled"),
    ]  # fmt: skip
    assert submit(api, "/bulk", on="runs", order="[]").status_code == 422
    assert submit(api, "/bulk", on="runs", order='{"action": "cancel", "filter": {}}').status_code == 422
    assert api.get("/bulk/new?on=runs&action=pause").status_code == 422


def test_runs_are_moved_and_deleted_from_their_list(api: TestClient) -> None:
    for _ in range(2):
        run_id = api.post("/api/v1/runs", json={"task": "t", "queue": "mail", "run_at": LATER}).json()["run_id"]
    seen = api.get("/bulk/new?on=runs&action=move&scope=all&queue=mail&into=mail2")
    assert "Move to a queue: 2 runs" in seen.text
    began = submit(api, "/bulk", **orders(seen.text)).headers["location"]
    assert "Move to a queue mail2" in api.get(began).text
    assert {run["queue"] for run in api.get("/api/v1/runs").json()["items"]} == {"mail2"}
    api.post(f"/api/v1/runs/{run_id}/cancel")
    seen = api.get("/bulk/new?on=runs&action=delete&scope=all&queue=mail2")
    assert (seen.status_code, "name the states to delete" in seen.text.lower()) == (422, True)
    seen = api.get(f"/bulk/new?on=runs&action=delete&scope=ticked&id={run_id}")
    assert "This cannot be undone" in seen.text
    assert "<td>deleted</td>" in seen.text
    submit(api, "/bulk", **orders(seen.text))
    assert [run["state"] for run in api.get("/api/v1/runs").json()["items"]] == ["scheduled"]
    again = api.get(f"/bulk/new?on=runs&action=retry&scope=ticked&id={run_id}")
    assert again.status_code == 200, "ticked rows need no states"


def test_columns_are_in_the_address_and_stay_with_the_filter(api: TestClient, jobs: None) -> None:
    page = api.get("/jobs?tag=night&col=task&col=queue").text
    assert '<th scope="col">Queue</th>' in page
    usual = api.get("/jobs").text
    for name in ("Took (median)", "Took (p95)"):  # as on the pages of a job
        assert name in usual
        assert name in api.get("/jobs/job.a").text
    assert "Last 30 runs</th>" not in page
    assert '<input type="hidden" name="col" value="task">' in page
    assert 'name="tag" value="night"' in page
    wrong = api.get("/jobs?col=colour")
    assert (wrong.status_code, "choose from schedule, next" in wrong.text.lower()) == (422, True)
    api.post("/api/v1/runs", json={"task": "t", "run_at": LATER})
    assert 'data-label="Queue"' in api.get("/runs?col=queue").text


def test_presets_are_addresses(api: TestClient) -> None:
    api.post("/api/v1/runs", json={"task": "t", "run_at": LATER})
    page = api.get("/runs?state=scheduled&state=retrying").text
    assert 'href="/runs?state=scheduled&amp;state=retrying" aria-current="page"' in page
    assert api.get("/runs?since=1h&until=now").status_code == 200
    assert api.get("/bulk/new?on=runs&action=cancel&scope=all&since=999999d").status_code == 422


@pytest.mark.parametrize(("text", "zone", "read"), [
    ("now", "UTC", "2026-12-01T10:30:00Z"), ("2h", "UTC", "2026-12-01T08:30:00Z"),
    ("90 min", "UTC", None), ("2h ago", "UTC", "2026-12-01T08:30:00Z"),
    ("16:00", "UTC", "2026-12-01T16:00:00Z"), ("9:05", "Europe/Berlin", "2026-12-01T08:05:00Z"),
    ("today", "Europe/Berlin", "2026-11-30T23:00:00Z"), ("Yesterday", "UTC", "2026-11-30T00:00:00Z"),
    ("tomorrow", "Pacific/Kiritimati", "2026-12-02T10:00:00Z"),
    ("2026-11-30 12:00", "Europe/Berlin", "2026-11-30T11:00:00Z"), ("sometime", "UTC", None),
    ("999999d", "UTC", None),
])  # fmt: skip
def test_times_are_read_as_people_type_them(text: str, zone: str, read: str | None) -> None:
    token = _SHOWN.set(ReaderZone(zone, zone, None, zone))
    try:
        if read is None:
            with pytest.raises(BadValue, match="16:00, yesterday, 2h"):
                read_typed_time(text, "since", NOW)
        else:
            assert format_instant(read_typed_time(text, "since", NOW)) == read
    finally:
        _SHOWN.reset(token)


def test_runs_are_listed_and_chosen_by_task_and_limit(api: TestClient, limits: None) -> None:
    for task, use in (("a.task", {"name": "tenant", "key": "acme"}), ("b.task", "api")):
        api.post("/api/v1/runs", json={"task": task, "limits": [use], "run_at": LATER})
    page = api.get("/runs?limit_name=tenant&limit_key=acme&col=task")
    assert "a.task" in page.text
    assert "b.task" not in page.text
    assert '"limit_key" value="acme"' in page.text
    listed = api.get("/api/v1/runs?task=b.task&limit_name=api&total=true").json()
    assert ([run["task"] for run in listed["items"]], listed["total"]) == (["b.task"], 1)
    seen = api.get("/bulk/new?on=runs&action=cancel&scope=all&limit_key=acme")
    submit(api, "/bulk", **orders(seen.text))
    states = {run["task"]: run["state"] for run in api.get("/api/v1/runs").json()["items"]}
    assert states == {"a.task": "cancelled", "b.task": "scheduled"}
