"""The service in memory for users' tests: what is captured, when it is due, how tasks run and retry."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from celery import Celery, Task
from celery.exceptions import Ignore

from itinerary import (
    ApiError,
    AsyncClient,
    BadValues,
    Client,
    Conflict,
    RunCancelled,
    attach,
    current_run,
    enqueue_in,
    enqueue_in_async,
    enqueue_many_in,
    enqueue_many_in_async,
)
from itinerary import schedule as declare
from itinerary.protocol.errors import BadValue, ItineraryError
from itinerary.testing import Service
from tests.support.processes import REPOSITORY, project_env

START = "2026-12-01T00:00:00Z"


@pytest.fixture
def app() -> Celery:
    return Celery("shop", broker="redis://127.0.0.1:1/0", set_as_current=False)


@pytest.fixture
def calls(app: Celery) -> list[Any]:
    """What the task `shop.note` was called with."""
    calls: list[Any] = []

    @app.task(name="shop.note", shared=False)
    def note(*args: Any, **kwargs: Any) -> Any:
        run = current_run()
        assert run is not None
        calls.append([*args, *kwargs.values()])
        return [run.job_id, run.attempt]

    return calls


@pytest.fixture
def service(app: Celery) -> Iterator[Service]:
    with Service(app, now=START) as service:
        yield service


def test_a_programs_own_clients_and_enqueue_in_are_captured_and_nothing_else(service: Service) -> None:
    with Client("https://somewhere.example/prefix", token="secret") as client:
        client.enqueue("shop.note", [1], {"a": 2}, queue="slow")
        client.enqueue_batch([{"task": "shop.batch"}, {"task": "shop.batch"}])

    async def by_async() -> dict[str, Any]:
        async with AsyncClient() as client:
            return await client.enqueue("shop.asked", run_at="2026-12-02T00:00:00Z")

    asyncio.run(by_async())
    run_id = enqueue_in(object(), "shop.committed", kwargs={"order": 17}, timeout="5m", retry={"max_attempts": 2})
    service.assert_enqueued("shop.note", [1], {"a": 2}, queue="slow", times=1)
    service.assert_enqueued("shop.batch", times=2)
    with pytest.raises(AssertionError, match="enqueued 2 times, not exactly once"):
        service.assert_enqueued("shop.batch", times=1)
    service.assert_enqueued("shop.asked", run_at=datetime(2026, 12, 2, tzinfo=UTC))
    (run,) = service.assert_enqueued("shop.committed", kwargs={"order": 17})
    assert (run["run_id"], run["state"], run["scheduled_at"]) == (run_id, "scheduled", START)
    service.assert_enqueued("shop.nothing", times=0)


def test_after_the_block_nothing_is_captured_any_more(app: Celery) -> None:
    with Service(app):
        pass
    with pytest.raises(BadValue, match="give a connection of psycopg"):
        enqueue_in(object(), "shop.note")
    with pytest.raises(BadValue, match="give a connection of asyncpg"):
        asyncio.run(enqueue_in_async(object(), "shop.note"))
    with pytest.raises(ItineraryError, match=r"no answer|refused"), Client("http://127.0.0.1:9", retries=0) as client:
        client.status()


def test_an_assertion_that_fails_shows_what_was_enqueued(service: Service, app: Celery) -> None:
    @app.task(name="shop.close", shared=False)
    def close(month: int) -> None: ...

    with pytest.raises(AssertionError, match=r"shop\.close was enqueued 0 times, not at least once.*\n  nothing"):
        service.assert_enqueued(close)
    service.client().enqueue("shop.close", kwargs={"month": 1})
    service.assert_enqueued(close)
    with pytest.raises(AssertionError) as failed:
        service.assert_enqueued(close, kwargs={"month": 2}, times=1)
    assert str(failed.value) == (
        "shop.close was enqueued 0 times with kwargs={'month': 2}, not exactly once. Enqueued were:\n"
        "  shop.close args=[] kwargs={'month': 1} queue=default run_at=2026-12-01T00:00:00+00:00 (scheduled)"
    )
    for wrong in ({"times": 2}, {"args": [1]}, {"queue": "slow"}, {"run_at": "2026-12-01T00:00:01Z"}):
        with pytest.raises(AssertionError):
            service.assert_enqueued(close, **wrong)  # type: ignore[arg-type]


def test_progress_is_checked_as_in_a_worker(app: Celery, service: Service) -> None:
    @app.task(name="shop.counts", shared=False)
    def counts(done: Any) -> None:
        run = current_run()
        assert run is not None
        run.progress(done, 10, "rows")

    client = service.client()
    client.enqueue("shop.counts", [3])
    (run,) = service.run_due()
    assert (run.state, run.progress) == ("completed", None), "over: no task shows it any more"
    client.enqueue("shop.counts", ["three"])
    with pytest.raises(BadValue, match="done: 'three' is not accepted; give a number"):
        service.run_due()


def test_a_run_is_due_when_the_clock_that_the_test_moves_says_so(service: Service, calls: list[Any]) -> None:
    client = service.client()
    client.enqueue("shop.note", ["later"], run_at="2026-12-01T01:00:00Z")
    client.enqueue("shop.note", ["second"])
    client.enqueue("shop.note", ["first"], priority=1)
    assert [run["result"] for run in service.run_due()] == [[None, 1], [None, 1]]
    assert calls == [["first"], ["second"]]
    service.advance("59m")
    assert service.run_due() == []
    service.advance(timedelta(minutes=1))
    (run,) = service.run_due()
    assert (run["state"], run["started_at"]) == ("completed", "2026-12-01T01:00:00Z")
    assert client.wait(run["run_id"])["result"] == [None, 1]
    service.advance_to("2027-01-01T00:00:00+01:00")
    assert service.now == datetime(2026, 12, 31, 23, tzinfo=UTC)
    with pytest.raises(BadValue, match="only moves forward"):
        service.advance_to(START)


def test_without_an_instant_the_clock_runs_with_the_hosts_as_far_ahead_as_it_was_moved(
    app: Celery, calls: list[Any]
) -> None:
    with Service(app) as service:
        in_an_hour = datetime.now(UTC) + timedelta(hours=1)
        service.client().enqueue("shop.note", [1], run_at=in_an_hour.isoformat())
        service.client().create_job(
            {"job_id": "a", "task": "shop.note", "schedule": {"kind": "interval", "every": "1h"}}
        )
        assert service.run_due() == []
        service.advance("1h")
        ran = {run["job_id"] for run in service.run_due()}
        assert ran == {None, "a"}, "your code asked for it later than the clock began"
        assert service.now >= in_an_hour


def test_a_task_that_enqueues_runs_what_it_enqueued_and_one_without_an_end_is_an_error(
    service: Service, app: Celery, calls: list[Any]
) -> None:
    @app.task(name="shop.begin", shared=False)
    def begin() -> None:
        Client().enqueue("shop.note", ["next"])

    service.client().enqueue("shop.begin")
    assert [run["task"] for run in service.run_due()] == ["shop.begin", "shop.note"]
    assert calls == [["next"]]


def test_arguments_arrive_as_a_worker_decodes_them(service: Service, calls: list[Any]) -> None:
    kwargs = {"rate": {"$type": "decimal", "$value": "1.10"}, "looks": {"__type__": "uuid", "__value__": 1}}
    service.client().enqueue("shop.note", kwargs=kwargs)
    service.run_due()
    assert calls == [[Decimal("1.10"), {"__type__": "uuid", "__value__": 1}]]


def test_a_retry_of_the_task_is_due_when_the_task_asked_for_it_with_its_new_arguments(
    service: Service, app: Celery
) -> None:
    seen: list[Any] = []

    @app.task(name="shop.fetch", shared=False, bind=True, max_retries=2)
    def fetch(self: Task[Any, Any], url: str) -> str:
        seen.append((url, self.request.retries, current_run().attempt))  # type: ignore[union-attr]
        if self.request.retries == 0:
            raise self.retry(countdown=60, args=["other"], exc=OSError("away"))
        if self.request.retries == 1:
            raise self.retry(eta=service.now + timedelta(hours=1))
        return "done"

    run_id = service.client().enqueue("shop.fetch", ["first"])["run_id"]
    (run,) = service.run_due()
    assert (run["state"], run["due_at"], run["error"]["type"]) == ("retrying", "2026-12-01T00:01:00Z", "OSError")
    assert service.run_due() == []
    service.advance("1m")
    assert service.run_due()[0]["due_at"] == "2026-12-01T01:01:00Z"
    service.advance("1h")
    (run,) = service.run_due()
    assert (run["state"], run["result"], run["attempt"]) == ("completed", "done", 3)
    assert [attempt["outcome"] for attempt in run["attempts"]] == ["failed", "failed", "completed"]
    assert seen == [("first", 0, 1), ("other", 1, 2), ("other", 2, 3)]
    assert service.client().run(run_id) == run


def test_autoretry_ends_as_celery_ends_it(service: Service, app: Celery) -> None:
    @app.task(
        name="shop.flaky", shared=False, autoretry_for=(OSError,), max_retries=1, retry_backoff=4, retry_jitter=False
    )
    def flaky() -> None:
        raise OSError("away")

    service.client().enqueue("shop.flaky")
    assert service.run_due()[0]["due_at"] == "2026-12-01T00:00:04Z"
    service.advance("4s")
    with pytest.raises(OSError, match="away"):
        service.run_due()
    assert [run["state"] for run in service.runs] == ["failed"]


def test_a_failed_attempt_is_retried_by_the_runs_own_policy_and_the_last_error_is_raised(
    service: Service, app: Celery
) -> None:
    @app.task(name="shop.fails", shared=False)
    def fails() -> None:
        raise ValueError(f"no {current_run().attempt}")  # type: ignore[union-attr]

    retry = {"max_attempts": 3, "initial": "10s", "factor": 3, "max": "20s"}
    service.client().enqueue("shop.fails", retry=retry)
    (run,) = service.run_due()
    assert (run["state"], run["due_at"]) == ("retrying", "2026-12-01T00:00:10Z")
    service.advance("10s")
    assert service.run_due()[0]["due_at"] == "2026-12-01T00:00:30Z"
    service.advance("20s")
    (run,) = service.run_due(raises=False)
    assert (run["state"], run["error"]["type"], run["error"]["message"]) == ("failed", "ValueError", "no 3")
    service.client().enqueue("shop.fails")
    with pytest.raises(ValueError, match="no 1"):
        service.run_due()


def test_every_end_of_a_task_is_the_end_that_a_worker_reports(service: Service, app: Celery) -> None:
    def raising(error: BaseException) -> Any:
        def task() -> None:
            raise error

        return task

    async def is_async() -> None: ...

    ends = {
        "ignored": (raising(Ignore()), "completed", "ignored"),
        "cancelled": (raising(RunCancelled()), "cancelled", None),
        "async": (is_async, "failed", None),
        "plain": (lambda: object, "completed", None),
    }
    for name, (function, _, _) in ends.items():
        function.__name__ = "task"
        app.task(name=f"shop.{name}", shared=False)(function)
        service.client().enqueue(f"shop.{name}")
    service.client().enqueue("shop.unknown")
    found = {run["task"]: (run["state"], run["reason"]) for run in service.run_due(raises=False)}
    assert found == {f"shop.{name}": (state, reason) for name, (_, state, reason) in ends.items()} | {
        "shop.unknown": ("failed", "unknown_task")
    }
    service.client().enqueue("shop.unknown")
    with pytest.raises(ItineraryError, match=r"the app shop has no task shop\.unknown"):
        service.run_due()


def test_an_attached_app_and_its_hooks_run_as_they_are(service: Service, app: Celery, calls: list[Any]) -> None:
    ended: list[str] = []

    class Hooked(Task[Any, Any]):
        def after_return(self, status: str, *_: Any) -> None:
            ended.append(status)

    @app.task(name="shop.hooked", shared=False, base=Hooked)
    def hooked() -> None: ...

    attach(app, "redis://127.0.0.1:1/0")
    service.client().enqueue("shop.hooked")
    service.client().enqueue("shop.note", [1])
    service.run_due()
    assert (calls, ended) == ([[1]], ["SUCCESS"])


def test_a_run_can_be_cancelled_retried_missed_and_given_a_key(service: Service, calls: list[Any]) -> None:
    client = service.client()
    cancelled = client.cancel(client.enqueue("shop.note")["run_id"])
    assert cancelled["state"] == "cancelled"
    again = client.retry(cancelled["run_id"])
    assert again["retry_of"] == cancelled["run_id"]
    with pytest.raises(ApiError, match="only a final run can be run again"):
        client.retry(again["run_id"])
    key = {"idempotency_key": "one"}
    assert client.enqueue("shop.note", [1], **key)["run_id"] == client.enqueue("shop.note", [1], **key)["run_id"]
    with pytest.raises(ApiError, match=r"was used for another request \(HTTP 409\)"):
        client.enqueue("shop.note", [2], **key)
    client.enqueue("shop.note", start_within="5m", run_at="2026-12-01T00:10:00Z")
    service.run_due()
    service.advance("16m")
    assert service.run_due() == []
    assert client.runs(state="missed")["items"][0]["reason"].startswith("start_within: not started by")


def test_runs_carry_limits_that_nothing_defined(service: Service) -> None:
    limits = ["api", {"name": "tenant", "key": "acme"}]
    for run_id in (
        enqueue_in(None, "shop.note", limits=limits),
        service.client().enqueue("shop.note", limits=limits)["run_id"],
    ):
        assert service.client().run(run_id)["limits"] == limits
    assert service.client().run(enqueue_in(None, "shop.note", fair_key="a"))["fair_key"] == "a"


def test_enqueue_in_knows_keys_and_deadlines(service: Service) -> None:
    first = enqueue_in(None, "shop.note", [1], idempotency_key="two")
    assert enqueue_in(None, "shop.note", [1], idempotency_key="two") == first
    with pytest.raises(Conflict, match="another request"):
        enqueue_in(None, "shop.note", [2], idempotency_key="two")
    with pytest.raises(BadValues, match="start_within is over"):
        enqueue_in(None, "shop.note", run_at="2026-11-01T00:00:00Z", start_within="1h")
    with pytest.raises(BadValues, match="priority"):
        enqueue_in(None, "shop.note", priority=11)


def test_enqueue_many_in_knows_them_too(service: Service, calls: list[Any]) -> None:
    keyed: dict[str, Any] = {"task": "shop.note", "args": ["keyed"], "headers": {"a": 1}, "idempotency_key": "three"}
    known = enqueue_in(None, keyed["task"], ["keyed"], headers={"a": 1}, idempotency_key="three")
    ids = enqueue_many_in(None, [{"task": "shop.note", "timeout": timedelta(hours=1)}, keyed, {"task": "shop.note"}])
    assert ids == [run["run_id"] for run in (service.runs[1], service.runs[0], service.runs[2])]
    assert ids[1] == known
    with pytest.raises(Conflict, match="another request"):
        enqueue_many_in(None, [{"task": "shop.note"}, {**keyed, "args": []}])
    over = {"task": "shop.note", "run_at": "2026-11-01T00:00:00Z", "start_within": "1h"}
    with pytest.raises(BadValues, match=r"runs\.1\.run_at: .* start_within is over"):
        enqueue_many_in(None, [{"task": "shop.note"}, over])
    assert len(service.run_due()) == 3


def test_the_asynchronous_ones_are_served_too(service: Service, calls: list[Any]) -> None:
    async def program() -> list[str]:
        first = await enqueue_in_async(None, "shop.note", [1], idempotency_key="four")
        return [first, *await enqueue_many_in_async(object(), [{"task": "shop.note", "args": [2]}])]

    assert asyncio.run(program()) == [run["run_id"] for run in service.run_due()]
    assert calls == [[1], [2]]


def test_scheduled_jobs_are_due_by_the_real_schedules(service: Service, app: Celery) -> None:
    seen: list[Any] = []

    @declare.cron("30 2 * * *", timezone="Europe/Berlin", end_at="2027-03-29T12:00:00Z", job_id="nightly")
    @declare.interval("10m", offset="1m", job_id="often", end_at="2026-12-01T00:30:00Z", args=["often"])
    @app.task(name="shop.overview", shared=False)
    def report(kind: str = "whole") -> None:
        run = current_run()
        assert run is not None
        seen.append((run.job_id, kind, run.scheduled_at.isoformat()))

    assert [job["job_id"] for job in service.apply_jobs()] == ["often", "nightly"]
    service.advance("30m")
    service.run_due()
    assert [at for _, _, at in seen] == ["2026-12-01T00:11:00+00:00", "2026-12-01T00:21:00+00:00"]
    service.assert_enqueued("shop.overview", times=0)
    seen.clear()
    service.advance_to("2027-03-27T12:00:00Z")
    service.run_due()
    seen.clear()
    service.advance_to("2027-06-01T00:00:00Z")
    service.run_due()
    assert seen == [
        ("nightly", "whole", "2027-03-28T01:00:00+00:00"),  # the clocks skip 02:30
        ("nightly", "whole", "2027-03-29T00:30:00+00:00"),
    ]


def test_a_programs_own_jobs_are_stored_paused_triggered_and_deleted(service: Service, calls: list[Any]) -> None:
    client = service.client()
    body = {"task": "shop.note", "schedule": {"kind": "hourly", "minute": 17}, "kwargs": {"password": "p"}}
    assert client.put_job("a", body)["schedule"] == {"kind": "hourly", "minute": 17, "timezone": "UTC"}
    service.advance("1h")
    client.pause_job("a", reason="holiday")
    service.advance("1h")
    client.resume_job("a")
    service.advance("1h")
    client.trigger("a", {"password": "q"})
    service.run_due()
    assert calls == [["p"], ["p"], ["q"]]
    service.assert_enqueued("shop.note", kwargs={"password": "q"}, times=1)
    client.put_job("b", {**body, "schedule": {"kind": "interval", "every": "25m", "balanced": True}})
    client.delete_job("a")
    service.advance("25m")
    assert [run["job_id"] for run in service.run_due()] == ["b"]
    with pytest.raises(ApiError, match=r"schedule\.expr"):
        client.put_job("c", {"task": "t", "schedule": {"kind": "cron", "expr": "61 * * * *"}})
    with pytest.raises(ItineraryError, match="more than 10000 runs would fall due; advance in smaller steps"):
        service.advance("365d")


def test_its_runs_and_jobs_are_those_of_the_client(service: Service, calls: list[Any]) -> None:
    service.client().enqueue("shop.note", [1])
    (asked,) = service.assert_enqueued("shop.note")
    assert (asked.state, asked.due_at, asked.error) == ("scheduled", service.now, None)
    (ran,) = service.run_due()
    assert (ran.result, ran.attempts[0].outcome, ran["state"]) == ([None, 1], "completed", "completed")
    assert service.runs == [ran] == [service.client().run(ran.run_id)]
    declare.hourly(17, job_id="often")(service._loaded().tasks["shop.note"])
    (job,) = service.apply_jobs()
    assert (job.job_id, job.paused, job["schedule"]["minute"]) == ("often", False, 17)


def test_what_it_does_not_answer_is_refused_by_name(service: Service) -> None:
    with pytest.raises(ApiError, match=r"does not answer GET /scheduler/status; test that with a real service"):
        service.client().status()
    with pytest.raises(ItineraryError, match=r"this needs the app: Service\(app\)"):
        Service().run_due()


ALONE = """
import sys
from itinerary import Client
from itinerary.testing import Service
assert not {"celery", "kombu", "redis", "pytest"} & set(sys.modules), "importing the kit loads nothing heavy"
sys.modules["scheduler_service"] = None  # as where it is not installed
from celery import Celery

app = Celery("shop")

@app.task(name="shop.add")
def add(a, b):
    return a + b

with Service(app, now="2026-12-01T00:00:00Z") as service:
    Client().enqueue("shop.add", [2, 3], run_at="2026-12-01T01:00:00Z")
    service.advance("1h")
    print(service.run_due()[0]["result"])
    try:
        Client().put_job("a", {"task": "shop.add", "schedule": {"kind": "hourly", "minute": 1}})
    except Exception as exc:
        print(exc)
"""


@pytest.mark.slow
def test_it_works_with_the_small_package_alone_but_for_scheduled_jobs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ALONE], env=project_env(), cwd=REPOSITORY, capture_output=True, text=True
    )
    assert ended.stderr == ""
    first, second = ended.stdout.splitlines()
    assert first == "5"
    assert second.startswith("scheduled jobs need itinerary-server in the environment of the test")
