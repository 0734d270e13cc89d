"""Zone rules over HTTP and on the command line: what is in force, and which jobs other rules would move."""

import json
import zipfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.core.schedules.zone_sets import ZoneSet, installed_set
from tests.support.command_line import Itinerary
from tests.support.tz_files import zone_file_of

pytestmark = pytest.mark.slow  # real processes, or many round trips
ZONE = "America/Winnipeg"
FIVE_BEHIND = zone_file_of(-7 * 3600)


def job(job_id: str, expr: str, zone: str = ZONE) -> dict[str, object]:
    return {"job_id": job_id, "task": "t", "schedule": {"kind": "cron", "expr": expr, "timezone": zone}}


def moved_winnipeg() -> dict[str, str]:
    rules = ZoneSet("2099b", {**installed_set().files, ZONE: FIVE_BEHIND})
    return {"version": rules.version, "files": rules.packed()}


def test_the_jobs_that_other_files_would_move_are_listed_by_id_and_bounded(api: TestClient) -> None:
    elsewhere = job("c", "0 9 * * *", "Europe/Berlin")
    for body in (job("b", "0 9 * * *"), job("a", "30 6 * * 1"), elsewhere, job("d", "* * * * *")):
        assert api.post("/api/v1/jobs", json=body).status_code == 201
    seen = api.post("/api/v1/zones/diff", json={"to": moved_winnipeg(), "days": 30}).json()
    assert [zone["timezone"] for zone in seen["zones"]] == [ZONE]
    assert [(one["job_id"], one["before"][11:], one["after"][11:]) for one in seen["jobs"]] == [
        ("a", "11:30:00Z", "13:30:00Z"), ("b", "14:00:00Z", "16:00:00Z"),
    ]  # fmt: skip
    assert (seen["from"], seen["to"], seen["same"]) == (installed_rules().version, "2099b", False)
    assert (seen["changed"], seen["compared"], seen["unchecked"]) == (2, 4, 0)
    less = api.post("/api/v1/zones/diff", json={"to": moved_winnipeg(), "limit": 1}).json()
    assert ([one["job_id"] for one in less["jobs"]], less["changed"]) == (["a"], 2)


def test_a_job_that_ends_before_it_would_move_is_not_listed_and_one_that_begins_later_by_its_first_time(
    api: TestClient,
) -> None:
    ends = job("ends", "0 9 * * *") | {"end_at": "2020-01-01T00:00:00Z"}
    later = job("later", "0 9 * * *") | {"start_at": "2027-06-01T00:00:00Z"}
    for body in (ends, later):
        assert api.post("/api/v1/jobs", json=body).status_code == 201
    (moved,) = api.post("/api/v1/zones/diff", json={"to": moved_winnipeg()}).json()["jobs"]
    assert (moved["job_id"], moved["before"]) == ("later", "2027-06-01T14:00:00Z")


def test_rules_in_force_beside_those_of_the_host_are_the_same(api: TestClient) -> None:
    assert api.post("/api/v1/zones/diff").json()["same"] is True
    seen = api.get("/api/v1/zones").json()
    assert seen["version"] == seen["installed"] == installed_rules().version
    assert (seen["digest"], seen["difference"], seen["adopted"]) == (seen["installed_digest"], None, [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"from": "before"}, "from"), ({"to": "newest"}, "to"), ({"to": {"version": "x"}}, "to"),
        ({"to": {"version": "x", "files": "!"}}, "to.files"), ({"days": 0}, "days"), ({"limit": True}, "limit"),
        ({"until": 1}, "until"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_by_its_field(api: TestClient, body: dict[str, object], field: str) -> None:
    answer = api.post("/api/v1/zones/diff", json=body)
    assert answer.status_code == 422
    assert [".".join(error["loc"]) for error in answer.json()["errors"]] == [field]


def test_the_command_line_compares_with_a_folder_and_with_a_wheel(itinerary: Itinerary, tmp_path: Path) -> None:
    assert itinerary("jobs", "add", "nine", "-f", "-", stdin=json.dumps(job("nine", "0 9 * * *"))).returncode == 0
    folder = tmp_path / "zoneinfo"
    with zipfile.ZipFile(tmp_path / "tzdata-2099.2.whl", "w") as wheel:
        for name, content in {"UTC": zone_file_of(0), ZONE: FIVE_BEHIND, "+VERSION": b"2099b\n"}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
            wheel.writestr(f"tzdata/zoneinfo/{name}", content)
    for place in (tmp_path, tmp_path / "tzdata-2099.2.whl"):
        said = itinerary("zones", "diff", "--to", str(place))
        assert "to 2099b: 1 of 1 jobs change" in said.stdout
        assert "later by 2h" in said.stdout
    assert "the same files" in itinerary("zones", "diff").stdout
    assert installed_rules().version in itinerary("zones", "show").stdout
    refused = itinerary("zones", "diff", "--to", str(tmp_path / "nowhere"))
    assert (refused.returncode, "--to" in refused.stderr) == (2, True)
