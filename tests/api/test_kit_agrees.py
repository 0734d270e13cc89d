"""The service in memory for users' tests answers requests as the API does: the same statuses, fields and messages."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import pytest
from celery import Celery
from fastapi.testclient import TestClient

from itinerary import ApiError, Client
from itinerary.client.http_pool import Answer, Pool
from itinerary.testing import Service

AT = "2999-01-01T00:00:00Z"
JOB = {"task": "t", "schedule": {"kind": "hourly", "minute": 17}, "retry": {"max_attempts": 3}, "queue": "slow"}
BAD = {"task": "t", "schedule": {"kind": "cron", "expr": "61 * * * *"}, "priority": 10, "colour": 1}


def enqueued(client: Client) -> Any:
    full = {
        "queue": "slow",
        "priority": 3,
        "timeout": "5m",
        "start_within": "1h",
        "must_end_within": "2h",
        "retry": {"max_attempts": 2},
    }
    client.enqueue("t", run_at=AT, limits=["api", {"name": "tenant", "key": "acme"}])
    return client.enqueue("t", [1], {"a": 2}, run_at=AT, limits=["api"], fair_key="b", **full)  # type: ignore[arg-type]


def shadowed(client: Client) -> Any:
    return client.enqueue("t", limits=[{"name": "tenant", "key": "acme"}], fair_key="b")


def shadowed_by_the_job(client: Client) -> Any:
    client.put_job("a", {**JOB, "limits": [{"name": "tenant", "key": "acme"}]})
    return client.trigger("a", fair_key="b")


def same_key(client: Client) -> Any:
    first = client.enqueue("t", idempotency_key="one", run_at=AT)
    return client.enqueue("t", idempotency_key="one", run_at=AT)["run_id"] == first["run_id"]


def other_request(client: Client) -> Any:
    client.enqueue("t", idempotency_key="two", run_at=AT)
    return client.enqueue("u", idempotency_key="two", run_at=AT)


def cancelled(client: Client) -> Any:
    run = client.cancel(client.enqueue("t", run_at=AT)["run_id"])
    return run, client.cancel(run["run_id"]), client.retry(run["run_id"]), client.run(run["run_id"])


def listed(client: Client) -> Any:
    client.enqueue_batch([{"task": "a", "run_at": AT}, {"task": "b", "run_at": "2999-01-02T00:00:00Z"}])
    page = client.runs(state="scheduled", limit=1)
    return [run["task"] for run in page["items"]]


def triggered(client: Client) -> Any:
    client.put_job("a", JOB)
    return client.trigger("a", {"x": 1})


def limited(client: Client) -> Any:
    tenant = {"name": "tenant", "key": {"from": "kwargs.tenant"}}
    client.put_job(
        "a", {**JOB, "kwargs": {"tenant": "acme"}, "limits": [tenant], "fair_key": {"from": "kwargs.tenant"}}
    )
    own = client.trigger("a", limits=[], fair_key="mine")
    again = client.retry(client.cancel(client.trigger("a")["run_id"])["run_id"])
    return own, client.trigger("a", {"tenant": 7}), client.trigger("a", limits=[]), again, client.job("a")


def refused(client: Client) -> Any:
    client.put_job("a", {**JOB, "kwargs": {"tenant": "acme"}, "fair_key": {"from": "kwargs.tenant"}})
    return client.trigger("a", {"tenant": None}, limits=["tenant", 5])  # type: ignore[list-item]


def paused(client: Client) -> Any:
    client.create_job({"job_id": "a", **JOB})
    return client.pause_job("a", reason="holiday"), client.resume_job("a"), client.delete_job("a")


CALLS: list[Callable[[Client], Any]] = [
    enqueued, same_key, other_request, cancelled, listed, triggered, limited, paused,
    lambda client: [client.put_job("a", {**JOB, "args": ["x"], "fair_key": {"from": "args.0"}}), client.trigger("a")],
    lambda client: client.enqueue("t", limits=[{"name": "api", "key": ""}, "b"], fair_key="a" * 257),
    lambda client: client.enqueue("t", limits=["a", "b", "c", "d", "e"]),
    lambda client: client.put_job("a", {**JOB, "limits": [{"name": "tenant", "key": {"from": "args.0"}}]}),
    refused, shadowed, shadowed_by_the_job,
    lambda client: client.enqueue("t", priority=11, retry={"max_attempts": 0}),
    lambda client: client.enqueue_batch([{"task": "t"}, {"task": ""}, {"job": 1}]),
    lambda client: client.enqueue("t", run_at="2020-01-01T00:00:00Z", start_within="1h"),
    lambda client: client.run("adhoc_1"),
    lambda client: client.cancel("adhoc_1"),
    lambda client: client.retry(client.enqueue("t", run_at=AT)["run_id"]),
    lambda client: client.put_job("a", JOB),
    lambda client: client.put_job("a", BAD),
    lambda client: client.job("nothing"),
    lambda client: client.trigger("nothing"),
    lambda client: [client.create_job({"job_id": "a", **JOB}), client.create_job({"job_id": "a", **JOB})],
]  # fmt: skip


def outcome(call: Callable[[Client], Any], client: Client) -> Any:
    """What a call gives, or its error; ids and times, which differ, replaced."""
    try:
        found = call(client)
    except ApiError as exc:
        found = [exc.status, str(exc), [error["loc"] for error in exc.problem.get("errors", [])]]
    text = json.dumps(found, sort_keys=True, default=dict)
    text = re.sub(r"(adhoc_|manual-)[0-9a-f-]{32,36}", r"\1ID", text)
    text = re.sub(r'"(job_version|term|version)": \w+', r'"\1": "N"', text)
    text = re.sub(r", \"(next_runs|warnings)\": \[[^]]*\]", "", text)
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", lambda at: at[0] if at[0] > "29" else "TIME", text))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_the_kit_answers_as_the_api_does(call: Callable[[Client], Any], api: TestClient) -> None:
    def ask(_: Pool, method: str, target: str, body: bytes | None, headers: Mapping[str, str], *_bounds: Any) -> Answer:
        got = api.request(method, target, content=body, headers=dict(headers))
        return Answer(got.status_code, got.reason_phrase, got.headers, got.content)

    with patch.object(Pool, "ask", ask):
        real = outcome(call, Client(retries=0))
    with Service(Celery("shop", set_as_current=False)) as service:
        assert outcome(call, service.client()) == real
