"""Calendars over HTTP: defined, shown with their days and versions, deleted; named by jobs."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import SECOND, parse_instant

CALENDARS = "/api/v1/calendars"
PLANT: dict[str, Any] = {
    "timezone": "Europe/Berlin",
    "rules": [
        {"from": "2026-12-24", "until": "2027-01-02", "name": "closed"},
        {"weekly": [{"days": ["sun"], "from": "02:00", "until": "04:00"}], "name": "maintenance"},
    ],
    "description": "the plant",
}
MORE = {**PLANT, "rules": [*PLANT["rules"], {"date": "2026-05-01", "name": "Labour Day"}]}
JOB = {"task": "billing.close", "schedule": {"kind": "hourly", "minute": 5}, "calendars": {"exclude": ["plant"]}}


def test_a_calendar_is_defined_edited_shown_and_deleted(api: TestClient) -> None:
    put = api.put(f"{CALENDARS}/plant", json=PLANT)
    assert put.status_code == 200, put.text
    body = put.json()
    assert body == {
        "calendar_id": "plant", **PLANT, "version": 1, "effective_from": body["created_at"], "known_until": None,
        "created_at": body["created_at"], "updated_at": body["created_at"], "feeds": [],
    }  # fmt: skip
    edited = api.put(f"{CALENDARS}/plant", json=MORE).json()
    begins, at = (parse_instant(edited[name]) for name in ("effective_from", "updated_at"))
    assert (edited["version"], begins - at) == (2, 30 * SECOND)
    assert api.get(f"{CALENDARS}/plant").json() == edited
    assert api.put(f"{CALENDARS}/plant", json=MORE).json() == edited, "the same again makes no version"
    assert api.get(f"{CALENDARS}?limit=1").json()["items"] == [{k: v for k, v in edited.items() if k != "feeds"}]
    versions = api.get(f"{CALENDARS}/plant/versions").json()["items"]
    assert [(one["version"], one["rules"] == MORE["rules"]) for one in versions] == [(2, True), (1, False)]
    assert {one["actor"] for one in versions} == {body["actor"] for body in api.get("/api/v1/audit").json()["items"]}
    days = {one["date"]: one for one in api.get(f"{CALENDARS}/plant/days?year=2026").json()["days"]}
    assert days["2026-05-01"] == {"date": "2026-05-01", "whole": True, "names": ["Labour Day"]}
    assert days["2026-12-27"] == {"date": "2026-12-27", "whole": True, "names": ["closed", "maintenance"]}
    assert not days["2026-12-20"]["whole"]
    assert api.delete(f"{CALENDARS}/plant").status_code == 204
    assert api.get(f"{CALENDARS}/plant").status_code == 404
    actions = [entry["action"] for entry in api.get("/api/v1/audit?subject=plant").json()["items"]]
    assert actions == ["calendar.delete", "calendar.put", "calendar.put"]


def test_wrong_values_are_named_by_their_place(api: TestClient) -> None:
    wrong = {"timezone": "Mars", "rules": [{"date": "2026-05-01"}, {"from": "2026-05-02"}, {}], "colour": "red"}
    answer = api.put(f"{CALENDARS}/plant", json=wrong)
    assert answer.status_code == 422
    named = {".".join(map(str, error["loc"])) for error in answer.json()["errors"]}
    assert {"timezone", "rules.1.until", "rules.2", "colour"} <= named
    assert api.put(f"{CALENDARS}/a:b", json=PLANT).json()["errors"][0]["loc"] == ["calendar_id"]
    for unknown in ("plant", "a:b"):
        for path in ("", "/days?year=2026", "/versions", "/jobs"):
            assert api.get(f"{CALENDARS}/{unknown}{path}").status_code == 404
        assert api.delete(f"{CALENDARS}/{unknown}").status_code == 404


def test_an_edit_is_previewed_by_the_times_of_its_jobs(api: TestClient) -> None:
    api.put(f"{CALENDARS}/plant", json=PLANT)
    api.put("/api/v1/jobs/billing.close", json=JOB)
    api.put("/api/v1/jobs/other", json={**JOB, "calendars": None})
    same = api.post(f"{CALENDARS}/plant/preview", json=PLANT).json()
    assert same == {"jobs": [], "checked": 1, "more": False}
    never = {**PLANT, "rules": [{"from": "2000-01-01", "until": "2200-01-01"}]}
    (job,) = api.post(f"{CALENDARS}/plant/preview", json=never).json()["jobs"]
    assert (job["job_id"], len(job["before"]), job["after"]) == ("billing.close", 5, [])
    assert api.get(f"{CALENDARS}/plant").json()["version"] == 1, "nothing is changed"
    assert api.post(f"{CALENDARS}/plant/preview", json={"rules": 3}).status_code == 422


def test_jobs_name_calendars_that_exist_and_keep_them(api: TestClient) -> None:
    refused = api.put("/api/v1/jobs/billing.close", json=JOB)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == ["calendars", "exclude", "0"]
    api.put(f"{CALENDARS}/plant", json=PLANT)
    assert api.put("/api/v1/jobs/billing.close", json=JOB).status_code == 201
    assert api.get(f"{CALENDARS}/plant/jobs").json() == {"items": ["billing.close"], "next_cursor": None}
    kept = api.delete(f"{CALENDARS}/plant")
    assert (kept.status_code, kept.json()["type"].rpartition(":")[2]) == (409, "calendar-in-use")
    assert "billing.close" in kept.json()["detail"]
    api.delete("/api/v1/jobs/billing.close")
    assert api.delete(f"{CALENDARS}/plant").status_code == 204


@pytest.mark.slow
def test_holidays_and_files_are_written_out_and_their_state_is_shown(api: TestClient) -> None:
    file = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:20261224\nEND:VEVENT\nEND:VCALENDAR\n"
    rules = [{"holidays": "DE"}, {"ics": {"text": file}, "name": "Office"}]
    put = api.put(f"{CALENDARS}/de", json={"rules": rules})
    assert put.status_code == 200, put.text
    body = put.json()
    assert body["known_until"] > "2028"
    (own,) = body["feeds"]
    assert (own["url"], own["error"]) == (None, None)
    days = {one["date"]: one["names"] for one in api.get(f"{CALENDARS}/de/days?year=2026").json()["days"]}
    assert (days["2026-10-03"], days["2026-12-24"]) == (["German Unity Day"], ["Office"])
    wrong = [{"holidays": "DX"}, {"ics": {"text": "nothing"}}, {"ics": {"url": "http://127.0.0.1:1/a"}}]
    answer = api.put(f"{CALENDARS}/de", json={"rules": wrong})
    assert answer.status_code == 422
    named = {".".join(map(str, error["loc"])): error["msg"] for error in answer.json()["errors"]}
    assert {"rules.0.holidays", "rules.1.ics", "rules.2.ics.url"} == named.keys()
    assert "ITINERARY_NOTIFY_ALLOW_PRIVATE" in named["rules.2.ics.url"]
    assert api.get(f"{CALENDARS}/de").json() == body


SATURDAYS = {"task": "t", "schedule": {"kind": "cron", "expr": "0 9 * * *", "timezone": "Europe/Berlin"}}


def test_the_preview_of_a_schedule_that_is_not_saved_names_the_calendars(api: TestClient) -> None:
    api.put(f"{CALENDARS}/ever", json={"rules": [{"from": "0001-01-01", "until": "9999-12-31"}]})
    asked = {"schedule": {"kind": "cron", "expr": "0 9 * * *"}, "calendars": {"exclude": ["ever"]}}
    shown = api.post("/api/v1/preview", json=asked).json()
    assert shown["text"] == "At 09:00 (UTC), except in ever"
    assert shown["warnings"][0].startswith("there will be no run in five years")


def test_previews_and_explanations_name_the_calendar_and_its_rule(api: TestClient) -> None:
    weekend = {"timezone": "Europe/Berlin", "rules": [{"weekly": [{"days": ["sat", "sun"]}], "name": "weekend"}]}
    assert api.put(f"{CALENDARS}/free", json=weekend).status_code == 200
    jobs = "/api/v1/jobs"
    for job_id, when in (("skips", "skip"), ("moves", "next_day")):
        body = {**SATURDAYS, "calendars": {"exclude": ["free"], "when_excluded": when}}
        assert api.put(f"{jobs}/{job_id}", json=body).status_code == 201
    monday = {"from": "2035-06-01T12:00:00Z", "count": "1"}  # a Friday
    (skips, moves) = (api.get(f"{jobs}/{job_id}/preview", params=monday).json() for job_id in ("skips", "moves"))
    assert skips["text"].endswith("(Europe/Berlin), except in free")
    assert [one["local"] for one in skips["occurrences"]] == ["2035-06-04T09:00:00"]
    assert [(one["local"], one["because"], one["moved_to"]) for one in skips["left_out"]] == [
        ("2035-06-02T09:00:00", "in calendar free (weekend)", None),
    ]
    assert [one["day"] for one in moves["occurrences"][0]["stands_for"]] == ["2035-06-02", "2035-06-03"]
    assert moves["left_out"][0]["moved_to"] == "2035-06-04"
    explained = api.get(f"{jobs}/moves/explain", params={"at": "2035-06-02T07:00:00Z"}).json()
    assert (explained["verdict"], "Its day moved to Monday, 2035-06-04." in explained["text"]) == ("closed", True)
    explained = api.get(f"{jobs}/moves/explain", params={"at": "2035-06-04T07:00:00Z"}).json()
    assert "It stands for Saturday, 2035-06-02, which" in explained["text"]


def test_a_job_to_which_its_calendars_leave_nothing_is_refused_once_it_changes(api: TestClient) -> None:
    assert api.put(f"{CALENDARS}/all", json={"rules": [{"date": "2026-05-01"}]}).status_code == 200
    job = {**JOB, "calendars": {"exclude": ["all"]}}
    assert api.put("/api/v1/jobs/closed", json=job).status_code == 201
    assert api.put(f"{CALENDARS}/all", json={"rules": [{"weekly": [{"days": "mon-sun"}]}]}).status_code == 200
    assert api.patch("/api/v1/jobs/closed", json={"title": "still there"}).status_code == 200
    assert api.post("/api/v1/jobs/closed/pause", json={}).status_code == 200
    changed = api.patch("/api/v1/jobs/closed", json={"schedule": {"minute": 6}})
    assert changed.status_code == 422
    assert (changed.json()["errors"][0]["loc"], "five years" in changed.text) == (["calendars"], True)
    planned = api.post("/api/v1/jobs/apply", json={"source": "s", "jobs": [{"job_id": "a", **job}], "dry_run": True})
    assert planned.status_code == 422, planned.text
    assert planned.json()["errors"][0]["loc"] == ["jobs", "0", "calendars"]


def test_a_backfill_goes_by_the_present_calendars_and_says_so(api: TestClient) -> None:
    rules = [{"from": "2020-03-02", "until": "2020-03-03", "name": "closed"}]
    assert api.put(f"{CALENDARS}/free", json={"rules": rules}).status_code == 200
    job = {"task": "t", "schedule": {"kind": "cron", "expr": "0 9 * * *"}, "calendars": {"exclude": ["free"]}}
    assert api.put("/api/v1/jobs/daily", json=job).status_code == 201
    body = {"from": "2020-03-01T00:00:00Z", "to": "2020-03-06T00:00:00Z", "dry_run": True}
    plan = api.post("/api/v1/jobs/daily/backfill", json=body).json()
    assert plan["first"] == [f"2020-03-0{day}T09:00:00Z" for day in (1, 4, 5)]
    assert plan["warnings"][0].startswith("its days are those that its calendars (free) leave it now")
