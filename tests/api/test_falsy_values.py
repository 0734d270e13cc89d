"""Values that are only falsy: of a wrong type they are refused, wherever a request may hold them."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema_rs import validator_for

from tests.support.answering_leader import AnsweringLeader
from tests.support.api_calls import DOCUMENT
from tests.support.routes import address_of

FALSY: tuple[Any, ...] = ("", {}, [], 0, False)
COMPONENTS = DOCUMENT["components"]
SHARED = "/api/v1/share-links"  # off where nobody turned it on, whatever is asked
NESTED = {
    "misfire": {"policy": "skip", "grace": "1s", "max_catch_up": 1},
    "retry": {"max_attempts": 1, "initial": "1s", "factor": 1, "max": "1s", "jitter": True},
}


def bodies() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Method, path, schema and an example of each request that has a body."""
    for path, calls in DOCUMENT["paths"].items():
        for method, call in calls.items():
            if "requestBody" in call and path != SHARED:
                ref = call["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                name = ref.rpartition("/")[2]
                yield method, path, name, COMPONENTS["schemas"][name]["examples"][0]


def variants(name: str, example: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The example with one value replaced, at the top or in one of its objects, where the document refuses that."""
    validator = validator_for({"$ref": f"#/components/schemas/{name}", "components": COMPONENTS})
    fields = COMPONENTS["schemas"][name]["properties"]
    whole = {**example, **{key: value for key, value in NESTED.items() if key in fields}}
    assert validator.is_valid(whole), (name, whole)
    for wrong in FALSY:
        changed = [{**whole, field: wrong} for field in fields]
        for key, value in whole.items():
            if isinstance(value, dict) and key not in ("kwargs", "args"):
                changed += [{**whole, key: {**value, inner: wrong}} for inner in value]
        yield from (body for body in changed if not validator.is_valid(body))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize(
    ("method", "path", "name", "example"),
    [pytest.param(*call, marks=[] if call[2] == "JobIn" else pytest.mark.slow) for call in bodies()],
    ids=lambda value: str(value)[:40],
)
def test_a_falsy_value_of_a_wrong_type_is_422(
    api: TestClient, job: dict[str, Any], leader: AnsweringLeader,
    method: str, path: str, name: str, example: dict[str, Any],
) -> None:  # fmt: skip
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    made = [api.post("/api/v1/runs", json={"task": "t"}).json()["run_id"]] if "{run_id}" in path else []
    address = address_of(path.replace("{run_id}", made[0]) if made else path)
    tried = 0
    for body in variants(name, example):
        answer = api.request(method, address, json=body)
        assert answer.status_code == 422, (body, answer.text)
        tried += 1
    assert tried >= 4
    assert [run["run_id"] for run in api.get("/api/v1/runs").json()["items"]] == made
    assert len(api.get("/api/v1/jobs").json()["items"]) == 1


@pytest.mark.parametrize("wrong", [{}, [], 0, False, ""])
def test_a_backfill_is_not_made_where_its_dry_run_or_overlap_is_nonsense(api: TestClient, wrong: Any) -> None:
    made = {"job_id": "a.job", "task": "t", "schedule": {"kind": "hourly", "minute": 0}}
    api.post("/api/v1/jobs", json=made)
    window = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T03:00:00Z"}
    for field in ("overlap", "dry_run"):
        if (field, wrong) != ("dry_run", False) or wrong is not False:
            answer = api.post("/api/v1/jobs/a.job/backfill", json={**window, field: wrong})
            assert answer.status_code == 422, (field, answer.text)
            assert answer.json()["errors"][0]["loc"] == [field]
    assert api.get("/api/v1/runs").json()["items"] == []
