"""Everything that a user's tasks do, for the service and beside it, with each supported Celery, Python and pool."""

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.fresh_environment import CannotInstall, interpreter_of, skip_without_a_registry
from tests.support.matrix import WHOLE, Column, running_python
from tests.support.processes import WARM_STOP
from tests.workers.matrix.worker import Service, Shop

pytestmark = [pytest.mark.slow, pytest.mark.redis, pytest.mark.e2e]

STOPPABLE = ("prefork", "gevent")
# As the page on workers lists them; Celery 5.7 tells the two limits apart, too.
DIFFERENT = {
    "id", "root_id", "correlation_id", "reply_to", "properties", "origin", "argsrepr", "headers", "ignore_result",
    "timelimit",
}  # fmt: skip
TRIES = {"max_attempts": 2, "initial": "100ms", "jitter": False}


@pytest.fixture(scope="module")
def shop(combination: tuple[Column, str], service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A worker, with the runs that take their time under way."""
    column, pool = combination
    if not WHOLE and interpreter_of(column.python) is None:
        column = Column(column.celery, running_python())
    try:
        environment = column.environment(tmp_path_factory)
    except CannotInstall as exc:
        skip_without_a_registry(exc)
    folder = tmp_path_factory.mktemp("shop")
    shop = Shop(service, column, pool, environment.python, folder)
    with shop.children:
        shop.enqueue("retries", 2)
        shop.enqueue("flaky", 1)
        for number in range(4):
            shop.enqueue("rationed", "run", name=f"rationed {number}")
        yield shop


def test_the_wheel_is_what_runs(shop: Shop) -> None:
    run_id = shop.enqueue("where")
    run = shop.ended("where")
    assert (run["state"], run["attempt"], run["reason"]) == ("completed", 1, None)
    place, told, attempt = run["result"]
    assert Path(place).is_relative_to(Path(shop.python).parents[1])
    assert (told, attempt) == (run_id, 1)


def test_retry(shop: Shop) -> None:
    run = shop.ended("retries")
    assert (run["state"], run["attempt"], run["result"]) == ("completed", 3, [2, 3])
    mine = [line for line in shop.truth if line.startswith("retries ")]
    assert mine == [f"retries {run['run_id']}~{attempt} {3 - attempt}" for attempt in (1, 2, 3)]


def test_autoretry(shop: Shop) -> None:
    run = shop.ended("flaky")
    assert (run["state"], run["attempt"], run["result"]) == ("completed", 2, 1)


@pytest.mark.matrix
def test_autoretry_that_gives_up(shop: Shop) -> None:
    shop.enqueue("flaky", 9, name="worn")
    run = shop.ended("worn")
    assert (run["state"], run["attempt"], run["error"]["type"]) == ("failed", 3, "ConnectionError")


def test_a_request_is_as_if_celery_had_sent_the_run(shop: Shop) -> None:
    sender = shop.spawn(["shop"])
    shop.enqueue("mirror", "it", kwargs={"more": 1})
    assert sender.wait() == 0, sender.output
    celerys = json.loads(sender.lines[-1])
    ours = shop.ended("mirror")["result"]
    assert ours["shadow"] == "mirror of it"
    names = {name for name in celerys.keys() | ours.keys() if celerys.get(name) != ours.get(name)}
    names = {name for name in names if not name.startswith("itinerary_")}
    assert names - {"time_limit", "soft_time_limit"} == DIFFERENT


def test_fail(shop: Shop) -> None:
    shop.enqueue("fails")
    run = shop.ended("fails")
    assert (run["state"], run["error"]["type"], run["error"]["message"]) == ("failed", "ValueError", "no good")
    assert "shop.py" in run["error"]["traceback"]
    assert "celery/app/trace.py" not in run["error"]["traceback"]


def test_unknown_task(shop: Shop) -> None:
    shop.enqueue("nowhere")
    run = shop.ended("nowhere")
    assert run["state"] == "failed"
    assert "knows the task shop.nowhere" in run["reason"]


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        ("chains", ["told {} 7"]),
        ("groups", ["told {} 0", "told {} 1", "told {} 2"]),
        ("chords", ["total {} [0, 2, 4]"]),
    ],
    ids=["chain", "group", "chord"],
)
def test_canvas(shop: Shop, task: str, lines: list[str]) -> None:
    shop.enqueue(task, task)
    assert shop.ended(task)["state"] == "completed"
    for line in lines:
        shop.witnessed(line.format(task))
        assert shop.truth.count(line.format(task)) == 1


@pytest.mark.matrix
def test_rate_limit(shop: Shop) -> None:
    assert {shop.ended(f"rationed {number}")["state"] for number in range(4)} == {"completed"}
    moments = shop.moments("rationed", "run")
    assert len(moments) == 4
    assert moments[-1] >= shop.begun + 1.5
    with shop.service.outsider() as outsider:
        outsider.send_task("shop.rationed", ["message"], queue=shop.queue)
    shop.moments("rationed", "message")


@pytest.mark.matrix
def test_eta(shop: Shop) -> None:
    begun = time.time()
    at = datetime.fromtimestamp(begun, UTC) + timedelta(seconds=1.5)
    shop.enqueue("punctual", "run", run_at=at.isoformat())
    with shop.service.outsider() as outsider:
        outsider.send_task("shop.punctual", ["message"], queue=shop.queue, eta=at)
    for name, early in (("run", 0), ("message", 0.02)):  # Celery's own timers are some milliseconds early
        (moment,) = shop.moments("punctual", name)
        assert moment >= begun + 1.5 - early
    assert shop.ended("punctual")["state"] == "completed"


def test_acks_late(shop: Shop) -> None:
    run_id = shop.enqueue("acks_late")
    assert shop.ended("acks_late")["result"] == "done"
    assert shop.truth.count(f"acks_late {run_id}~1") == 1


def test_batches(shop: Shop) -> None:
    _needs_batches(shop)
    with shop.service.outsider() as outsider:
        for number in (1, 2):
            outsider.send_task("shop.batch", [number], queue=shop.queue)
    shop.witnessed("batch [1, 2]")
    shop.enqueue("batch", 3)
    run = shop.ended("batch")
    assert (run["state"], run["reason"]) == ("failed", "unclaimable")


@pytest.mark.matrix
def test_batches_that_could_be_requested_are_refused_at_start(shop: Shop) -> None:
    _needs_batches(shop)
    refused = shop.spawn(shop.by_itinerary("carefree"), CAREFREE="1")
    assert refused.wait() != 0
    assert 'attach(app, exclude=["shop.batch"])' in refused.output


@pytest.mark.pools(*STOPPABLE)
def test_cancel_while_running(shop: Shop) -> None:
    if (shop.pool, shop.column.celery) == ("gevent", "5.4"):
        pytest.skip("gevent of Celery 5.4 cannot stop a greenlet")
    run_id = shop.enqueue("gated", shop.gate("never"), name="unwanted")
    shop.witnessed(f"gated {run_id}~1")
    shop.service.client.cancel(run_id)
    assert shop.ended("unwanted")["state"] == "cancelled"


def test_cancel_that_the_task_sees(shop: Shop) -> None:
    run_id = shop.enqueue("cooperative")
    shop.witnessed(f"cooperative {run_id}~1")
    shop.service.client.cancel(run_id)
    assert shop.ended("cooperative")["state"] == "cancelled"


@pytest.mark.pools("prefork")
def test_kill_of_the_child(shop: Shop) -> None:
    run_id = shop.enqueue("dies")
    run = shop.ended("dies")
    assert (run["state"], run["reason"]) == ("failed", "worker_lost")
    assert shop.truth.count(f"dies {run_id}~1") == 1


@pytest.mark.matrix
@pytest.mark.pools("prefork")
def test_kill_of_the_child_with_reject_on_worker_lost(shop: Shop) -> None:
    run_id = shop.enqueue("dies_late")
    run = shop.ended("dies_late")
    assert (run["state"], run["reason"]) == ("failed", "worker_lost")
    shop.enqueue("where", name="afterwards")  # whatever Celery puts back has gone through by then
    assert shop.ended("afterwards")["state"] == "completed"
    assert shop.truth.count(f"dies_late {run_id}~1") == 1


@pytest.mark.matrix
def test_kill_of_the_main_process(shop: Shop) -> None:
    queue = f"{shop.queue}-doomed"
    doomed = shop.start(shop.by_itinerary(queue))
    run_id = shop.enqueue("gated", shop.gate("doomed"), name="doomed", queue=queue, retry=TRIES)
    shop.witnessed(f"gated {run_id}~1")
    doomed.signal(signal.SIGKILL)
    with shop.service.outsider() as outsider:
        outsider.control.add_consumer(queue, destination=[shop.node])
    shop.witnessed(f"gated {run_id}~2")
    shop.open_gate("doomed")
    run = shop.ended("doomed")
    assert (run["state"], run["attempt"], run["attempts"][0]["outcome"]) == ("completed", 2, "lost")
    assert shop.truth.count(f"gated {run_id}~1") == shop.truth.count(f"gated {run_id}~2") == 1


@pytest.mark.pools(*STOPPABLE)
def test_timeout(shop: Shop) -> None:
    shop.enqueue("gated", shop.gate("never"), name="slow", timeout="1s")
    run = shop.ended("slow")
    assert (run["state"], run["reason"]) == ("failed", "timed_out")
    assert "SoftTimeLimitExceeded" in run["error"]["type"]


@pytest.mark.matrix
@pytest.mark.pools(*STOPPABLE)
def test_timeout_of_a_task_that_ignores_it(shop: Shop) -> None:
    run_id = shop.enqueue("stubborn", shop.gate("never"), name="stubborn", timeout="1s")
    run = shop.ended("stubborn")
    assert (run["state"], run["reason"]) == ("failed", "timed_out")
    assert f"told to stop {run_id}~1" in shop.truth


@pytest.mark.matrix
@pytest.mark.pools("threads", "solo")
def test_timeout_where_nothing_can_stop_the_task(shop: Shop) -> None:
    run_id = shop.enqueue("gated", shop.gate("late"), name="late", timeout="1s")
    shop.witnessed(f"gated {run_id}~1")
    try:
        run = shop.ended("late")
    finally:
        shop.open_gate("late")
    assert (run["state"], run["reason"]) == ("failed", "timed_out")


@pytest.mark.matrix
@pytest.mark.pools(*STOPPABLE)
def test_time_limits_of_the_task(shop: Shop) -> None:
    run_id = shop.enqueue("cut", shop.gate("never"))
    shop.enqueue("limited", shop.gate("never"))
    assert shop.ended("limited")["result"] == "cleaned up"
    run = shop.ended("cut")
    assert (run["state"], run["reason"]) == ("failed", "timed_out")
    assert shop.truth.count(f"cut {run_id}~1") == 1


@pytest.mark.matrix
def test_messages_of_others(shop: Shop) -> None:
    with shop.service.outsider() as outsider:
        outsider.send_task("shop.told", [1, "outsider"], queue=shop.queue)
        outsider.send_task("shop.flaky", [1], queue=shop.queue, task_id=f"{shop.queue}-foreign")
    shop.witnessed("told outsider 1")
    shop.witnessed(f"flaky {shop.queue}-foreign", 2)


@pytest.mark.matrix
def test_a_warm_shutdown_finishes_what_runs(shop: Shop) -> None:
    """The last: it ends the worker."""
    run_id = shop.enqueue("gated", shop.gate("last"), name="last")
    shop.witnessed(f"gated {run_id}~1")
    os.kill(shop.worker.pid, signal.SIGTERM)
    shop.worker.wait_for_line("Warm shutdown")
    shop.open_gate("last")
    assert shop.worker.wait(WARM_STOP) == 0
    assert shop.ended("last")["result"] == "through"


def _needs_batches(shop: Shop) -> None:
    if "celery-batches" not in shop.column.packages:
        pytest.skip(f"no celery-batches allows Celery {shop.column.celery}")
