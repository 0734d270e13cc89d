"""The worker's span: sent before a pool's child is gone, and nothing at all where tracing is off or not installed."""

import sys
from pathlib import Path

import pytest

from scheduler_service.core.leader.messages import Succeeded
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.processes import CHECKOUT, WARM_STOP, Child, free_port, project_env
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

pytestmark = pytest.mark.slow
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OWN_PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from itinerary.telemetry import tracing
from itinerary.worker.tracing import begin

print(tracing.tracer("another part"))
exporter, provider = InMemorySpanExporter(), TracerProvider(resource=Resource({"service.name": "shop"}))
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
begin("itinerary.echo", {}).end("succeeded", None, 2**62)
spans = exporter.get_finished_spans()
print([span.name for span in spans], spans[0].resource.attributes["service.name"])
"""
WITHOUT_OTEL = 'import sys\nsys.modules["opentelemetry"] = None\n'


@pytest.fixture
def bench(redis_server: RedisServer, tmp_path: Path) -> Bench:
    return Bench(redis_server.url, tmp_path)


@pytest.mark.redis
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_worker_that_is_stopped_sends_what_it_has(bench: Bench, pool: str) -> None:
    with OtlpReceiver() as collector, bench:
        never = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "600000"}
        worker = bench.own_worker("-c", "1", "--pool", pool, **never)
        bench.publish(dispatched("told", "itinerary.echo", traceparent=PARENT))
        bench.report_of("told", Succeeded)
        assert worker.stop(WARM_STOP) == 0
        (span,) = collector.spans
    assert (span.name, span.service) == ("run itinerary.echo", "itinerary-worker")
    assert f"00-{span.trace_id}-{span.parent}-01" == PARENT


@pytest.mark.redis
def test_a_collector_that_is_away_keeps_no_task_waiting(bench: Bench) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with bench:
        bench.own_worker("-c", "1", **away)
        for number in range(3):
            bench.publish(dispatched(f"run-{number}", "itinerary.echo", traceparent=PARENT))
            bench.report_of(f"run-{number}", Succeeded)


@pytest.mark.redis
def test_a_worker_without_the_extra_runs_what_bears_a_trace(bench: Bench, tmp_path: Path) -> None:
    with OtlpReceiver() as collector, bench:
        worker = bench.own_worker("-c", "1", **without_the_extra(tmp_path, collector.endpoint))
        bench.publish(dispatched("told", "itinerary.echo", traceparent=PARENT))
        bench.report_of("told", Succeeded)
        worker.wait_for_line("the extra otel is not installed")
        assert collector.spans == []


def test_where_tracing_is_off_nothing_of_it_is_imported() -> None:
    off = (
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    )
    asked = (
        "import os, sys, itinerary.client.sync, scheduler_service.api.http.serve, scheduler_service.bootstrap.parts\n"
        "from itinerary.telemetry import tracing\n"
        "bare = dict(os.environ)\n"
        f"for number, settings in enumerate({off!r}):\n"
        "    os.environ.clear()\n"
        "    os.environ.update(bare | settings)\n"
        "    told = tracing.tracer(f'part {number}')  # asked once of each part\n"
        "    print(told, 'opentelemetry.sdk.trace' in sys.modules)"
    )
    with Child([sys.executable, "-c", asked], env=project_env()) as child:
        assert child.wait() == 0
        assert child.output.splitlines() == ["None False"] * 3


def test_a_program_that_traces_by_itself_gets_the_spans_where_it_wants_them() -> None:
    with Child([sys.executable, "-c", OWN_PROVIDER], env=project_env()) as child:
        assert child.wait() == 0
        assert child.output.splitlines() == ["None", "['run itinerary.echo'] shop"]


@pytest.mark.parametrize(
    ("command", "name", "value", "allowed"),
    [
        ("api", "OTEL_TRACES_EXPORTER", "zipkin", "otlp, console or none"),
        ("worker", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/"),
    ],
)
def test_an_exporter_that_is_not_there_is_refused_at_start(
    redis_url: str, command: str, name: str, value: str, allowed: str
) -> None:
    settings = {"ITINERARY_REDIS_URL": redis_url, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", name: value}
    settings["ITINERARY_API_PORT"] = str(free_port())
    with Child([sys.executable, "-m", "scheduler_service.cli", command], env=project_env(**settings)) as part:
        assert part.wait() in (1, 2)
        assert name in part.output
        assert allowed in part.output


def without_the_extra(folder: Path, endpoint: str) -> dict[str, str]:
    """The environment of a process that finds no OpenTelemetry, and is asked to trace."""
    (folder / "sitecustomize.py").write_text(WITHOUT_OTEL)
    return {"PYTHONPATH": f"{folder}:{CHECKOUT}", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
