"""Workers, their children and Redis are killed, frozen and cut off: one start, one end, nothing silent."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.messages import Failed, Heartbeat, RetryAsked, Started, Succeeded
from tests.support.processes import PATIENCE, WARM_STOP, Child, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

pytestmark = [pytest.mark.slow, pytest.mark.redis]


@pytest.fixture
def bench(redis_server: RedisServer, tmp_path: Path) -> Iterator[Bench]:
    with Bench(redis_server.url, tmp_path) as bench:
        yield bench


def kinds(bench: Bench, run_id: str, attempt: int = 1) -> list[type[object]]:
    return [type(report) for report in bench.about(run_id, attempt)]


def children_of(worker: Child) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()]


def reconcile(bench: Bench, name: str = "settled") -> None:
    """Let one more run go through, so that whatever was on its way has arrived."""
    bench.publish(dispatched(name, "user.add", 0, 0))
    bench.report_of(name, Succeeded)


def test_a_task_over_its_timeout_is_stopped_and_reported_as_timed_out(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("slow", "user.gated", bench.gate(), timeout=SECOND))
    failed = bench.report_of("slow", Failed)
    assert failed.reason == "timed_out"
    assert "SoftTimeLimitExceeded" in failed.error["type"]
    reconcile(bench)
    assert kinds(bench, "slow") == [Started, Failed]


def test_a_task_that_ignores_its_timeout_is_killed_and_reported_once(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("stubborn", "user.stubborn", bench.gate(), timeout=SECOND))
    failed = bench.report_of("stubborn", Failed)
    assert failed.reason == "timed_out"
    assert failed.started_at is not None
    reconcile(bench)
    assert kinds(bench, "stubborn") == [Started, Failed]


@pytest.mark.parametrize("task", ["user.dies", "user.exits"])
def test_a_task_whose_process_dies_is_reported_once_and_the_worker_goes_on(bench: Bench, task: str) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("dead", task))
    failed = bench.report_of("dead", Failed)
    assert failed.reason == ("worker_lost" if task == "user.dies" else None)
    reconcile(bench)
    assert kinds(bench, "dead") == [Started, Failed]


def test_a_process_that_dies_is_reported_at_once_where_celery_puts_its_message_back(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("late", "user.dies_late"), dispatched("asking", "user.dies_asking"))
    failed = bench.report_of("late", Failed)
    assert failed.reason == "worker_lost"
    asked = bench.report_of("asking", RetryAsked)
    assert asked.error["type"].endswith("WorkerLostError")
    assert (asked.args, asked.kwargs) == (None, None)
    reconcile(bench)
    assert kinds(bench, "late") == [Started, Failed]
    assert kinds(bench, "asking") == [Started, RetryAsked]
    assert bench.truth == ["dies_late late~1", "dies_asking asking~1", "add 0 0"]
    bench.publish(dispatched("asking", "user.dies_asking", attempt=4, retries=3))
    assert bench.report_of("asking", Failed, attempt=4).reason == "worker_lost"


def test_what_is_revoked_by_remote_control_before_it_began_fails_at_once(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("first", "user.gated", bench.gate()), dispatched("unwanted", "user.add", 1, 2))
    bench.witnessed("gated first~1")
    bench.dispatcher.revoke(["unwanted~1"])
    wait_until(lambda: bench.app.control.inspect().revoked() == {"one@here": ["unwanted~1"]}, what="the revoke")
    bench.open_gate()
    assert bench.report_of("unwanted", Failed).reason == "revoked"
    assert bench.truth == ["gated first~1"]


def test_a_revoked_task_is_terminated_and_reported_once(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("unwanted", "user.gated", bench.gate()))
    bench.witnessed("gated unwanted~1")
    bench.claims.flag(["unwanted~1"])
    bench.dispatcher.revoke(["unwanted~1"])
    assert bench.report_of("unwanted", Failed).reason == "terminated"
    reconcile(bench)
    assert kinds(bench, "unwanted") == [Started, Failed]


def test_a_task_that_will_not_be_terminated_is_listed_until_it_ends_and_its_own_report_counts(bench: Bench) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("deaf", "user.deaf", bench.gate()))
    bench.witnessed("deaf deaf~1")
    bench.dispatcher.revoke(["deaf~1"])
    bench.witnessed("told to stop deaf~1")
    for _ in range(2):
        assert ("deaf", 1) in bench.next_heartbeat("deaf").running
    bench.open_gate()
    assert bench.report_of("deaf", Succeeded).result == "through"
    reconcile(bench)
    assert kinds(bench, "deaf") == [Started, Succeeded]
    wait_until(lambda: ("deaf", 1) not in bench.next_heartbeat().running, what="a heartbeat without it")


def test_duplicates_over_two_workers_start_once_each(bench: Bench) -> None:
    bench.worker("-c", "2", name="one")
    bench.worker("-c", "2", name="two")
    runs = [dispatched(f"job_{n}", "user.gated", bench.gate()) for n in range(40)]
    bench.publish(*runs, *runs, *runs)
    wait_until(lambda: len(bench.truth) == 4, what="every process of both workers to run one")
    bench.open_gate()
    for run in runs:
        bench.report_of(run.run_id, Succeeded)
    wait_until(lambda: bench.dispatcher.heads(["default"])["default"].length == 0, what="an empty queue")
    reconcile(bench)
    assert [line for line in sorted(bench.truth) if line.startswith("gated")] == sorted(
        f"gated {run.run_id}~1" for run in runs
    )
    assert {report.worker for report in bench.messages if isinstance(report, Succeeded)} == {"one@here", "two@here"}


def test_after_a_worker_is_killed_its_attempt_is_never_started_again(bench: Bench) -> None:
    killed = bench.worker("-c", "1", name="one")
    run = dispatched("orphan", "user.gated", bench.gate())
    bench.publish(run)
    bench.witnessed("gated orphan~1")
    killed.kill()
    bench.worker("-c", "1", name="two")
    bench.publish(run)
    reconcile(bench)
    assert kinds(bench, "orphan") == [Started]
    bench.publish(dispatched("orphan", "user.gated", bench.gate(), attempt=2))
    bench.open_gate()
    bench.report_of("orphan", Succeeded, attempt=2)
    assert [line for line in bench.truth if "orphan" in line] == ["gated orphan~1", "gated orphan~2"]


def test_a_message_that_a_killed_worker_had_popped_runs_when_it_is_published_again(bench: Bench) -> None:
    worker = bench.worker("-c", "1", name="one")
    worker.signal(signal.SIGSTOP)
    run = dispatched("popped", "user.who")
    bench.publish(run)
    with bench.client() as client:
        client.rpop("default")  # unless the frozen worker's BRPOP was given it already
    worker.kill()
    bench.worker("-c", "1", name="two")
    bench.publish(run)
    assert bench.report_of("popped", Succeeded).worker == "two@here"


def test_a_task_that_runs_while_redis_is_killed_starts_once_and_its_result_arrives(
    bench: Bench, redis_server: RedisServer
) -> None:
    worker = bench.worker("-c", "1")
    run = dispatched("survivor", "user.gated", bench.gate())
    bench.publish(run)
    bench.witnessed("gated survivor~1")
    redis_server.kill()
    worker.wait_for_line("redis is away")
    bench.open_gate()
    worker.wait_for_line("survivor~1 reports succeeded")
    redis_server.start()
    assert bench.report_of("survivor", Succeeded).result == "through"
    bench.accept()
    bench.publish(run)
    reconcile(bench)
    assert bench.truth.count("gated survivor~1") == 1
    assert kinds(bench, "survivor") == [Started, Succeeded]
    assert worker.running


def test_a_worker_with_messages_in_hand_outlives_its_redis(bench: Bench, redis_server: RedisServer) -> None:
    """Celery 5.7 closes a broken connection twice, and kombu puts back what is not acknowledged the second time."""
    worker = bench.worker("-c", "1")
    bench.publish(*(dispatched(f"held{n}", "user.rarely") for n in range(3)))
    wait_until(lambda: len(bench.next_heartbeat().received) == 2, what=lambda: worker.output)
    redis_server.kill()
    worker.wait_for_line("Connection to broker lost")
    redis_server.start()
    bench.accept()
    reconcile(bench)
    assert worker.running


def held_by_main(worker: Child) -> bool:
    return "reports are held count=1" in worker.output


def test_the_main_process_holds_a_report_while_redis_is_frozen(bench: Bench, redis_server: RedisServer) -> None:
    worker = bench.worker("-c", "1", TELLS_OVER="1")
    bench.publish(dispatched("held", "user.gated", bench.gate()))
    bench.witnessed("gated held~1")
    bench.next_heartbeat("held")
    redis_server.freeze()
    bench.open_gate()
    bench.witnessed("over held~1")
    wait_until(lambda: held_by_main(worker), what=lambda: worker.output)
    redis_server.thaw()
    bench.report_of("held", Succeeded)
    reconcile(bench)
    assert kinds(bench, "held") == [Started, Succeeded]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_warm_shutdown_waits_for_the_reports_in_hand(bench: Bench, redis_server: RedisServer, pool: str) -> None:
    worker = bench.worker("-c", "1", "-P", pool, TELLS_OVER="1")
    bench.publish(dispatched("last", "user.gated", bench.gate()))
    bench.witnessed("gated last~1")
    bench.next_heartbeat("last")
    redis_server.freeze()
    bench.open_gate()
    bench.witnessed("over last~1")
    worker.signal(signal.SIGTERM)
    wait_until(lambda: worker.output.count("reports are held count=1") > 1, what=lambda: worker.output)
    assert worker.running
    redis_server.thaw()
    assert worker.wait(WARM_STOP) == 0, worker.output
    bench.report_of("last", Succeeded)
    assert kinds(bench, "last") == [Started, Succeeded]


def test_a_child_that_dies_when_its_report_is_in_hand_has_reported(bench: Bench) -> None:
    worker = bench.worker("-c", "1", TELLS_OVER="1")
    (child,) = children_of(worker)
    bench.publish(dispatched("ended", "user.gated", bench.gate()))
    bench.witnessed("gated ended~1")
    bench.next_heartbeat("ended")
    worker.signal(signal.SIGSTOP)
    bench.open_gate()
    bench.witnessed("over ended~1")
    os.kill(child, signal.SIGKILL)
    worker.signal(signal.SIGCONT)
    reconcile(bench)
    assert kinds(bench, "ended") == [Started, Succeeded]


def test_a_report_that_dies_with_the_main_process_leaves_an_attempt_that_nobody_starts_again(bench: Bench) -> None:
    worker = bench.worker("-c", "1", TELLS_OVER="1")
    run = dispatched("unreported", "user.gated", bench.gate())
    bench.publish(run)
    bench.witnessed("gated unreported~1")
    bench.next_heartbeat("unreported")
    worker.signal(signal.SIGSTOP)
    bench.open_gate()
    bench.witnessed("over unreported~1")
    worker.kill()
    bench.worker("-c", "1", name="two")
    bench.publish(run)
    reconcile(bench)
    assert bench.truth.count("gated unreported~1") == 1
    assert kinds(bench, "unreported") == [Started]


def test_an_attempt_waits_for_its_claim_while_that_redis_is_away(redis_server: RedisServer, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "broker") as broker, Bench(redis_server.url, tmp_path, broker.url) as bench:
        worker = bench.worker("-c", "1")
        redis_server.kill()
        bench.publish(dispatched("patient", "user.who"))
        worker.wait_for_line("patient~1 waits for its claim")
        assert bench.truth == []
        redis_server.start()
        worker.wait_for_line("patient~1 waits until the leader")
        assert bench.truth == []
        bench.accept()
        bench.report_of("patient", Succeeded)
        assert kinds(bench, "patient") == [Started, Succeeded]


def test_a_stopped_worker_finishes_reports_and_says_farewell(bench: Bench) -> None:
    worker = bench.worker("-c", "1")
    bench.publish(dispatched("last", "user.gated", bench.gate()))
    bench.witnessed("gated last~1")
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("Warm shutdown")
    bench.open_gate()
    assert worker.wait(WARM_STOP) == 0
    bench.report_of("last", Succeeded)
    farewell = bench.messages[-1]
    assert isinstance(farewell, Heartbeat)
    assert (farewell.leaving, farewell.running, farewell.received) == (True, (), ())


@pytest.mark.parametrize(
    "given",
    [pytest.param(("user.add", 1, 2), id="whole"), pytest.param(("user.same", "x" * 900_000), id="half")],
)
def test_a_task_that_a_process_was_given_when_a_warm_stop_began_is_counted_and_goes_back_to_no_queue(
    bench: Bench, given: tuple[Any, ...]
) -> None:
    worker = bench.worker("-c", "1", "-l", "DEBUG")
    reconcile(bench, "up")  # a process that has not yet said that it is up is given nothing
    (child,) = children_of(worker)
    os.kill(child, signal.SIGSTOP)
    bench.publish(dispatched("given", *given))
    worker.wait_for_line("[given~1] received")
    bench.app.control.ping(destination=["one@here"], timeout=PATIENCE)  # by the next turn of its loop it was given
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("Stopping Pool" if given[0] == "user.add" else "Stopping Consumer")
    os.kill(child, signal.SIGCONT)
    assert worker.wait(WARM_STOP) == 0
    bench.report_of("given", Succeeded)
    assert kinds(bench, "given") == [Started, Succeeded]
    assert bench.dispatcher.heads(["default"])["default"].length == 0


def test_a_process_that_was_spawned_instead_of_forked_claims_and_reports(bench: Bench) -> None:
    bench.worker("-c", "1", SPAWNS="1")
    bench.publish(dispatched("spawned", "user.add", 1, 2), dispatched("dead", "user.dies"))
    assert bench.report_of("spawned", Succeeded).result == 3
    assert bench.report_of("dead", Failed).reason == "worker_lost"
    assert kinds(bench, "spawned") == [Started, Succeeded]
    assert kinds(bench, "dead") == [Started, Failed]


def test_no_run_starts_in_a_process_that_never_attached(bench: Bench) -> None:
    worker = bench.worker("-c", "1", SPAWNS="unattached")
    bench.publish(dispatched("unclaimed", "user.add", 1, 2))
    ended = bench.report_of("unclaimed", Failed)
    assert ended.reason == "unclaimable"
    assert "Call it in the module of the app" in ended.error["message"]
    assert kinds(bench, "unclaimed") == [Started, Failed]
    bench.app.send_task("user.add", (3, 4), queue="default")
    bench.witnessed("add 3 4")
    assert "add 1 2" not in bench.truth, worker.output


def test_a_process_that_ends_over_its_memory_limit_leaves_its_report(bench: Bench) -> None:
    bench.worker("-c", "1", "--max-memory-per-child", "1")
    names = [f"fat-{n}" for n in range(3)]
    bench.publish(*(dispatched(name, "user.logs", [name], False) for name in names))
    for name in names:
        bench.report_of(name, Succeeded)
    reconcile(bench)
    assert [kinds(bench, name) for name in names] == [[Started, Succeeded]] * 3
    assert len({line for line in bench.truth if line.startswith("pid ")}) == 3, "a process for each task"


def test_a_killed_pool_child_is_replaced_and_claims_again(bench: Bench) -> None:
    worker = bench.worker("-c", "1")
    bench.publish(dispatched("first", "user.gated", bench.gate()))
    bench.witnessed("gated first~1")
    (child,) = children_of(worker)
    os.kill(child, signal.SIGKILL)
    assert bench.report_of("first", Failed).reason == "worker_lost"
    reconcile(bench)


def test_a_worker_without_a_redis_for_its_claims_does_not_start(bench: Bench) -> None:
    argv = ["-m", "celery", "-A", "tests.workers.userapp", "worker", "-P", "solo"]
    worker = bench.spawn(argv, ITINERARY_REDIS_URL="", USERAPP_BROKER="memory://")
    assert worker.wait() != 0
    assert "set ITINERARY_REDIS_URL" in worker.output


def test_a_worker_on_a_redis_broker_needs_no_other_setting(bench: Bench) -> None:
    bench.worker("-c", "1", ITINERARY_REDIS_URL="")
    reconcile(bench)
