"""Logs of runs over HTTP and on the command line: kept ones, and those of running attempts as they come."""

import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import SECOND
from itinerary.protocol.keys import Keys
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.broker.client import connect
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.log_text import last_lines, shown
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import Lease, NewRun
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.logs import SentLog
from scheduler_service.sql.database import host_now
from tests.support.store_bed import StoreBed, one_off, sql_bed

KEYS = Keys()
TEXT = "one\ntwo\nthree \x1b[31mred\n"


@pytest.fixture
def bed(settings: Settings) -> Iterator[StoreBed]:
    with sql_bed(settings.database_url) as opened:
        yield opened


@pytest.fixture
def lease(bed: StoreBed) -> Lease:
    return bed.lead()


@pytest.fixture
def run(bed: StoreBed, lease: Lease) -> NewRun:
    """A run whose first attempt is dispatched."""
    (made,) = bed.dispatched(lease, one_off(host_now() - 60 * SECOND))
    return made


def fail(bed: StoreBed, lease: Lease, run: NewRun) -> None:
    error = {"type": "E", "message": "m", "traceback": None}
    ended = Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, host_now(), error=error)
    assert bed.leader.apply(lease, Apply((ended,))) == ()


def keep(stores: Stores, run: NewRun, text: str = TEXT, end: int | None = None) -> None:
    stores.logs.keep([SentLog("1-0", run.run_id, 1, end or len(text), zlib.compress(text.encode()))])


def logs(api: TestClient, run: NewRun, **params: Any) -> dict[str, Any]:
    answer = api.get(f"/api/v1/runs/{run.run_id}/logs", params=params)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_kept_log_is_read_whole_from_a_position_or_by_its_last_lines(
    api: TestClient, stores: Stores, bed: StoreBed, lease: Lease, run: NewRun
) -> None:
    keep(stores, run, end=1000)
    fail(bed, lease, run)
    start = 1000 - len(TEXT)
    whole = {"run_id": run.run_id, "attempt": 1, "text": TEXT, "start": start, "end": 1000}
    assert logs(api, run) == whole | {"missing": start, "complete": True}
    assert logs(api, run, after=990) == whole | {"text": TEXT[-10:], "start": 990, "missing": 0, "complete": True}
    assert logs(api, run, tail=2)["text"] == "two\nthree \x1b[31mred\n"
    assert logs(api, run, tail=2)["missing"] == start + 4
    assert logs(api, run, after=2000)["text"] == ""


@pytest.mark.slow
def test_an_attempt_without_a_log_is_complete_soon_after_its_end(
    api: TestClient, bed: StoreBed, lease: Lease, run: NewRun
) -> None:
    assert logs(api, run)["complete"] is False
    fail(bed, lease, run)
    assert logs(api, run)["complete"] is False, "its log may come"
    assert logs(api, run, wait=5)["complete"] is True


def test_a_log_that_comes_after_the_end_is_waited_for(
    api: TestClient, stores: Stores, bed: StoreBed, lease: Lease, run: NewRun
) -> None:
    fail(bed, lease, run)
    later = threading.Timer(0.3, keep, (stores, run))
    later.start()
    assert logs(api, run, wait=5)["text"] == TEXT
    later.join()


@pytest.mark.parametrize(
    ("path", "status"), [("absent/logs", 404), ("{}/logs?attempt=2", 404), ("{}/logs?after=-1", 422)]
)
def test_what_is_not_there_is_said(api: TestClient, run: NewRun, path: str, status: int) -> None:
    assert api.get(f"/api/v1/runs/{path.format(run.run_id)}").status_code == status


@pytest.mark.redis
def test_a_running_attempt_is_followed_from_where_the_reader_is(api: TestClient, run: NewRun, redis_url: str) -> None:
    with connect(redis_url) as client:
        task = f"{run.run_id}~1"
        assert logs(api, run)["text"] == ""
        assert not client.exists(KEYS.watched), "who does not follow causes no traffic"
        assert logs(api, run, follow=True) == {
            "run_id": run.run_id, "attempt": 1, "text": "", "start": 0, "end": 0, "missing": 0, "complete": False,
        }  # fmt: skip
        assert client.exists(KEYS.watched, KEYS.watch(task)) == 2
        assert 0 < int(str(client.ttl(KEYS.watched))) <= 15
        stream = KEYS.live_log(task)
        client.xadd(stream, {"start": "0", "text": "one\n"}, id="4-0")
        client.xadd(stream, {"start": "4", "text": "two\n"}, id="8-0")
        assert logs(api, run, follow=True)["text"] == "one\ntwo\n"
        assert logs(api, run, follow=True, after=4)["text"] == "two\n"
        client.xadd(stream, {"start": "100", "text": "last\n"}, id="105-0")
        gap = logs(api, run, follow=True, after=8)
        assert (gap["text"], gap["start"], gap["end"], gap["missing"]) == ("last\n", 100, 105, 92)
        client.xadd(stream, {"start": "x", "text": "no entry of ours\n"}, id="200-0")
        assert logs(api, run, follow=True, after=105)["text"] == ""
        waiting = threading.Thread(target=lambda: found.append(logs(api, run, follow=True, after=200, wait=10)))
        found: list[dict[str, Any]] = []
        waiting.start()
        client.xadd(stream, {"start": "200", "text": "new\n"}, id="204-0")
        waiting.join()
        assert found[0]["text"] == "new\n"
        client.delete(stream, KEYS.watch(task), KEYS.watched)


def test_colours_and_other_controls_steer_no_terminal() -> None:
    assert shown("\x1b[1;31mred\x1b[0m\tand\r\nmore\rbell \x07 esc \x1b]0;title") == (
        "red\tand\nmore\nbell \ufffd esc \ufffd]0;title"
    )
    assert last_lines("a\nb\nc", 2) == "b\nc"
    assert last_lines("", 3) == ""
