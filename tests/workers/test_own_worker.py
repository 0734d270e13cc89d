"""`python -m itinerary`: the product's worker with its built-in tasks, and somebody else's app under it."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import celery
import pytest
import redis

from itinerary.protocol.keys import Keys
from itinerary.protocol.progress import Progress
from itinerary.protocol.wire import PROTOCOL
from scheduler_service.core.leader.messages import Failed, Heartbeat, Succeeded
from tests.support.processes import PATIENCE, Child, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

KEYS = Keys()

pytestmark = [pytest.mark.slow, pytest.mark.redis]

USER_APP = "tests.workers.userapp:app"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, Child]]:
    folder = tmp_path_factory.mktemp("own")
    with RedisServer(folder) as server, Bench(server.url, folder) as bench:
        yield bench, bench.own_worker("-c", "2")


@pytest.fixture
def bench(own: tuple[Bench, Child]) -> Bench:
    return own[0]


@pytest.fixture
def worker(own: tuple[Bench, Child]) -> Child:
    return own[1]


def test_echo_returns_its_arguments(bench: Bench) -> None:
    bench.publish(dispatched("echo", "itinerary.echo", 1, "two", kwargs={"three": [4]}))
    assert bench.report_of("echo", Succeeded).result == {"args": [1, "two"], "kwargs": {"three": [4]}}


def test_a_failing_task_succeeds_from_the_attempt_it_was_told(bench: Bench) -> None:
    bench.publish(
        *(dispatched("fail", "itinerary.fail", "so be it", kwargs={"until_attempt": 3}, attempt=n) for n in (1, 2, 3))
    )
    assert bench.report_of("fail", Failed, attempt=1).error["message"] == "so be it"
    assert bench.report_of("fail", Failed, attempt=2).error["type"] == "RuntimeError"
    assert bench.report_of("fail", Succeeded, attempt=3).result == {"attempt": 3}


def test_a_sleeping_task_sees_that_it_is_cancelled(bench: Bench) -> None:
    bench.publish(dispatched("sleep", "itinerary.sleep", 600))
    bench.next_heartbeat("sleep")
    bench.claims.flag(["sleep~1"])
    assert bench.report_of("sleep", Failed).error["type"] == "itinerary.RunCancelled"


def test_a_short_sleep_ends_by_itself(bench: Bench) -> None:
    bench.publish(dispatched("nap", "itinerary.sleep", 0.05))
    report = bench.report_of("nap", Succeeded)
    assert (report.result, report.progress) == ({"slept": 0.05}, Progress(0.05, 0.05, "s"))


def test_a_call_to_this_machine_is_refused(bench: Bench) -> None:
    bench.publish(dispatched("inward", "itinerary.http", "http://127.0.0.1:1/"))
    assert "not public" in bench.report_of("inward", Failed).error["message"]


def test_no_argument_and_no_result_is_logged(bench: Bench, worker: Child) -> None:
    bench.publish(dispatched("secret", "itinerary.echo", "hunter2", kwargs={"token": "swordfish"}))
    bench.report_of("secret", Succeeded)
    worker.wait_for_line("[secret~1] succeeded")
    assert "hunter2" not in worker.output
    assert "swordfish" not in worker.output


def test_the_node_has_a_unique_name_and_consumes_default(bench: Bench) -> None:
    beat = bench.next_heartbeat()
    assert re.fullmatch(r"worker-[0-9a-f]{8}@[^%]+", beat.worker)
    assert beat.queues == ("default",)
    assert beat.concurrency == 2


def test_a_heartbeat_names_its_protocol(bench: Bench) -> None:
    """The leader takes what names none for the first protocol, so only the entry itself can tell."""
    bench.next_heartbeat()
    with bench.client() as client:
        entries: Any = client.xrange(KEYS.inbox)
    beats = [json.loads(fields["body"]) for _, fields in entries if fields["type"] == "heartbeat"]
    assert {beat["protocol"] for beat in beats} == {PROTOCOL}


def test_task_events_and_remote_control_are_on(bench: Bench) -> None:
    app = bench.app
    (answer,) = app.control.inspect(timeout=PATIENCE, limit=1).stats().values()
    assert answer["prefetch_count"] == 2
    assert not any(name.startswith("celery@") for name in app.control.inspect(timeout=1).ping() or {})


def test_somebody_elses_app_runs_its_own_queue_and_the_jobs(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, Bench(server.url, tmp_path) as bench:
        bench.own_worker("--app", USER_APP, "--pool", "threads", "-c", "2")
        beat = next(message for message in bench.messages if isinstance(message, Heartbeat))
        assert beat.queues == ("default", "userqueue")
        bench.publish(dispatched("theirs", "user.add", 2, 3), dispatched("queued", "user.add", 3, 4, queue="userqueue"))
        assert bench.report_of("theirs", Succeeded).result == 5
        assert bench.report_of("queued", Succeeded).result == 7


def test_a_thread_that_is_free_takes_the_next_message_at_once(tmp_path: Path, redis_server: RedisServer) -> None:
    """Its consumer waited for its next timer: 24 short tasks a second in two threads, 10 in one."""
    with Bench(redis_server.url, tmp_path) as bench:
        bench.own_worker("--pool", "threads", "-c", "1")
        bench.publish(*(dispatched(f"short-{n}", "itinerary.echo", n) for n in range(300)))
        bench.report_of("short-299", Succeeded)


def test_only_the_queues_asked_for_are_consumed(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, Bench(server.url, tmp_path) as bench:
        bench.own_worker("-Q", "slow,slower", "--pool", "solo")
        bench.publish(dispatched("elsewhere", "itinerary.echo"), dispatched("here", "itinerary.echo", queue="slower"))
        bench.report_of("here", Succeeded)
        assert bench.dispatcher.heads(["default"])["default"].length == 1


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no.such.module:app", "there is no module no in "),
        ("json:nothing", "the module json has no nothing; "),
        ("json.nothing", "there is no module json.nothing in "),
    ],
)
def test_an_app_that_cannot_be_loaded_is_a_wrong_call(bench: Bench, place: str, why: str) -> None:
    child = bench.spawn(["-m", "itinerary", "--app", place])
    assert child.wait() == 2
    assert f"--app: {place!r} is not accepted; {why}" in child.output


def test_a_worker_without_a_redis_is_told_what_to_set(bench: Bench) -> None:
    child = bench.spawn(["-m", "itinerary"], ITINERARY_REDIS_URL="")
    assert child.wait() == 2
    assert "ITINERARY_REDIS_URL" in child.output


@pytest.mark.skipif(celery.VERSION < (5, 6), reason="such a worker bounds what it takes by what is not acknowledged")
def test_no_copy_of_a_message_is_kept_in_redis_before_it_starts(bench: Bench) -> None:
    with bench.client() as client:
        before = calls(client, "zadd"), calls(client, "zrem")  # kombu's index of messages that are not acknowledged
        bench.publish(*(dispatched(f"lean{n}", "itinerary.echo") for n in range(5)))
        for n in range(5):
            bench.report_of(f"lean{n}", Succeeded)
        assert (calls(client, "zadd"), calls(client, "zrem")) == before


def test_events_reach_flower_with_the_run_in_the_task_id(bench: Bench) -> None:
    with successes(bench) as (seen, drain):
        bench.publish(dispatched("seen", "itinerary.echo"))
        wait_until(lambda: drain() or "seen~1" in seen, what=lambda: f"an event of seen~1 in {seen}")


def test_events_of_many_tasks_are_sent_together(bench: Bench) -> None:
    with successes(bench) as (seen, drain), bench.client() as client:
        before, began = calls(client, "publish"), time.monotonic()
        bench.publish(*(dispatched(f"many{n}", "itinerary.echo") for n in range(40)))
        wait_until(lambda: drain() or len(seen) == 40, what=lambda: f"40 events in {seen}")
        sent = calls(client, "publish") - before
    assert sent < 20 + 10 * (time.monotonic() - began), "120 events, and they were sent more than ten times a second"


def calls(client: redis.Redis, command: str) -> int:
    """How often this server was sent the command."""
    known: dict[str, Any] = client.info("commandstats").get(f"cmdstat_{command}", {})
    return int(known.get("calls", 0))


@contextmanager
def successes(bench: Bench) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """Task ids of `task-succeeded` events from now on, and what receives them."""
    seen: list[str] = []
    with bench.app.connection_for_read() as connection:
        receiver = bench.app.events.Receiver(
            connection, handlers={"task-succeeded": lambda event: seen.append(event["uuid"])}
        )
        with receiver.consumer_context() as (subscribed, _, _):

            def drain() -> None:
                with suppress(TimeoutError):
                    subscribed.drain_events(timeout=0.5)

            drain()
            yield seen, drain
