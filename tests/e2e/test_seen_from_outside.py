"""What other tools see of a running system: traces as a collector gets them, and tasks as Flower shows them."""

import base64
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

import pytest
from opentelemetry.sdk.trace import TracerProvider

from itinerary.client.sync import ApiError, Client
from itinerary.protocol.instants import parse_instant
from itinerary.protocol.trace_ids import trace_id_of
from tests.support.otlp_receiver import OtlpReceiver, Received
from tests.support.processes import PATIENCE, wait_until
from tests.support.running import Running

pytestmark = pytest.mark.e2e
APP = "tests.e2e.traced_app:app"
PASSWORD = "open sesame"
CALLER = TracerProvider().get_tracer("a program that enqueues")


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, collector: OtlpReceiver) -> Iterator[Running]:
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "ITINERARY_FLOWER_PASSWORD": PASSWORD,
        "ITINERARY_TRACE_URL": "https://traces.example/{trace_id}",
    }
    with Running(tmp_path_factory.mktemp("seen") / "data", "--app", APP, **settings) as up:
        yield up


@pytest.fixture(scope="module")
def client(system: Running) -> Iterator[Client]:
    with system.client() as client:
        yield client


@pytest.fixture
def spans(system: Running, collector: OtlpReceiver) -> Callable[..., list[Received]]:
    """The spans of a run, once these and no others have come."""

    def wait_for(run_id: str, *names: str) -> list[Received]:
        wait_until(
            lambda: len(collector.of_run(run_id)) >= len(names),
            what=lambda: f"{names} in {collector.of_run(run_id)}\n{system.output}",
        )
        found = collector.of_run(run_id)
        assert [span.name for span in found] == list(names)
        return found

    return wait_for


def test_a_run_is_one_trace_from_who_enqueued_it_to_its_own_spans(
    client: Client, collector: OtlpReceiver, system: Running, spans: Callable[..., list[Received]]
) -> None:
    with CALLER.start_as_current_span("checkout") as checkout:
        run = client.enqueue("shop.order", kwargs={"number": 1})
    caller = checkout.get_span_context()
    done = client.wait(run["run_id"], timeout=PATIENCE)
    enqueued, dispatched, ran = spans(run["run_id"], "enqueue shop.order", "dispatch shop.order", "run shop.order")
    (own,) = [span for span in collector.spans if span.parent == ran.span_id]

    assert own.name == "look into the stock"
    assert [span.parent for span in (enqueued, dispatched, ran)] == [
        f"{caller.span_id:016x}", enqueued.span_id, dispatched.span_id
    ]  # fmt: skip
    assert {span.trace_id for span in (enqueued, dispatched, ran, own)} == {f"{caller.trace_id:032x}"}
    assert [span.service for span in (enqueued, dispatched, ran, own)] == [
        "itinerary-api", "itinerary-leader", "itinerary-worker", "itinerary-worker"
    ]  # fmt: skip
    assert [span.kind for span in (enqueued, dispatched, ran)] == ["PRODUCER", "PRODUCER", "CONSUMER"]
    assert dispatched.start == parse_instant(done["due_at"]) * 1000
    assert dispatched.start <= dispatched.event_times["pending"] <= dispatched.end
    assert parse_instant(done["pending_at"]) * 1000 <= dispatched.event_times["pending"]
    assert enqueued.start <= dispatched.start <= ran.start <= own.start <= own.end <= ran.end
    assert ran.attributes["itinerary.outcome"] == "succeeded"
    assert ran.attributes["messaging.message.id"] == f"{run['run_id']}~1"
    assert not any(span.failed for span in (enqueued, dispatched, ran, own))
    assert f'href="https://traces.example/{ran.trace_id}"' in page(f"{system.written['api_url']}/runs/{run['run_id']}")


def test_each_attempt_of_a_failing_task_is_told_with_its_error(
    client: Client, spans: Callable[..., list[Received]]
) -> None:
    run = client.enqueue("shop.refuse", retry={"max_attempts": 2, "initial": "1s", "jitter": False})
    client.wait(run["run_id"], timeout=PATIENCE)
    attempt = ("dispatch shop.refuse", "run shop.refuse")
    enqueued, first, ran, second, again = spans(run["run_id"], "enqueue shop.refuse", *attempt, *attempt)
    assert {first.parent, second.parent} == {enqueued.span_id}
    assert (ran.parent, again.parent) == (first.span_id, second.span_id)
    assert [span.attributes["itinerary.attempt"] for span in (first, ran, second, again)] == [1, 1, 2, 2]
    for failed in (ran, again):
        assert failed.failed
        assert failed.attributes["itinerary.outcome"] == "failed"
        assert failed.events["exception"]["exception.message"] == "no such article"
    assert not enqueued.failed
    assert second.start >= ran.end


def test_what_a_task_enqueues_belongs_to_its_trace(
    client: Client, system: Running, spans: Callable[..., list[Received]]
) -> None:
    run = client.enqueue("shop.follow", kwargs={"api": system.written["api_url"]})
    next_run = client.wait(run["run_id"], timeout=PATIENCE)["result"]
    *_, ran = spans(run["run_id"], "enqueue shop.follow", "dispatch shop.follow", "run shop.follow")
    enqueued, *_ = spans(next_run, "enqueue shop.order", "dispatch shop.order", "run shop.order")
    assert (enqueued.trace_id, enqueued.parent) == (ran.trace_id, ran.span_id)


def test_a_scheduled_run_has_the_trace_that_its_id_stands_for(
    client: Client, system: Running, spans: Callable[..., list[Received]]
) -> None:
    client.put_job("often", {"task": "shop.order", "args": [3], "schedule": {"kind": "interval", "every": "2s"}})
    run = wait_until(lambda: client.runs(job_id="often", state="completed")["items"], what=lambda: system.output)[-1]
    client.delete_job("often")
    dispatched, ran = spans(run["run_id"], "dispatch shop.order", "run shop.order")
    trace_id = trace_id_of(run["run_id"], None)
    assert (dispatched.trace_id, ran.trace_id) == (trace_id, trace_id)
    assert (dispatched.parent, ran.parent) == ("", dispatched.span_id)
    assert dispatched.attributes["itinerary.job_id"] == "often"


@pytest.fixture(scope="module")
def flower(system: Running) -> str:
    """Where Flower answers, once it hears events: it answers some seconds before."""
    system.wait_for("flower")
    url: str = system.written["flower_url"]
    wait_until(lambda: "heartbeats" in page(f"{url}/workers?json=1", PASSWORD), what=lambda: system.output, every=0.2)
    return url


@pytest.mark.parametrize("password", [None, "open says me"])
@pytest.mark.parametrize("path", ["/", "/tasks", "/api/tasks", "/api/workers"])
def test_flower_asks_for_the_password_of_the_settings(flower: str, path: str, password: str | None) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        page(flower + path, password)
    assert page(flower + path, PASSWORD)


def test_flower_shows_each_attempt_under_its_own_id_with_its_task_and_state(
    client: Client, system: Running, flower: str
) -> None:
    good = client.enqueue("shop.order", kwargs={"number": 4})["run_id"]
    bad = client.enqueue("shop.refuse", retry={"max_attempts": 2, "initial": "1s"})["run_id"]
    long = client.enqueue("shop.wait")["run_id"]
    _has_state(system, flower, f"{long}~1", "STARTED")
    client.cancel(long)
    for task_id, name, state in [
        (f"{good}~1", "shop.order", "SUCCESS"),
        (f"{bad}~1", "shop.refuse", "FAILURE"),
        (f"{bad}~2", "shop.refuse", "FAILURE"),
        (f"{long}~1", "shop.wait", "REVOKED"),
    ]:
        _has_state(system, flower, task_id, state)
        known = shown(flower, f"/api/task/info/{quote(task_id)}")
        assert (known["uuid"], known["name"], known["worker"]) == (task_id, name, worker_of(client))
    assert shown(flower, f"/api/task/info/{quote(good)}~1")["kwargs"] == "{'number': 4}"
    assert shown(flower, f"/api/task/info/{quote(bad)}~1")["exception"] == "ValueError('no such article')"


def test_flower_shows_the_queues_that_the_workers_consume(client: Client, flower: str) -> None:
    name = worker_of(client)

    def asked() -> Any:  # Flower gives its workers a second to answer
        return shown(flower, "/api/workers?refresh=true").get(name, {}).get("active_queues")

    consumed = sorted(queue["name"] for queue in wait_until(asked, what="the worker to tell its queues"))
    assert consumed == ["celery", "default"]
    lengths = shown(flower, "/api/queues/length")["active_queues"]
    assert sorted(queue["name"] for queue in lengths) == consumed
    assert {queue["messages"] for queue in lengths} == {0}


def test_a_runs_page_leads_to_its_tasks_in_flower(client: Client, system: Running, flower: str) -> None:
    run_id = client.enqueue("shop.refuse", retry={"max_attempts": 2, "initial": "1s"})["run_id"]
    client.wait(run_id, timeout=PATIENCE)
    _has_state(system, flower, f"{run_id}~2", "FAILURE")
    linked = links_of(system, run_id)
    assert set(linked) == {f"{flower}/task/{run_id}~{attempt}" for attempt in (1, 2)}
    for link in linked:
        text = page(link, PASSWORD)
        assert link.rpartition("/")[2] in text
        assert "shop.refuse" in text
        assert "FAILURE" in text


def test_so_does_that_of_a_scheduled_run_with_a_time_in_its_id(client: Client, system: Running, flower: str) -> None:
    at = datetime.now(UTC) + timedelta(seconds=1)
    client.put_job("once", {"task": "shop.order", "args": [5], "schedule": {"kind": "once", "at": at.isoformat()}})
    run = wait_until(lambda: client.runs(job_id="once", state="completed")["items"], what=lambda: system.output)[0]
    _has_state(system, flower, f"{run['run_id']}~1", "SUCCESS")
    assert ":" in run["run_id"]
    for link in links_of(system, run["run_id"]):
        assert f"{run['run_id']}~1" in page(link, PASSWORD)


def worker_of(client: Client) -> str:
    """The name of the one worker; the leader's answer may come too late for the API."""

    def asked() -> str:
        with suppress(ApiError):
            return str(client.workers()[0]["name"])
        return ""

    return wait_until(asked, what="the leader to answer")


def _has_state(system: Running, flower: str, task_id: str, state: str) -> None:
    """Wait until Flower shows this state of the task."""
    seen = lambda: f"{task_id} to be {state}\n{system.output}"  # noqa: E731
    wait_until(lambda: state_in(flower, task_id) == state, what=seen, every=0.2)


def links_of(system: Running, run_id: str) -> list[str]:
    """Where a run's page leads to, in Flower."""
    paths = re.findall(r'href="/flower\?to=([^"]*)"', page(f"{system.written['api_url']}/runs/{quote(run_id)}"))
    assert paths
    return [system.written["flower_url"] + unquote(path) for path in paths]


def state_in(flower: str, task_id: str) -> str | None:
    """The task's state as Flower has it; None where it knows no such task."""
    try:
        state: str = shown(flower, f"/api/task/info/{quote(task_id)}")["state"]
    except urllib.error.HTTPError as exc:
        if exc.code != 404:
            raise
        return None
    return state


def shown(flower: str, path: str) -> Any:
    return json.loads(page(flower + path, PASSWORD))


def page(url: str, password: str | None = None) -> str:
    """What a browser gets there, with the login where one is given."""
    request = urllib.request.Request(url)
    if password is not None:
        login = base64.b64encode(f"itinerary:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
    return text
