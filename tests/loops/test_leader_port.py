"""A leader's own port: progress and figures, apart from database and Redis."""

import json
import re
import sys
import urllib.error
import urllib.request

import pytest

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import MINUTE, SECOND
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.observability.leader_port import STALLED_AFTER, leader_port
from tests.support.command_line import Itinerary
from tests.support.leading import LeaderThread
from tests.support.processes import PATIENCE, Child, free_port, project_env, wait_until
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.slow  # whole processes, or real servers for long


def ask(port: int, path: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.headers["Content-Type"], exc.read().decode()


def test_a_leader_that_makes_progress_is_well_and_one_that_stands_still_is_not() -> None:
    silence = [SECOND]
    with leader_port("127.0.0.1", 0, lambda: silence[0], lambda: "a_figure 1\n") as port:
        assert ask(port, "/healthz")[0] == 200
        silence[0] = STALLED_AFTER + SECOND
        status, _, text = ask(port, "/healthz")
        assert (status, json.loads(text)) == (503, {"status": "stands still", "silent_seconds": 61.0})


def test_the_figures_are_served_as_prometheus_reads_them() -> None:
    with leader_port("127.0.0.1", 0, lambda: 0, lambda: "a_figure 1\n") as port:
        assert ask(port, "/metrics") == (200, "text/plain; version=0.0.4; charset=utf-8", "a_figure 1\n")
        assert ask(port, "/")[0] == 404


def test_a_port_that_is_taken_is_told_by_name() -> None:
    with (
        leader_port("127.0.0.1", 0, lambda: 0, str) as port,
        pytest.raises(ItineraryError, match="ITINERARY_METRICS_PORT"),
        leader_port("127.0.0.1", port, lambda: 0, str),
    ):
        pass


def last_sign(contender: LeaderThread) -> int:
    """The instant of the last sign, but for the time between the two reads of the clock."""
    return monotonic() - contender.leader.stalled_for()


@pytest.mark.redis
@pytest.mark.slow
def test_a_leader_and_a_standby_both_show_progress(sqlite_url: str, redis_url: str) -> None:
    with LeaderThread(sqlite_url, redis_url) as one, LeaderThread(sqlite_url, redis_url, holder="two") as two:
        wait_until(
            lambda: "scheduler_is_leader 1.0" in one.meter.exposition() + two.meter.exposition(), what="a leader"
        )
        for contender in (one, two):
            asked = last_sign(contender)
            wait_until(lambda c=contender, a=asked: last_sign(c) > a + SECOND // 10, what="another sign")


@pytest.mark.redis
@pytest.mark.slow
def test_a_takeover_may_read_for_minutes_and_is_no_standing_still(sqlite_url: str, redis_url: str) -> None:
    with LeaderThread(sqlite_url, redis_url) as one:
        wait_until(lambda: one.leader._renewer is not None, what="a term")
        renewer = one.leader._renewer
        assert renewer is not None
        wait_until(lambda: renewer.passed_at, what="its first pass")
        one.leader._asked_at -= 9 * MINUTE
        assert one.leader.stalled_for() < MINUTE
        renewer._passed_at = None  # as before the first pass
        assert one.leader.stalled_for() < MINUTE


@pytest.mark.redis
@pytest.mark.slow
def test_without_redis_a_leader_still_shows_progress(sqlite_url: str) -> None:
    port = free_port()
    env = project_env(
        ITINERARY_DATABASE_URL=sqlite_url,
        ITINERARY_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0",
        ITINERARY_METRICS_PORT=str(port),
    )
    with Child([sys.executable, "-m", "scheduler_service.cli", "leader"], env=env) as leader:
        leader.wait_for_line("leading")
        assert ask(port, "/healthz")[0] == 200
        assert "scheduler_is_leader 1.0" in ask(port, "/metrics")[2]
        assert leader.stop() == 0


@pytest.mark.redis
@pytest.mark.slow
def test_the_lag_of_the_inbox_grows_while_redis_is_away(sqlite_url: str, redis_server: RedisServer) -> None:
    with LeaderThread(sqlite_url, redis_server.url) as one:

        def lag() -> float:
            return float(re.findall(r"^scheduler_inbox_lag_seconds (\S+)$", one.meter.exposition(), re.MULTILINE)[0])

        def leads() -> bool:
            return "scheduler_is_leader 1.0" in one.meter.exposition()

        wait_until(lambda: leads() and one.leader.stalled_for() < SECOND and lag() == 0, what="the end of the inbox")
        redis_server.kill()
        wait_until(lambda: lag() >= 2, what=lambda: f"the lag to grow; it is {lag()}")
        redis_server.start()
        wait_until(lambda: lag() == 0, what=lambda: f"the inbox to be heard again; the lag is {lag()}")


@pytest.mark.slow
def test_without_a_password_flower_does_not_start_on_an_open_address(sqlite_url: str) -> None:
    ended = Itinerary(project_env(ITINERARY_DATABASE_URL=sqlite_url, ITINERARY_FLOWER_HOST="0.0.0.0"))("flower")
    assert ended.returncode == 2
    assert "ITINERARY_FLOWER_PASSWORD" in ended.stderr
