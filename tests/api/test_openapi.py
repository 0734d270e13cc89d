"""The OpenAPI document holds what the API does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from jsonschema_rs import validator_for

from itinerary.version import VERSION
from scheduler_service.api.app import describe
from scheduler_service.api.http.problems import KINDS
from tests.support.api_calls import CALLS, DOCUMENT, SHIPPED
from tests.support.processes import MANUAL, REPOSITORY


def test_it_names_every_call_of_the_contract_that_exists(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    assert {path: set(calls) for path, calls in document["paths"].items()} == CALLS
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == VERSION


def test_every_call_documents_its_problems_as_problem_documents() -> None:
    for path, calls in DOCUMENT["paths"].items():
        for method, call in calls.items():
            problems = {status: answer for status, answer in call["responses"].items() if status >= "400"}
            assert {"401", "403", "422", "503"} <= set(problems), (method, path)
            for answer in problems.values():
                assert list(answer["content"]) == ["application/problem+json"]


def test_the_shipped_file_is_the_document() -> None:
    assert SHIPPED.read_text("utf-8") == describe(), (
        "run `itinerary api --openapi > scheduler_service/api/openapi.json`"
    )


def test_every_request_answer_and_parameter_has_a_valid_example() -> None:
    components = DOCUMENT["components"]
    used: set[str] = set()
    for calls in DOCUMENT["paths"].values():
        for call in calls.values():
            contents = [call.get("requestBody", {}), *call["responses"].values()]
            used |= {c["schema"]["$ref"] for said in contents for c in said.get("content", {}).values()}
            for parameter in call.get("parameters", ()):
                schema = parameter["schema"]
                whole = {**schema, "components": components} if "$ref" in json.dumps(schema) else schema
                assert validator_for(whole).is_valid(parameter["example"])
    for ref in sorted(used):
        validator = validator_for({"$ref": ref, "components": components})
        examples = components["schemas"][ref.rpartition("/")[2]]["examples"]
        complaints = [str(error) for example in examples for error in validator.iter_errors(example)]
        assert examples
        assert not complaints, ref


def test_every_call_has_a_name_and_a_sentence_and_headers_are_told() -> None:
    calls = [call for calls in DOCUMENT["paths"].values() for call in calls.values()]
    assert len({call["operationId"] for call in calls}) == len(calls)
    assert all(call["description"] for call in calls)
    made = DOCUMENT["paths"]["/api/v1/jobs"]["post"]["responses"]
    assert set(made["201"]["headers"]) == {"ETag", "Location", "X-Request-Id"}
    assert set(made["429"]["headers"]) == set(made["503"]["headers"]) == {"Retry-After", "X-Request-Id"}
    assert all("X-Request-Id" in answer["headers"] for call in calls for answer in call["responses"].values())


def test_every_type_of_problem_is_on_the_page_and_raised_somewhere() -> None:
    page = (MANUAL / "api.md").read_text("utf-8")
    folders = (REPOSITORY / "scheduler_service", REPOSITORY / "workers")
    code = "\n".join(path.read_text("utf-8") for folder in folders for path in folder.rglob("*.py"))
    for kind in KINDS:
        assert f"`{kind}`" in page, kind
        assert code.count(f'"{kind}"') > 1, f"{kind} is never raised"


def schemas_in(part: Any) -> Iterator[dict[str, Any]]:
    """Each object of the document, however deep; examples are no schemas."""
    if isinstance(part, dict):
        yield part
        part = [value for name, value in part.items() if name not in ("example", "examples")]
    for each in part if isinstance(part, list) else ():
        yield from schemas_in(each)


def test_nothing_in_it_misleads_a_program_that_generates_clients() -> None:
    every = [schema for schema in schemas_in(DOCUMENT) if "type" in schema or "anyOf" in schema]
    # Go and Rust have no lookahead: a validator of theirs refuses each value.
    assert not [schema["pattern"] for schema in every if "(?" in str(schema.get("pattern"))]
    # To many, a field with a default is always there: a caller would have to give each that may be left out.
    assert not [schema for schema in every if schema.get("default", 0) is None]
    # An instant is no text to them, and has no length.
    instants = [schema for schema in every if schema.get("format") == "date-time"]
    assert not [schema for schema in instants if {"minLength", "maxLength"} & set(schema)]
    # A choice between two ranges of one type is a type without a name.
    assert not [one for one in every if [each.get("type") for each in one.get("anyOf", ())].count("integer") > 1]


def test_what_many_calls_share_has_one_name() -> None:
    shapes = DOCUMENT["components"]["schemas"]
    state, schedule = "#/components/schemas/RunState", "#/components/schemas/Schedule"
    assert {shapes[name]["properties"]["state"]["$ref"] for name in ("RunOut", "LastRun")} == {state}
    users = ("JobIn", "JobPut", "JobOut", "ListedJob", "PreviewIn")
    assert {shapes[name]["properties"]["schedule"]["$ref"] for name in users} == {schedule}
    assert shapes["Schedule"]["discriminator"]["propertyName"] == "kind"


@pytest.mark.parametrize("name", ["JobIn", "RunIn", "PreviewIn"])
def test_the_examples_of_requests_are_accepted(api: TestClient, name: str) -> None:
    schema = DOCUMENT["components"]["schemas"][name]
    validator = validator_for({"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]})
    address = {"JobIn": "/api/v1/jobs", "RunIn": "/api/v1/runs", "PreviewIn": "/api/v1/preview"}[name]
    for example in schema["examples"]:
        assert validator.is_valid(example)
        assert api.post(address, json=example).is_success
