"""Monitors over HTTP and on their pages: defined, pinged by their own token, shown, deleted."""

import re
from contextlib import closing
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from scheduler_service.config.settings import Settings
from scheduler_service.sql import monitor_calendars
from scheduler_service.sql.calendars import SqlCalendarStore
from scheduler_service.sql.database import Database
from scheduler_service.sql.monitor_tables import monitors
from tests.support.forms import as_shown, submit
from tests.support.statements import noted

MONITORS = "/api/v1/monitors"
BACKUP: dict[str, Any] = {
    "schedule": {"kind": "cron", "expr": "0 2 * * *", "timezone": "Europe/Berlin"}, "grace": "30m",
    "title": "Backup", "description": "of the shop",
}  # fmt: skip


def test_the_form_of_a_monitor_has_its_calendars(api: TestClient) -> None:
    for calendar_id in ("plant", "shop"):
        assert api.put(f"/api/v1/calendars/{calendar_id}", json={"rules": [{"date": "2999-01-01"}]}).is_success
    typed = {"title": "", "description": "", "schedule": "0 2 * * *", "timezone": "UTC", "grace": "5m"}
    typed |= {"calendars.exclude": "plant, shop", "calendars.only": "", "calendars.workdays": ""}
    typed |= {"calendars.when_excluded": "next_day"}
    assert submit(api, "/monitors", monitor_id="backup", **typed).status_code == 200
    named = {"exclude": ["plant", "shop"], "only": [], "when_excluded": "next_day", "workdays": None}
    assert api.get(f"{MONITORS}/backup").json()["calendars"] == named
    assert as_shown(api.get("/monitors/backup").text)["calendars.exclude"] == "plant, shop"
    wrong = submit(api, "/monitors/backup", do="save", **{**typed, "calendars.exclude": "plant, nowhere"})
    assert (wrong.status_code, 'aria-describedby="wrong-calendars.exclude"' in wrong.text) == (422, True)
    behind = api.get("/api/v1/calendars/plant/monitors", params={"cursor": "backup"}).json()
    assert behind["items"] == []
    none = {**typed, "calendars.exclude": "", "calendars.when_excluded": "skip"}
    assert submit(api, "/monitors/backup", do="save", **none).status_code == 303
    assert api.get(f"{MONITORS}/backup").json()["calendars"] is None
    assert api.delete("/api/v1/calendars/plant").status_code == 204


def test_the_monitors_of_a_calendar_are_read_by_pages(api: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_calendars, "_AT_ONCE", 2)
    for calendar_id in ("plant", "plant_2"):
        assert api.put(f"/api/v1/calendars/{calendar_id}", json={"rules": [{"date": "2999-01-01"}]}).is_success
    for number in range(9):
        named = {"calendars": {"exclude": ["plant" if number % 3 else "plant_2"]}} if number % 2 else {}
        body = {**BACKUP, "description": 'not by "plant"', **named}
        assert api.put(f"{MONITORS}/m{number}", json=body).is_success
    page = api.get("/api/v1/calendars/plant/monitors", params={"limit": 2}).json()
    assert page["items"] == ["m1", "m5"]
    rest = api.get("/api/v1/calendars/plant/monitors", params={"limit": 2, "cursor": page["next_cursor"]}).json()
    assert (rest["items"], rest["next_cursor"]) == (["m7"], None)
    assert api.get("/api/v1/calendars/plant_2/monitors").json()["items"] == ["m3"]


def test_a_calendar_s_monitors_are_cut_by_the_database(api: TestClient, settings: Settings) -> None:
    assert api.put("/api/v1/calendars/plant", json={"rules": [{"date": "2999-01-01"}]}).is_success
    for number in range(5):
        content = {**BACKUP, "calendars": {"exclude": ["plant"]}} if number == 4 else BACKUP
        assert api.put(f"{MONITORS}/m{number}", json=content).is_success
    with closing(Database(settings.database_url, pool_size=1)) as database, noted(database.engine) as statements:
        assert SqlCalendarStore(database).monitors_using("plant", 3) == ["m4"]
    (asked,) = [one for one in statements if "FROM monitors" in one]
    assert "LIMIT" in asked
    assert "LIKE" in asked


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_monitor_is_defined_pinged_shown_and_deleted(api: TestClient) -> None:
    put = api.put(f"{MONITORS}/backup", json=BACKUP)
    token = put.json()["token"]
    assert (put.status_code, put.json()["state"], put.json()["grace"]) == (201, "new", "30m")
    ping = f"{MONITORS}/backup/ping"
    assert api.post(ping, headers=bearer(token)).json()["state"] == "up"
    assert api.post(f"{ping}?token={token}&outcome=fail&duration=12s").json()["state"] == "down"
    assert api.post(f"{ping}?outcome=start", headers=bearer(token)).status_code == 200
    shown = api.get(f"{MONITORS}/backup").json()
    assert [(p["outcome"], p["duration"]) for p in shown["pings"]] == [
        ("start", None),
        ("fail", "12s"),
        ("success", None),
    ]
    assert (shown["last_outcome"], shown["last_duration"], shown["version"]) == ("start", "12s", 1)
    assert api.post(f"{ping}?token={token}&duration=0.008336s").status_code == 200
    assert "(success, 8 ms)" in api.get("/monitors/backup").text
    again = api.put(f"{MONITORS}/backup", json={**BACKUP, "paused": True})
    assert (again.status_code, again.json()["token"], again.json()["state"]) == (200, None, "paused")
    newer = api.post(f"{MONITORS}/backup/token").json()["token"]
    assert api.post(ping, headers=bearer(token)).status_code == 401
    assert api.post(ping, headers=bearer(newer)).status_code == 200
    listed = api.get(MONITORS).json()
    assert [one["monitor_id"] for one in listed["items"]] == ["backup"]
    assert token not in str(listed) + str(shown) + api.get("/api/v1/audit?subject=backup").text
    assert api.delete(f"{MONITORS}/backup").status_code == 204
    assert api.get(f"{MONITORS}/backup").status_code == 404
    actions = [entry["action"] for entry in api.get("/api/v1/audit?subject=backup").json()["items"]]
    assert actions == ["monitor.delete", "monitor.token", "monitor.put", "monitor.put"]


def test_one_that_this_release_cannot_read_hides_no_other_and_takes_its_pings(
    api: TestClient, settings: Settings
) -> None:
    token = api.put(f"{MONITORS}/backup", json=BACKUP).json()["token"]
    api.put(f"{MONITORS}/other", json=BACKUP)
    gone = {"schedule": {"kind": "cron", "expr": "0 2 * * *", "timezone": "Mars/Base"}}
    with closing(Database(settings.database_url, pool_size=1)) as database, database.write() as connection:
        connection.execute(update(monitors).where(monitors.c.monitor_id == "backup").values(definition=gone))
    assert [one["monitor_id"] for one in api.get(MONITORS).json()["items"]] == ["other"]
    refused = api.get(f"{MONITORS}/backup")
    assert (refused.status_code, "replace or delete it" in refused.json()["detail"]) == (409, True)
    shown = api.get("/monitors").text
    assert 'href="/monitors/other"' in shown
    assert "cannot be read: backup" in " ".join(shown.split())
    assert api.get("/monitors/backup", headers={"Accept": "text/html"}).status_code == 409
    pinged = api.post(f"{MONITORS}/backup/ping", headers=bearer(token))
    assert pinged.json() == {"monitor_id": "backup", "state": "up", "expected_at": None}
    assert api.put(f"{MONITORS}/backup", json=BACKUP).status_code == 200
    assert api.delete(f"{MONITORS}/backup").status_code == 204


def test_every_wrong_value_is_named_and_without_its_token_nothing_is_told(api: TestClient) -> None:
    wrong = {"grace": "0s", "schedule": {"kind": "interval", "every": "1h", "balanced": True}, "nope": 1}
    answer = api.put(f"{MONITORS}/a:b", json=wrong).json()
    assert {error["loc"][0] for error in answer["errors"]} == {"monitor_id", "grace", "nope", "schedule"}
    api.put(f"{MONITORS}/backup", json=BACKUP)
    for path in ("backup", "unknown", "a:b"):
        assert api.post(f"{MONITORS}/{path}/ping").status_code == 401
        assert api.post(f"{MONITORS}/{path}/ping?token=mon_x").status_code == 401
    assert api.post(f"{MONITORS}/backup/ping?token=x&outcome=maybe").status_code == 422


def test_the_pages_list_define_and_change_it_and_show_its_token_once(api: TestClient) -> None:
    empty = api.get("/monitors").text
    assert "There are no monitors yet" in empty
    csrf = re.search(r'name="csrf" value="([^"]+)"', empty)
    assert csrf is not None
    fields = {"csrf": csrf[1], "monitor_id": "backup", "schedule": "0 2 * * *", "timezone": "Mars/Base", "grace": "30m"}
    refused = api.post("/monitors", data=fields)
    assert refused.status_code == 422
    assert 'id="wrong-timezone"' in refused.text
    made = api.post("/monitors", data={**fields, "timezone": "Europe/Berlin"}).text
    token = re.search(r"mon_[A-Za-z0-9_-]+", made)
    assert token is not None
    assert "/api/v1/monitors/backup/ping" in made
    assert "there is a monitor of this id" in api.post("/monitors", data={**fields, "timezone": "UTC"}).text.lower()
    assert token[0] not in api.get("/monitors/backup").text
    assert api.post(f"{MONITORS}/backup/ping", headers=bearer(token[0])).status_code == 200
    assert "success" in api.get("/monitors/backup").text
    change = {**fields, "do": "save", "schedule": "1h", "timezone": "UTC", "title": "Hourly"}
    assert api.post("/monitors/backup", data=change, follow_redirects=False).status_code == 303
    assert api.get(f"{MONITORS}/backup").json()["schedule"]["every"] == "1h"
    renewed = api.post("/monitors/backup", data={"csrf": csrf[1], "do": "token"}).text
    assert token[0] not in renewed
    assert "mon_" in renewed
    api.post("/monitors/backup", data={"csrf": csrf[1], "do": "delete"})
    assert api.get("/monitors/backup").status_code == 404


def test_a_monitor_names_calendars_which_its_page_tells_and_keeps(api: TestClient) -> None:
    api.put("/api/v1/calendars/plant", json={"rules": [{"date": "2999-01-01"}]})
    named = {**BACKUP, "calendars": {"exclude": ["plant"]}}
    shown = api.put(f"{MONITORS}/backup", json=named).json()
    whole = {"exclude": ["plant"], "only": [], "when_excluded": "skip", "workdays": None}
    assert shown["calendars"] == whole
    assert api.put(f"{MONITORS}/plain", json=BACKUP).json()["calendars"] is None
    assert "except in plant, grace 30m" in api.get("/monitors/backup").text
    form = {"do": "save", "schedule": "0 3 * * *", "timezone": "UTC", "grace": "30m"}
    assert submit(api, "/monitors/backup", **form).status_code == 303
    saved = api.get(f"{MONITORS}/backup").json()
    assert (saved["schedule"]["expr"], saved["calendars"]) == ("0 3 * * *", whole)
    assert api.get("/api/v1/calendars/plant/monitors").json() == {"items": ["backup"], "next_cursor": None}
    assert '<a href="/monitors/backup">backup</a>' in api.get("/calendars/plant").text
    refused = api.put(f"{MONITORS}/other", json={**BACKUP, "calendars": {"exclude": ["nowhere"]}}).json()
    assert [error["loc"] for error in refused["errors"]] == [["calendars", "exclude", "0"]]
    in_use = api.delete("/api/v1/calendars/plant")
    assert (in_use.status_code, "named by monitor backup" in in_use.json()["detail"]) == (409, True)
    body = {"source": "s", "jobs": [], "monitors": {"sync": {**BACKUP, "calendars": {"only": ["nowhere"]}}}}
    for dry_run in (True, False):
        answer = api.post("/api/v1/jobs/apply", json={**body, "dry_run": dry_run}).json()
        assert [".".join(map(str, error["loc"])) for error in answer["errors"]] == ["monitors.sync.calendars.only.0"]
