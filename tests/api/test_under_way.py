"""What computes in the background gives way to requests: counting of requests, and the calendar's count."""

import asyncio
import sys
import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from itinerary.protocol.instants import HOUR
from scheduler_service.api.http.under_way import RequestsUnderWay, UnderWay
from scheduler_service.api.services.plans import PlanFilter, Plans
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.ports.stores import JobFilter, Page
from scheduler_service.sql.database import host_now
from tests.api.test_pages_plan import SlowJobs
from tests.support.processes import wait_until


def test_a_request_is_under_way_until_its_answer_begins() -> None:
    requests, seen = RequestsUnderWay(), []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(requests.any)
        await send({"type": "http.response.start"})
        seen.append(requests.any)
        await send({"type": "http.response.body"})

    asked(UnderWay(app, requests))
    assert (seen, requests.any) == ([True, False], False)


def test_a_request_that_breaks_is_over() -> None:
    requests = RequestsUnderWay()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asked(UnderWay(app, requests))
    assert not requests.any


def test_threads_take_short_turns_while_a_count_runs(api: TestClient, stores: Stores, job: dict[str, Any]) -> None:
    usual, seen = sys.getswitchinterval(), list[float]()

    class Jobs(SlowJobs):
        def list(self, wanted: JobFilter, limit: int, cursor: str | None) -> Page[Any]:
            seen.append(sys.getswitchinterval())
            return super().list(wanted, limit, cursor)

    assert api.post("/api/v1/jobs", json=job).status_code == 201
    now, jobs = host_now(), Jobs(stores.jobs)
    jobs.may_answer.set()
    assert Plans().counted(jobs, None, PlanFilter(), [now, now + HOUR], now, patience=60.0)  # type: ignore[arg-type]
    assert seen == [pytest.approx(0.0005)]
    wait_until(lambda: sys.getswitchinterval() == usual, what="the usual turns")


def test_a_page_waits_only_for_the_beginning_of_a_count(stores: Stores) -> None:
    clock = [0.0]
    now, jobs = host_now(), SlowJobs(stores.jobs)
    plans = Plans(clock=lambda: clock[0], patience=3600.0)
    clock[0] = 3600.0
    jobs.may_answer.set()
    wanted: Any = (jobs, None, PlanFilter(), [now, now + HOUR], now)
    assert plans.counted(*wanted) is not None, "the first one waited"
    jobs.may_answer.clear()
    beside: Any = (jobs, None, PlanFilter(queue="other"), [now, now + HOUR], now)
    asking = threading.Thread(target=plans.counted, args=beside)
    asking.start()
    wait_until(lambda: jobs.asked == 2, what="a second count")
    clock[0] = 7200.0
    assert plans.counted(*beside) is None, "it came an hour after the count began"
    jobs.may_answer.set()
    asking.join()


def asked(app: UnderWay) -> None:
    async def receive() -> Message:
        return {}

    async def send(_: Message) -> None: ...

    asyncio.run(app({"type": "http"}, receive, send))


def test_what_gives_way_goes_on_when_requests_never_end() -> None:
    requests = RequestsUnderWay(longest=0.001)
    requests.begin()
    assert list(requests.between(range(7), 3)) == list(range(7))


def test_a_count_waits_for_requests_but_not_for_those_that_wait_for_it(
    api: TestClient, stores: Stores, job: dict[str, Any]
) -> None:
    assert api.post("/api/v1/jobs", json=job).status_code == 201
    now, requests, jobs = host_now(), RequestsUnderWay(longest=60), SlowJobs(stores.jobs)
    plans = Plans(requests=requests)
    jobs.may_answer.set()
    requests.begin()
    requests.begin()
    wanted: Any = (jobs, None, PlanFilter(), [now, now + HOUR], now)
    assert plans.counted(*wanted) is None
    assert jobs.asked == 0, "it reads beside a request"
    requests.end()
    found = plans.counted(*wanted, patience=30.0)
    assert found is not None
    assert found.jobs == 1
