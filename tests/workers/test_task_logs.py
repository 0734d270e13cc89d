"""The logs of tasks in real Celery workers: what is kept, what is not, and what watchers see."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.protocol.attempt_logs import unpacked
from itinerary.protocol.keys import Keys
from scheduler_service.broker.logs import RedisLiveLogs, RedisSentLogs
from scheduler_service.core.leader.messages import Failed, Succeeded
from scheduler_service.ports.logs import SentLog
from tests.support.processes import wait_until
from tests.support.worker_process import Bench, dispatched

KEYS = Keys()
SECRET = "s3cr3t-value-of-the-tests"

pytestmark = [pytest.mark.redis, pytest.mark.slow]


@pytest.fixture
def bench(redis_url: str, tmp_path: Path) -> Iterator[Bench]:
    with Bench(redis_url, tmp_path) as opened:
        yield opened


@pytest.fixture
def sent(redis_url: str) -> Iterator[RedisSentLogs]:
    opened = RedisSentLogs(redis_url)
    yield opened
    opened.close()


@pytest.fixture
def live(redis_url: str) -> Iterator[RedisLiveLogs]:
    opened = RedisLiveLogs(redis_url)
    yield opened
    opened.close()


def text_of(one: SentLog) -> str:
    return unpacked(one.compressed)


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_the_log_of_a_failed_attempt_comes_beside_its_report(bench: Bench, sent: RedisSentLogs, pool: str) -> None:
    bench.worker("-P", pool, "-c", "1")
    bench.publish(dispatched("ended", "user.logs", ["one"], False, headers={"keep_logs": ["a user's own"]}))
    bench.publish(dispatched("kept", "user.logs", ["two"], False, headers={"keep_logs": "all"}))
    bench.publish(dispatched("none", "user.logs", ["three"], headers={"keep_logs": "none"}))
    bench.publish(dispatched("broken", "user.logs", ["four \ud83d", "a\x00b"]))
    bench.report_of("ended", Succeeded)
    bench.report_of("broken", Failed)
    logs, others = sent.read(10, 0)
    assert not others
    assert [(one.run_id, one.attempt) for one in logs] == [("kept", 1), ("broken", 1)]
    text = text_of(logs[1])
    assert logs[1].end == len(text)
    lines = [line[24:] for line in text.splitlines()]
    assert lines == [
        "WARNING userapp: four \ufffd", "WARNING userapp: a\x00b", "ERROR userapp.tasks: of a task's logger",
        "WARNING userapp.own: of a logger that ends here",
    ]  # fmt: skip
    sent.forget([one.entry for one in logs])
    assert not bench.client().exists(KEYS.logs)


@pytest.mark.parametrize("switches", [(), ("redirected",)])
def test_output_is_kept_where_it_is_asked_for(bench: Bench, sent: RedisSentLogs, switches: tuple[str, ...]) -> None:
    redirects = "1" if switches else "0"
    bench.worker("-c", "1", LOGS="output", USERAPP_REDIRECTS=redirects)
    bench.publish(dispatched("broken", "user.logs", ["one"]))
    bench.report_of("broken", Failed)
    ((one,), _) = sent.read(10, 0)
    how = "WARNING celery.redirected" if switches else "OUTPUT stdout"
    assert f"{how}: printed one\n" in text_of(one)


def test_nothing_is_captured_where_attach_says_so_and_for_a_service_of_the_release_before(
    bench: Bench, sent: RedisSentLogs
) -> None:
    bench.worker("-c", "1", LOGS="nothing")
    bench.publish(dispatched("broken", "user.logs", ["one"]))
    bench.report_of("broken", Failed)
    assert sent.read(10, 0) == ([], [])


def test_no_kept_log_shows_a_secret(bench: Bench, sent: RedisSentLogs) -> None:
    bench.worker("-c", "1", ITINERARY_SECRET_ENV_NAMES="API_KEY", API_KEY=SECRET)
    bench.publish(dispatched("broken", "user.logs", [{"$env": "API_KEY"}, "beside"]))
    bench.report_of("broken", Failed)
    ((one,), _) = sent.read(10, 0)
    assert "WARNING userapp: ***\n" in text_of(one)
    assert SECRET not in text_of(one)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_watcher_sees_old_and_new_lines_and_nobody_else_causes_traffic(
    bench: Bench, live: RedisLiveLogs, sent: RedisSentLogs, pool: str
) -> None:
    bench.worker("-P", pool, "-c", "2")
    for name in ("watched", "other"):
        bench.publish(dispatched(name, "user.logs", [name], False, bench.gate()))
        bench.witnessed(f"logged {name}")
    live.watch("watched~1")
    seen = live.read("watched~1", 0, 0)

    def look(wanted: str) -> bool:
        nonlocal seen
        live.watch("watched~1")
        new = live.read("watched~1", seen.end, 0)
        seen = type(new)(seen.text + new.text, new.end)
        return wanted in seen.text

    wait_until(lambda: look("of a logger that ends here"), what=lambda: seen.text)
    assert not bench.client().exists(KEYS.live_log("other~1"))
    bench.open_gate()
    bench.report_of("watched", Succeeded)
    bench.report_of("other", Succeeded)
    logs, _ = sent.read(10, 0)
    assert [one.run_id for one in logs] == ["watched"], "who watches the end finds the rest of it"
    whole = text_of(logs[0])
    assert seen.text + whole[seen.end :] == whole
    assert whole.endswith("userapp: after the gate\n")
    assert 0 < int(str(bench.client().ttl(KEYS.live_log("watched~1")))) <= 15


def test_a_killed_child_loses_its_log_and_nothing_else(bench: Bench, sent: RedisSentLogs) -> None:
    bench.worker("-c", "1")
    bench.publish(dispatched("killed", "user.logs", ["one"], False, bench.gate()))
    bench.witnessed("logged one")
    bench.publish(dispatched("after", "user.logs", ["two"]))
    pid = next(int(line.split()[1]) for line in bench.truth if line.startswith("pid "))
    os.kill(pid, signal.SIGKILL)
    assert bench.report_of("killed", Failed).reason == "worker_lost"
    bench.report_of("after", Failed)
    logs, _ = sent.read(10, 0)
    assert [one.run_id for one in logs] == ["after"]


def test_a_log_that_redis_refuses_delays_and_fails_nothing(bench: Bench, sent: RedisSentLogs) -> None:
    client = bench.client()
    client.set(KEYS.logs, "no stream")
    bench.worker("-c", "1")
    bench.publish(dispatched("broken", "user.logs", ["one"]))
    assert bench.report_of("broken", Failed).error["message"] == "as asked"
    client.delete(KEYS.logs)


def test_what_is_no_log_is_found_and_forgotten(redis_url: str, sent: RedisSentLogs, bench: Bench) -> None:
    client = bench.client()
    client.xadd(KEYS.logs, {"task_id": "a~1", "end": "3", "log": "not one"})
    client.xadd(KEYS.logs, {"task_id": "no id"})
    logs, others = sent.read(10, 0)
    assert (len(logs), len(others)) == (0, 2)
    sent.forget(others)
    assert not client.exists(KEYS.logs)
