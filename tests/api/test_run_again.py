"""A run's task once more with changes: over REST, by the form, by the client and on the command line."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.errors import BadValue
from itinerary.protocol.redaction import MASK
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.cli.run_again import changed
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.run_again import CHANGEABLE
from scheduler_service.core.leader.messages import RunEnqueued
from scheduler_service.core.model import RunKind
from scheduler_service.ports.stores import RunFilter
from tests.api.test_auth import bearer
from tests.api.test_limited_tokens import digest, settings_with
from tests.support.answering_leader import AnsweringLeader
from tests.support.command_line import Itinerary
from tests.support.forms import as_shown, submit

RUNS = "/api/v1/runs"
FULL: dict[str, Any] = {
    "task": "shop.close", "args": [1, {"password": "hunter2"}], "kwargs": {"month": 10, "token": "s3cret"},
    "headers": {"tenant": "north", "api_key": "k3y"}, "queue": "slow", "priority": 2, "timeout": "5m",
    "start_within": "1h", "must_end_within": "6h", "retry": {"max_attempts": 3}, "run_at": "2999-01-01T00:00:00Z",
}  # fmt: skip


@pytest.fixture
def run_id(api: TestClient) -> str:
    return str(api.post(RUNS, json=FULL).json()["run_id"])


def again(api: TestClient, run_id: str, body: Any = None, **headers: str) -> Any:
    return api.post(f"{RUNS}/{run_id}/again", json={} if body is None else body, headers=headers)


def refusals(answer: Any) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["msg"] for error in answer.json()["errors"]]


def test_without_changes_it_is_the_same_once_and_now(
    api: TestClient, stores: Stores, leader: AnsweringLeader, run_id: str
) -> None:
    answer = again(api, run_id)
    assert answer.status_code == 201
    new = stores.runs.get(answer.json()["run_id"])
    old = stores.runs.get(run_id)
    assert answer.headers["location"] == f"{RUNS}/{new.run_id}"
    for name in ("task", "args", "kwargs", "headers", "queue", "priority", "timeout", "retry", "limits", "lane"):
        assert getattr(new, name) == getattr(old, name), name
    assert (new.retry_of, new.kind, new.job_id, new.scheduled_at == old.scheduled_at) == (
        run_id, RunKind.ADHOC, None, False,
    )  # fmt: skip
    assert new.start_by is not None
    assert new.end_by is not None
    assert new.end_by - new.due_at == 6 * 3600 * 10**6
    assert new.start_by - new.due_at == 3600 * 10**6
    leader.wait_for(RunEnqueued((new.run_id,)))


def test_a_run_of_a_job_becomes_one_without_a_job(api: TestClient, job: dict[str, Any]) -> None:
    api.post("/api/v1/jobs", json={**job, "fair_key": "acme"})
    triggered = api.post(f"/api/v1/jobs/{job['job_id']}/trigger").json()
    new = again(api, triggered["run_id"], {"queue": "slow"}).json()
    assert (new["job_id"], new["queue"], new["fair_key"], new["run_id"][:6]) == (None, "slow", "acme", "adhoc_")


def test_each_field_that_is_given_replaces_the_earlier_runs(api: TestClient, stores: Stores, run_id: str) -> None:
    changes = {
        "args": [2], "kwargs": {"month": 11}, "headers": {"tenant": "south"}, "queue": "mail", "priority": 9,
        "timeout": "30s", "start_within": "2h", "must_end_within": "3h", "retry": {"max_attempts": 5},
        "run_at": "2999-02-01T00:00:00Z", "task": "shop.open",
    }  # fmt: skip
    assert set(changes) == set(CHANGEABLE)
    shown = again(api, run_id, changes).json()
    for name in set(changes) - {"timeout", "start_within", "must_end_within", "retry", "run_at"}:
        assert shown[name] == changes[name], name
    new = stores.runs.get(shown["run_id"])
    assert (new.timeout, new.retry.max_attempts) == (30 * 10**6, 5)
    assert shown["due_at"] == shown["scheduled_at"] == "2999-02-01T00:00:00Z"
    assert shown["start_by"] == "2999-02-01T02:00:00Z"


def test_null_resets_a_field(api: TestClient, stores: Stores, run_id: str) -> None:
    shown = again(api, run_id, dict.fromkeys(set(CHANGEABLE) - {"task"})).json()
    new = stores.runs.get(shown["run_id"])
    assert (shown["args"], shown["kwargs"], shown["headers"], shown["queue"], shown["priority"], shown["start_by"]) == (
        [], {}, None, "default", 5, None,
    )  # fmt: skip
    assert (new.timeout, new.retry.max_attempts) == (None, 1)
    assert refusals(again(api, run_id, {"task": None})) == ["task: give the name of a task, or leave the field out"]


def test_a_mask_stands_for_the_stored_value_and_is_never_stored(api: TestClient, stores: Stores, run_id: str) -> None:
    shown = api.get(f"{RUNS}/{run_id}").json()
    assert shown["kwargs"]["token"] == MASK
    new = again(api, run_id, {name: shown[name] for name in ("args", "kwargs", "headers")}).json()
    kept = stores.runs.get(new["run_id"])
    assert (kept.args, kept.kwargs, kept.headers) == (FULL["args"], FULL["kwargs"], FULL["headers"])
    typed = again(api, run_id, {"kwargs": {"token": "other", "password": MASK}})
    assert refusals(typed) == [
        f"kwargs.password: '{MASK}' is not accepted; this stands for a hidden value, and none is stored here: give "
        "the value itself"
    ]


@pytest.mark.parametrize("body", [{}, {"kwargs": {"token": MASK}, "args": [], "headers": None}])
def test_another_task_gets_no_hidden_value_that_was_not_given_to_it(
    api: TestClient, run_id: str, body: dict[str, Any]
) -> None:
    (refused,) = refusals(again(api, run_id, {**body, "task": "itinerary.echo"}))
    assert "this stands for a hidden value, and none is stored here: give the value itself" in refused
    given = {"task": "itinerary.echo", "args": [], "kwargs": {"token": "x"}, "headers": {}}
    assert again(api, run_id, given).status_code == 201


def test_every_error_is_named_at_once(api: TestClient, run_id: str) -> None:
    wrong = {"priority": 10, "queue": "no queue", "limits": [], "colour": 1, "args": {}}
    fields = [error.split(":")[0] for error in refusals(again(api, run_id, wrong))]
    assert fields == ["args", "queue", "priority", "colour", "limits"]
    late = {"run_at": "9999-12-31T23:59:59Z", "start_within": "1h"}
    assert refusals(again(api, run_id, late))[0].startswith("start_within: '1h' is not accepted; run_at plus")


def test_a_key_creates_one_run_and_another_request_with_it_is_refused(api: TestClient, run_id: str) -> None:
    first = again(api, run_id, {"queue": "a"}, **{"Idempotency-Key": "one"})
    same = again(api, run_id, {"queue": "a", "idempotency_key": "one"})
    assert (first.status_code, same.status_code) == (201, 200)
    assert same.json()["run_id"] == first.json()["run_id"]
    assert again(api, run_id, {"queue": "b"}, **{"Idempotency-Key": "one"}).status_code == 409


def test_who_may_not_retry_may_not_do_this_and_a_limited_token_stays_within_its_limits(
    client_of: Callable[[Settings], TestClient], settings: Settings
) -> None:
    lines = [f"{who}:{role}:{digest(who)}{more}" for who, role, more in
             (("root", "admin", ""), ("eve", "viewer", ""), ("ann", "operator", ":queues=slow"))]  # fmt: skip
    api = client_of(settings_with(settings, *lines))
    run_id = api.post(RUNS, json=FULL, headers=bearer("root")).json()["run_id"]
    assert api.post(f"{RUNS}/{run_id}/again", headers=bearer("eve")).status_code == 403
    assert api.post(f"{RUNS}/{run_id}/again", headers=bearer("ann")).status_code == 201
    out = api.post(f"{RUNS}/{run_id}/again", json={"queue": "mail"}, headers=bearer("ann"))
    assert out.status_code == 403
    other = api.post(RUNS, json={"task": "t", "queue": "mail"}, headers=bearer("root")).json()["run_id"]
    assert api.post(f"{RUNS}/{other}/again", headers=bearer("ann")).status_code == 404
    (entry, *_) = api.get("/api/v1/audit", params={"action": "run.again"}, headers=bearer("root")).json()["items"]
    assert (entry["actor"], entry["after"]["retry_of"]) == ("ann", run_id)


def test_what_is_not_there_is_404(api: TestClient) -> None:
    assert again(api, "adhoc_nobody").status_code == 404


def test_the_form_is_filled_without_hidden_values_and_wants_to_know_what_masks_mean(
    api: TestClient, stores: Stores, run_id: str
) -> None:
    address = f"/runs/{run_id}/again"
    page = api.get(address)
    assert "hunter2" not in page.text
    assert "s3cret" not in page.text
    fields = as_shown(page.text)
    assert (fields["task"], fields["queue"], fields["priority"], fields["timeout"]) == ("shop.close", "slow", "2", "5m")
    refused = submit(api, address, **fields)
    assert refused.status_code == 422
    assert refused.text.count("[redacted] stands for a hidden value: type the value, or say below") == 6
    assert len(stores.runs.list(RunFilter(), 10, None).items) == 1
    kept = submit(api, address, **{**fields, "keep": "on", "queue": "mail"})
    assert kept.status_code == 303
    new = stores.runs.get(kept.headers["location"].partition("/runs/")[2].partition("?")[0])
    assert (new.args, new.kwargs, new.queue, new.retry_of) == (FULL["args"], FULL["kwargs"], "mail", run_id)


def test_what_is_typed_into_the_form_replaces_and_what_is_wrong_stays_typed(
    api: TestClient, stores: Stores, run_id: str
) -> None:
    address = f"/runs/{run_id}/again"
    typed = {"task": "shop.open", "args": "", "kwargs": '{"month": 11', "queue": "mail", "priority": "x", "timeout": ""}
    refused = submit(api, address, **typed)
    assert refused.status_code == 422
    assert "{&#34;month&#34;: 11</textarea>" in refused.text
    assert 'id="wrong-kwargs"' in refused.text
    assert "give a whole number from 0 to 9" in refused.text
    right = {**typed, "kwargs": '{"month": 11}', "priority": "0"}
    shown = '{"tenant": "north", "api_key": "[redacted]"}'
    refused = submit(api, address, **right, headers=shown, keep="on")
    assert 'id="wrong-headers"' in refused.text, "another task gets no hidden header either"
    answer = submit(api, address, **right, headers="")
    assert answer.status_code == 303, answer.text
    new = stores.runs.get(answer.headers["location"].partition("/runs/")[2].partition("?")[0])
    assert (new.task, new.args, new.kwargs, new.priority, new.timeout) == ("shop.open", [], {"month": 11}, 0, None)
    assert new.headers is None


def test_both_runs_name_each_other(api: TestClient, run_id: str) -> None:
    new = again(api, run_id).json()["run_id"]
    assert f'Again of <a href="/runs/{run_id}">' in api.get(f"/runs/{new}").text
    assert f'Run again as <a href="/runs/{new}">' in api.get(f"/runs/{run_id}").text


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ([], {}),
        (["queue=slow", "priority=3", "timeout=null"], {"queue": "slow", "priority": 3, "timeout": None}),
        (["kwargs.month=11"], {"kwargs": {"month": 11, "token": MASK}}),
        (["kwargs.a.b=x", "kwargs.a.c=1"], {"kwargs": {"month": 10, "token": MASK, "a": {"b": "x", "c": 1}}}),
        (["args.1=true", "args.2=new"], {"args": [1, True, "new"]}),
        (["headers.tenant=a=b"], {"headers": {"tenant": "a=b"}}),
        (["kwargs={}", "kwargs.month=1"], {"kwargs": {"month": 1}}),
    ],
)
def test_options_of_the_command_line_change_fields_and_what_is_in_them(options: list[str], wanted: Any) -> None:
    run = {"args": [1, 2], "kwargs": {"month": 10, "token": MASK}, "headers": None}
    assert changed(run, options) == wanted


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("month", "give NAME=VALUE"),
        ("month=1", "give NAME=VALUE"),
        ("queue.a=1", "give NAME=VALUE"),
        ("args.5=1", "5 is no place in a list of 2"),
        ("args.x=1", "x is no place in a list of 2"),
        ("kwargs.month.day=1", "day would go into 10, which is no object"),
    ],
)
def test_an_option_that_names_nothing_is_refused(option: str, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        changed({"args": [1, 2], "kwargs": {"month": 10}, "headers": None}, [option])


@pytest.mark.slow
def test_the_command_runs_it_again(itinerary: Itinerary) -> None:
    given = '{"month": 10, "token": "s3cret"}'
    first = json.loads(itinerary.done("enqueue", "t", "--kwargs", given, "--in", "1h", "--json"))
    options = ("--set", "kwargs.month=11", "--set", "queue=slow")
    new = json.loads(itinerary.done("runs", "again", first["run_id"], *options, "--json"))
    assert (new["kwargs"], new["queue"], new["retry_of"]) == ({"month": 11, "token": MASK}, "slow", first["run_id"])
