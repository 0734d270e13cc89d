"""Schemathesis over the whole document: no server error, no undocumented answer. Bounded to about a minute."""

import json
from functools import cache
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.answering_leader import AnsweringLeader
from tests.support.api_calls import CALLS

pytestmark = pytest.mark.slow
EXAMPLES = 20
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
    negative_data_rejection,
]  # fmt: skip
BOUNDED = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


EACH = [(path, method) for path, methods in CALLS.items() for method in sorted(methods)]
WITH_BODY = [(path, method) for path, method in EACH if method in ("put", "patch") or path in (
    "/api/v1/jobs", "/api/v1/jobs/apply", "/api/v1/jobs/{job_id}/pause", "/api/v1/jobs/{job_id}/trigger",
    "/api/v1/preview", "/api/v1/runs", "/api/v1/runs/batch",
)]  # fmt: skip


@cache
def _schema(document: str) -> Any:
    """The document as schemathesis reads it, once for all tests: it keeps what it has built for each shape."""
    return schemathesis.openapi.from_dict(json.loads(document))


@pytest.mark.parametrize(
    ("path", "method", "mode"),
    [(*call, GenerationMode.POSITIVE) for call in EACH] + [(*call, GenerationMode.NEGATIVE) for call in WITH_BODY],
)
def test_no_request_is_answered_otherwise_than_documented(
    api: TestClient, job: dict[str, Any], leader: AnsweringLeader, path: str, method: str, mode: GenerationMode
) -> None:
    api.post("/api/v1/jobs", json={**job, "job_id": "0"})
    schema = _schema(api.get("/openapi.json").text)

    @BOUNDED
    @given(case=schema[path][method.upper()].as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        response = case.call(app=api.app, base_url="http://127.0.0.1")
        case.validate_response(response, checks=CHECKS)

    ask()
