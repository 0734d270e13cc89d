"""The OpenAPI document holds what the API does."""

import pytest
from fastapi.testclient import TestClient
from jsonschema_rs import validator_for

from scheduler_service.version import VERSION
from tests.support.api_calls import CALLS


def test_it_names_every_call_of_the_contract_that_exists(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    assert {path: set(calls) for path, calls in document["paths"].items()} == CALLS
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == VERSION


def test_every_call_documents_its_problems_as_problem_documents(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            problems = {status: answer for status, answer in call["responses"].items() if status >= "400"}
            assert {"401", "403", "422", "503"} <= set(problems), (method, path)
            for answer in problems.values():
                assert list(answer["content"]) == ["application/problem+json"]


@pytest.mark.parametrize("name", ["JobIn", "RunIn", "PreviewIn"])
def test_the_examples_of_requests_are_accepted(api: TestClient, name: str) -> None:
    document = api.get("/openapi.json").json()
    schema = document["components"]["schemas"][name]
    validator = validator_for({"$ref": f"#/components/schemas/{name}", "components": document["components"]})
    address = {"JobIn": "/api/v1/jobs", "RunIn": "/api/v1/runs", "PreviewIn": "/api/v1/preview"}[name]
    for example in schema["examples"]:
        assert validator.is_valid(example)
        assert api.post(address, json=example).is_success
