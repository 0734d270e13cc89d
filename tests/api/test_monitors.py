"""Monitors over HTTP and on their pages: defined, pinged by their own token, shown, deleted."""

import re
from contextlib import closing
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import update

from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import Database
from scheduler_service.sql.monitor_tables import monitors

MONITORS = "/api/v1/monitors"
BACKUP: dict[str, Any] = {
    "schedule": {"kind": "cron", "expr": "0 2 * * *", "timezone": "Europe/Berlin"}, "grace": "30m",
    "title": "Backup", "description": "of the shop",
}  # fmt: skip


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
