"""What other tools see of a running system: traces as a collector gets them, and tasks as Flower shows them."""

import base64
import urllib.request
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider

from scheduler_service.client import Client
from scheduler_service.core.instants import parse_instant
from scheduler_service.core.trace_ids import trace_id_of
from tests.support.otlp_receiver import OtlpReceiver, Received
from tests.support.processes import wait_until
from tests.support.running import Running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
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
            20,
            lambda: f"{names} in {collector.of_run(run_id)}\n{system.output}",
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
    done = client.wait(run["run_id"])
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
    client.wait(run["run_id"])
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
    next_run = client.wait(run["run_id"])["result"]
    *_, ran = spans(run["run_id"], "enqueue shop.follow", "dispatch shop.follow", "run shop.follow")
    enqueued, *_ = spans(next_run, "enqueue shop.order", "dispatch shop.order", "run shop.order")
    assert (enqueued.trace_id, enqueued.parent) == (ran.trace_id, ran.span_id)


def test_a_scheduled_run_has_the_trace_that_its_id_stands_for(
    client: Client, system: Running, spans: Callable[..., list[Received]]
) -> None:
    client.put_job("often", {"task": "shop.order", "args": [3], "schedule": {"kind": "interval", "every": "2s"}})
    run = wait_until(lambda: client.runs(job_id="often", state="completed")["items"], 30, lambda: system.output)[-1]
    client.delete_job("often")
    dispatched, ran = spans(run["run_id"], "dispatch shop.order", "run shop.order")
    trace_id = trace_id_of(run["run_id"], None)
    assert (dispatched.trace_id, ran.trace_id) == (trace_id, trace_id)
    assert (dispatched.parent, ran.parent) == ("", dispatched.span_id)
    assert dispatched.attributes["itinerary.job_id"] == "often"


def page(url: str, password: str | None = None) -> str:
    """What a browser gets there, with the login where one is given."""
    request = urllib.request.Request(url)
    if password is not None:
        login = base64.b64encode(f"itinerary:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    with urllib.request.urlopen(request, timeout=15) as answer:
        text: str = answer.read().decode()
    return text
