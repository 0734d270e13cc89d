"""A run's message is as if Celery had sent it: its shadow, and its result in the app's own backend."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from celery.result import AsyncResult

from scheduler_service.core.leader.messages import Failed, RetryAsked, Succeeded
from tests.support.processes import PATIENCE, Child, free_port, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

pytestmark = [pytest.mark.slow, pytest.mark.redis]
SECRETS = {"PASSWORD": "hunter2", "ITINERARY_SECRET_ENV_NAMES": "PASSWORD"}


@pytest.fixture(scope="module", params=["prefork", "threads"])
def pool(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def bench(pool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with (
        RedisServer(tmp_path_factory.mktemp("redis")) as server,
        Bench(server.url, tmp_path_factory.mktemp("bench")) as bench,
    ):
        yield bench


@pytest.fixture(scope="module")
def worker(pool: str, bench: Bench) -> Child:
    return bench.worker("-c", "1", "-E", "-P", pool, RESULT_BACKEND=bench.url, **SECRETS)


@pytest.fixture(scope="module")
def asker(bench: Bench) -> Iterator[Celery]:
    """The user's other program."""
    app = Celery("asker", broker=bench.url, backend=bench.url, set_as_current=False)
    yield app
    app.close()


def test_the_app_s_backend_has_each_attempt_under_its_task_id(bench: Bench, worker: Child, asker: Celery) -> None:
    bench.publish(dispatched("added", "user.add", 1, 2))
    result = AsyncResult("added~1", app=asker)
    assert (result.get(timeout=PATIENCE), result.state, result.name) == (3, "SUCCESS", "user.add")
    bench.publish(dispatched("failing", "user.fails", 3), dispatched("again", "user.asks_again", 1))
    bench.report_of("failing", Failed)
    bench.report_of("again", RetryAsked)
    failed, retried = AsyncResult("failing~1", app=asker), AsyncResult("again~1", app=asker)
    wait_until(lambda: (failed.state, retried.state) == ("FAILURE", "RETRY"))
    bench.publish(dispatched("unfit", "user.returns", "odd"))
    assert bench.report_of("unfit", Failed).error["type"] == "kombu.exceptions.EncodeError"
    assert repr(failed.result) == "ValueError('no good: xxx')"


def test_started_is_stored_by_the_delivery_with_the_claim_alone(bench: Bench, worker: Child, asker: Celery) -> None:
    run = dispatched("gated", "user.gated", bench.gate("started"))
    bench.publish(run)
    bench.witnessed("gated gated~1")
    assert AsyncResult("gated~1", app=asker).state == "STARTED"
    bench.open_gate("started")
    bench.publish(dispatched("over", "user.fails", 3, seq=7_000_002))
    bench.report_of("over", Failed)
    bench.publish(dispatched("over", "user.fails", 3, seq=7_000_002))  # its claim is refused
    bench.publish(dispatched("last", "user.add", 1, 2, seq=7_000_003))
    assert AsyncResult("last~1", app=asker).get(timeout=PATIENCE) == 3
    assert AsyncResult("over~1", app=asker).state == "FAILURE"


def test_nothing_is_stored_where_the_task_ignores_it_or_an_argument_is_a_secret(
    bench: Bench, worker: Child, asker: Celery
) -> None:
    bench.publish(
        dispatched("quiet", "user.report", "acme"),
        dispatched("secret", "user.tenant", kwargs={"password": {"$env": "PASSWORD"}}),
        dispatched("plain", "user.add", 1, 2),
    )
    for name in ("quiet", "secret", "plain"):
        bench.report_of(name, Succeeded)
    assert AsyncResult("plain~1", app=asker).get(timeout=PATIENCE) == 3
    with bench.client() as client:
        stored = {key: client.get(key) for key in client.keys("celery-task-meta-*")}  # type: ignore[union-attr]
    assert not [key for key in stored if "quiet" in key or "secret" in key]
    assert "hunter2" not in str(stored)


def test_a_task_s_shadow_name_and_a_run_s_own_shadow_name_it_in_the_log(bench: Bench, worker: Child) -> None:
    bench.publish(
        dispatched("named", "user.report", "acme"),
        dispatched("own", "user.report", "acme", headers={"shadow": "Nightly"}),
        dispatched("unnamed", "user.report", 7),
    )
    shadow = "report for ACME on default"
    assert bench.report_of("named", Succeeded).result == [shadow, ""]
    assert bench.report_of("own", Succeeded).result == ["Nightly", ""]
    assert bench.report_of("unnamed", Succeeded).result == [None, ""]
    worker.wait_for_line(f"Task {shadow}[named~1] received")
    worker.wait_for_line(f"Task {shadow}[named~1] succeeded")
    worker.wait_for_line("Task Nightly[own~1] received")
    worker.wait_for_line("shadow_name() of task user.report failed, and its run unnamed~1 has no shadow")


def test_a_backend_that_is_away_hides_no_error_of_a_task(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, Bench(server.url, tmp_path) as bench:
        bench.worker("-P", "solo", RESULT_BACKEND=f"redis://127.0.0.1:{free_port()}/0")
        bench.publish(
            dispatched("failing", "user.fails", 3),
            dispatched("again", "user.asks_again", 1),
            dispatched("good", "user.add", 1, 2),
        )
        assert bench.report_of("failing", Failed).error["type"] == "ValueError"
        assert bench.report_of("again", RetryAsked).error is None
        assert bench.report_of("good", Succeeded).result == 3


def test_flower_hears_of_the_shadow(bench: Bench, worker: Child) -> None:
    names: list[str] = []
    with bench.app.connection_for_read() as connection:

        def received(event: dict[str, str]) -> None:
            if event["uuid"] == "heard~1":  # others come from an earlier test: a worker sends events a little later
                names.append(event["name"])
                receiver.should_stop = True

        def alive(event: dict[str, str]) -> None:
            bench.publish(dispatched("heard", "user.report", "acme"))  # what is sent now reaches this receiver

        receiver = bench.app.events.Receiver(connection, {"task-received": received, "worker-heartbeat": alive})
        receiver.capture(limit=None, timeout=PATIENCE, wakeup=False)
    assert set(names) == {"report for ACME on default"}
