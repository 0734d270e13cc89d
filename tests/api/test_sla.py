"""What API and dashboard say of runs that missed their SLA."""

from contextlib import closing

from fastapi.testclient import TestClient

from scheduler_service.config.settings import Settings
from scheduler_service.ports.sla import Judged
from scheduler_service.sql.database import Database
from scheduler_service.sql.sla import SqlSlaStore
from tests.support.answering_leader import AnsweringLeader


def test_a_missed_sla_is_in_the_answer_the_explanation_and_on_the_overview(
    api: TestClient, settings: Settings, leader: AnsweringLeader
) -> None:
    body = {"task": "t", "run_at": "2026-11-01T00:00:00Z", "must_end_within": "1h"}
    run = api.post("/api/v1/runs", json=body).json()
    assert (run["end_by"], run["sla_missed"]) == ("2026-11-01T01:00:00Z", None)
    assert "SLA" not in api.get("/").text
    # As it is when the leader judges it, within the last day.
    run = api.post("/api/v1/runs", json={"task": "t", "must_end_within": "1s"}).json()
    with closing(Database(settings.database_url, pool_size=1)) as database:
        assert SqlSlaStore(database).judge(-60_000_000, 10) == Judged(0, 2)
    assert api.get(f"/api/v1/runs/{run['run_id']}").json()["sla_missed"] is True
    assert "It missed its SLA" in api.get(f"/api/v1/runs/{run['run_id']}/explain").json()["text"]
    page = api.get("/").text
    assert "1 run missed its SLA (must_end_within) in the last day." in page
    assert f'href="/runs/{run["run_id"]}"' in page
