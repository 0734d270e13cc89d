"""Ugly requests are refused with a problem document, never with a server error."""

import html
import json
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.errors import BadValue
from scheduler_service.api.http.bodies import MAX_DEPTH, read_json

RUNS = "/api/v1/runs"
JSON = {"Content-Type": "application/json"}

MALFORMED = {
    "nothing": b"",
    "not json": b"{",
    "not utf-8": b'{"task": "\xff"}',
    "utf-16": '{"task": "t"}'.encode("utf-16"),
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "NaN": b'{"task": "t", "args": [NaN]}',
    "infinity": b'{"task": "t", "args": [-Infinity]}',
    "a float over all bounds": b'{"task": "t", "args": [1e999]}',
    "ten thousand digits": b'{"task": "t", "args": [' + b"9" * 10_000 + b"]}",
    "a 65 bit integer": b'{"task": "t", "args": [18446744073709551616]}',
    "a key twice": b'{"task": "t", "task": "u"}',
    "65 levels": b'{"task": "t", "args": ' + b"[" * 65 + b"]" * 65 + b"}",
    "a hundred thousand levels": b'{"task": "t", "args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an unclosed depth": b"[" * 100_000,
    "trailing text": b'{"task": "t"} x',
}

UNSTORABLE = {
    "NUL": b'{"task": "t", "kwargs": {"a": "\\u0000"}}',
    "NUL in a key": b'{"task": "t", "kwargs": {"\\u0000": 1}}',
    "a lone surrogate": b'{"task": "t", "args": ["\\ud800"]}',
    "a lone surrogate in a key": b'{"task": "t", "kwargs": {"\\udfff": 1}}',
    "a lone surrogate in an unknown field": b'{"task": "t", "\\ud800": 1}',
    "NUL in the task": b'{"task": "\\u0000"}',
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_cannot_be_read_is_malformed(api: TestClient, name: str) -> None:
    answer = api.post(RUNS, content=MALFORMED[name], headers=JSON)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 400


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a 65 bit integer", "the whole number 18446744073709551616 does not fit 64 bits; send it as text"),
        ("ten thousand digits", "the whole number 99999999999999999999... does not fit 64 bits; send it as text"),
        ("a key twice", 'an object has the key "task" twice'),
        ("NaN", "NaN is not a JSON number"),
    ],
)
def test_what_is_refused_in_a_body_is_named(api: TestClient, name: str, said: str) -> None:
    answer = api.post(RUNS, content=MALFORMED[name], headers=JSON)
    assert answer.json()["detail"] == f"the body is not accepted as JSON: {said}"


@pytest.mark.parametrize("name", UNSTORABLE)
def test_what_cannot_be_stored_is_a_bad_value(api: TestClient, name: str) -> None:
    answer = api.post(RUNS, content=UNSTORABLE[name], headers=JSON)
    assert answer.status_code == 422, answer.text
    error = answer.json()["errors"][0]
    assert error["msg"].startswith(f"{'.'.join(error['loc'])}: text must hold no NUL")


@pytest.mark.parametrize("name", ["Allocate something", "räume/auf", "雪", "a", "x" * 255, "50% off", "<b>"])
def test_every_name_that_a_task_of_celery_s_may_have_is_taken_and_found(api: TestClient, name: str) -> None:
    job = {"job_id": "a.job", "task": name, "schedule": {"kind": "once", "at": "2999-01-01T00:00:00Z"}}
    assert api.post("/api/v1/jobs", json=job).json()["task"] == name
    run = api.post(RUNS, json={"task": name}).json()
    assert run["task"] == name
    for page in ("/jobs/a.job", f"/runs/{run['run_id']}"):
        assert html.escape(name, quote=False) in api.get(page).text


@pytest.mark.parametrize(
    "name", ["", " ", " a", "a ", "a\nb", "a\tb", "a\u200bb", "a\u2028b", "a\u202eb", "x" * 256, "a\x7f"]
)
def test_a_name_that_nobody_could_see_is_none(api: TestClient, name: str) -> None:
    answer = api.post(RUNS, json={"task": name})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["loc"] == ["task"], answer.text


def test_a_typed_argument_that_is_none_is_named(api: TestClient) -> None:
    answer = api.post(RUNS, json={"task": "t", "kwargs": {"d": {"$type": "decimal", "$value": 1.1}}})
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["loc"] == ["kwargs"]
    assert error["msg"].startswith("kwargs: '1.1' is no decimal; give ")


def test_sixty_levels_of_arguments_are_taken_and_come_back(api: TestClient) -> None:
    deep = json.loads("[" * 60 + "]" * 60)
    answer = api.post(RUNS, json={"task": "t", "args": deep})
    assert answer.status_code == 201
    assert api.get(answer.headers["location"]).json()["args"] == deep


def test_a_body_over_a_mebibyte_is_too_large_by_its_header(api: TestClient) -> None:
    answer = api.post(RUNS, content=b'{"task": "t", "args": ["' + b"x" * 1024 * 1024 + b'"]}', headers=JSON)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_grows_over_a_mebibyte_while_it_comes_is_not_read_to_its_end(api: TestClient) -> None:
    sent = 0

    def chunks() -> Iterator[bytes]:
        nonlocal sent
        yield b'{"task": "'
        for _ in range(2000):
            sent += 1
            yield b"x" * 1024

    answer = api.post(RUNS, content=chunks(), headers=JSON)
    assert answer.status_code == 413


def test_many_bad_fields_make_an_answer_of_bounded_size(api: TestClient) -> None:
    answer = api.post("/api/v1/runs/batch", json={"runs": [{"nope": 1}] * 1000})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 100


@pytest.mark.parametrize(
    "path", ["/nothing", "/api/v1/nothing", "/api/v1/jobs/a/b/c", "/static/../config.py", "/static/x"]
)
def test_an_unknown_address_is_a_problem_document(api: TestClient, path: str) -> None:
    answer = api.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "Not Found"


def test_a_method_that_is_not_there_says_which_are(api: TestClient) -> None:
    answer = api.delete(RUNS)
    assert answer.status_code == 405
    assert answer.headers["content-type"] == "application/problem+json"
    assert "POST" in answer.headers["allow"]


def test_every_answer_forbids_sniffing_and_caching(api: TestClient) -> None:
    for path in ("/api/v1/jobs", "/api/v1/jobs/nobody", "/", "/nothing"):
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0])
def test_whole_numbers_of_64_bits_are_read_and_those_beyond_are_not(value: int) -> None:
    assert read_json(str(value), "args") == value
    beyond = value + 1 if value > 0 else value - 1
    with pytest.raises(BadValue, match="64 bits") if value else nullcontext():
        read_json(str(beyond), "args")


def test_json_nests_as_deep_as_it_says_and_no_deeper() -> None:
    assert read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH, "args")
    with pytest.raises(BadValue, match=f"{MAX_DEPTH} levels"):
        read_json("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "args")
