"""A worker whose tasks are greenlets: a hundred at once, told to stop, out of time, without Redis for a while."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.messages import Failed, Heartbeat, Started, Succeeded
from tests.support.processes import WARM_STOP, wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import Bench, dispatched

pytestmark = [pytest.mark.slow, pytest.mark.redis]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("gevent")
    with RedisServer(folder) as server, Bench(server.url, folder) as bench:
        bench.own_worker("--app", "tests.workers.userapp:app", "-P", "gevent", "-c", "100", "-n", "one@here")
        # Told after a second, killed ten later: other tests are done meanwhile.
        bench.publish(dispatched("stubborn", "user.stubborn", bench.gate("never"), timeout=SECOND))
        yield bench


def kinds(bench: Bench, run_id: str) -> list[type[object]]:
    return [type(report) for report in bench.about(run_id)]


def test_an_idle_worker_reports_its_places_and_stays(bench: Bench) -> None:
    beat = bench.next_heartbeat()
    assert (beat.concurrency, beat.leaving) == (100, False)


def test_a_hundred_run_at_once_and_each_knows_which_run_it_is(bench: Bench) -> None:
    names = [f"of_a_hundred_{n}" for n in range(100)]
    bench.publish(*(dispatched(name, "user.itself", bench.gate("hundred")) for name in names))
    wait_until(lambda: {f"itself {name}" for name in names} <= set(bench.truth), what="a hundred starts")
    wait_until(lambda: {(name, 1) for name in names} <= set(bench.next_heartbeat().running), what="a hundred listed")
    bench.open_gate("hundred")
    assert all(bench.report_of(name, Succeeded).result is True for name in names)
    assert {len(bench.about(name)) for name in names} == {2}


def test_a_revoked_task_is_killed_and_reported_once(bench: Bench) -> None:
    bench.publish(dispatched("unwanted", "user.gated", bench.gate("never")))
    bench.witnessed("gated unwanted~1")
    bench.dispatcher.revoke(["unwanted~1"])
    assert bench.report_of("unwanted", Failed).reason == "terminated"
    wait_until(lambda: ("unwanted", 1) not in bench.next_heartbeat().running, what="a heartbeat without it")
    assert kinds(bench, "unwanted") == [Started, Failed]


def test_a_task_that_will_not_be_killed_is_listed_until_it_ends_and_its_own_report_counts(bench: Bench) -> None:
    bench.publish(dispatched("deaf", "user.deaf", bench.gate("deaf")))
    bench.witnessed("deaf deaf~1")
    bench.dispatcher.revoke(["deaf~1"])
    bench.witnessed("told to stop deaf~1")
    for _ in range(2):
        assert ("deaf", 1) in bench.next_heartbeat("deaf").running
    bench.open_gate("deaf")
    assert bench.report_of("deaf", Succeeded).result == "through"
    assert kinds(bench, "deaf") == [Started, Succeeded]


def test_a_task_that_sees_its_cancel_flag_stops_by_itself(bench: Bench) -> None:
    bench.publish(dispatched("cooperative", "user.cooperative"))
    bench.witnessed("cooperative cooperative~1")
    bench.claims.flag(["cooperative~1"])
    assert bench.report_of("cooperative", Failed).error["type"] == "itinerary.RunCancelled"


def test_a_task_that_exits_ends_itself_alone(bench: Bench) -> None:
    bench.publish(dispatched("exits", "user.exits"), dispatched("after", "user.add", 1, 1))
    assert bench.report_of("exits", Failed).reason is None
    assert bench.report_of("after", Succeeded).result == 2


def test_a_task_over_its_timeout_is_told_and_one_that_does_not_listen_is_killed(bench: Bench) -> None:
    bench.publish(dispatched("slow", "user.gated", bench.gate("never"), timeout=SECOND))
    failed = bench.report_of("slow", Failed)
    assert (failed.reason, failed.error["type"]) == ("timed_out", "billiard.exceptions.SoftTimeLimitExceeded")
    bench.witnessed("told to stop stubborn~1")
    assert bench.report_of("stubborn", Failed).reason == "timed_out"
    assert kinds(bench, "slow") == kinds(bench, "stubborn") == [Started, Failed]


def test_it_outlives_redis_and_a_warm_shutdown_loses_nothing(redis_server: RedisServer, tmp_path: Path) -> None:
    with Bench(redis_server.url, tmp_path) as bench:
        worker = bench.worker("-P", "gevent", "-c", "4")
        bench.publish(dispatched("others may run", "user.kombus_sleep"))
        assert bench.report_of("others may run", Succeeded).result == "gevent.hub"
        run = dispatched("survivor", "user.gated", bench.gate("survivor"))
        bench.publish(run)
        bench.witnessed("gated survivor~1")
        redis_server.kill()
        worker.wait_for_line("redis is away")
        bench.open_gate("survivor")
        worker.wait_for_line("survivor~1 reports succeeded")
        redis_server.start()
        assert bench.report_of("survivor", Succeeded).result == "through"
        bench.accept()
        bench.publish(run, dispatched("last", "user.gated", bench.gate("last")))
        bench.witnessed("gated last~1")
        worker.signal(signal.SIGTERM)
        worker.wait_for_line("Warm shutdown")
        bench.open_gate("last")
        assert worker.wait(WARM_STOP) == 0
        bench.report_of("last", Succeeded)
        farewell = bench.messages[-1]
        assert isinstance(farewell, Heartbeat)
        assert (farewell.leaving, farewell.running, farewell.received) == (True, (), ())
        assert bench.truth.count("gated survivor~1") == 1
        assert kinds(bench, "survivor") == [Started, Succeeded]
