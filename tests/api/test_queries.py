"""The parameters of an address: none is ignored, whoever's route it is."""

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.client.sync import Client
from scheduler_service.api.http.queries import known_parameters
from scheduler_service.api.pages.strangers import CALLBACK
from scheduler_service.config.settings import Settings
from tests.api.test_auth import bearer, guarded_settings
from tests.support.api_calls import DOCUMENT
from tests.support.routes import address_of, routes_of


def test_every_route_refuses_a_parameter_that_it_does_not_know(api: TestClient) -> None:
    seen = set()
    for method, path, route in routes_of(api.app):  # type: ignore[arg-type]  # the application itself
        if path == CALLBACK:  # an identity provider may add parameters of its own
            continue
        answer = api.request(method, address_of(path), params={"stat": "failed"})
        assert answer.status_code == 422, (method, path, answer.text)
        assert "stat" in answer.text, (method, path)
        assert all(name in answer.text for name in known_parameters(route)), (method, path, answer.text)
        seen.add(path)
    assert {"/", "/jobs", "/runs", "/audit", "/docs", "/healthz", "/metrics", "/api/v1/runs"} <= seen
    assert len(seen) > 45


def test_every_parameter_of_the_document_is_known_and_may_be_given_once(api: TestClient) -> None:
    checked = 0
    for path, calls in DOCUMENT["paths"].items():
        for method, call in calls.items():
            for parameter in call.get("parameters", ()):
                if parameter["in"] != "query":
                    continue
                name, value = parameter["name"], parameter["example"]
                once = value[0] if isinstance(value, list) else value
                twice = api.request(method.upper(), address_of(path), params=[(name, once), (name, once)])
                several = '"array"' in json.dumps(parameter["schema"])
                assert ("give this parameter once" in twice.text) is not several, (path, name, twice.text)
                empty = api.request(method.upper(), address_of(path), params={name: ""})
                assert empty.status_code == 422, (path, name, empty.text)
                assert name in empty.text
                checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("/runs", "stat=failed"), ("/runs", "job=nosuch"), ("/jobs", "tags=x"), ("/jobs", "tagg=mail"),
        ("/audit", "user=x"), ("/audit", "foo=1"), ("/runs", "State=failed"),
    ],
)  # fmt: skip
def test_a_misspelt_filter_names_itself_and_the_known_ones(api: TestClient, path: str, parameter: str) -> None:
    answer = api.get(f"/api/v1{path}?{parameter}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == [parameter.partition("=")[0]]
    assert "known are " in answer.json()["errors"][0]["msg"]
    assert "limit" in answer.json()["errors"][0]["msg"]


def test_pages_take_the_empty_fields_of_their_forms(api: TestClient) -> None:
    assert api.get("/runs?job_id=&state=&queue=&since=&until=").status_code == 200
    assert api.get("/jobs?q=&tag=&paused=&done=paused").status_code == 200


def test_nobody_learns_of_parameters_without_a_token(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    guarded = client_of(guarded_settings(settings))
    assert guarded.get("/api/v1/runs?stat=failed").status_code == 401
    assert guarded.get("/api/v1/runs?stat=failed", headers=bearer("viewer")).status_code == 422


@pytest.mark.parametrize("name", ["jobs", "all_jobs", "runs", "all_runs", "audit"])
def test_the_client_takes_named_filters_alone(name: str) -> None:
    kinds = {p.kind for n, p in inspect.signature(getattr(Client, name)).parameters.items() if n != "self"}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    wrong: Any = getattr(Client("http://127.0.0.1:9"), name)
    with pytest.raises(TypeError, match="stat"):
        wrong(stat="failed")
