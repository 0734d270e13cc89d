"""Logs of runs over HTTP, on their pages and the command line: kept ones, and those that still grow."""

import re
import threading
import time
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, SECOND, Duration
from itinerary.protocol.keys import Keys
from scheduler_service.api.http.under_way import RequestsUnderWay
from scheduler_service.api.services import run_logs
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.broker.client import connect
from scheduler_service.config.settings import Settings
from scheduler_service.core.contract.log_text import last_lines, shown
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import Lease, NewRun
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.logs import SentLog
from scheduler_service.sql.database import host_now
from tests.support.processes import wait_until
from tests.support.store_bed import StoreBed, one_off, sql_bed

KEYS = Keys()
PART = {"HX-Request": "true"}
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


def fail(bed: StoreBed, lease: Lease, run: NewRun, ago: Duration = 0) -> None:
    error = {"type": "E", "message": "m", "traceback": None}
    ended = Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, host_now() - ago, error=error)
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
    api: TestClient, bed: StoreBed, lease: Lease, run: NewRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert logs(api, run)["complete"] is False
    with monkeypatch.context() as patch:
        patch.setattr(run_logs, "_COMES_WITHIN", HOUR)
        fail(bed, lease, run)
        assert logs(api, run)["complete"] is False, "its log may come"
    wait_until(lambda: logs(api, run, wait=5)["complete"], what="its log to be given up")


def test_a_log_that_comes_after_the_end_is_waited_for(
    api: TestClient,
    stores: Stores,
    bed: StoreBed,
    lease: Lease,
    run: NewRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app: Any = api.app
    requests: RequestsUnderWay = app.state.context.plans.requests
    seen: list[bool] = []

    def come(_seconds: float) -> None:
        seen.append(requests.any)
        keep(stores, run)

    monkeypatch.setattr(run_logs, "_COMES_WITHIN", HOUR)
    monkeypatch.setattr(run_logs, "time", SimpleNamespace(monotonic=time.monotonic, sleep=come))  # in its first pause
    fail(bed, lease, run)
    assert logs(api, run, wait=20)["text"] == TEXT
    assert seen == [False], "what counts in the background would wait for who only waits"


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


@pytest.mark.slow
def test_the_page_of_a_run_loads_its_log(api: TestClient, run: NewRun) -> None:
    page = api.get(f"/runs/{run.run_id}").text
    assert f'hx-get="/runs/{run.run_id}/logs"' in page


def test_a_kept_log_is_shown_as_text_and_never_as_markup(
    api: TestClient, stores: Stores, bed: StoreBed, lease: Lease, run: NewRun
) -> None:
    text = "<b>bold</b> \x1b[31mred\x1b[0m \x00\n"
    stores.logs.keep([SentLog("1-0", run.run_id, 1, 1000, zlib.compress(text.encode()))])
    fail(bed, lease, run)
    for headers in (PART, {}):
        shown = api.get(f"/runs/{run.run_id}/logs", headers=headers).text
        assert "&lt;b&gt;bold&lt;/b&gt; red \ufffd\n" in shown
        assert f"{1000 - len(text)} characters before this are not kept" in shown
        assert ("<html" in shown) == (not headers)
        assert 'hx-get="/parts/log' not in shown


@pytest.mark.slow
def test_the_page_of_a_run_keeps_what_follows_an_attempt_and_begins_anew_with_the_next(
    api: TestClient, bed: StoreBed, lease: Lease
) -> None:
    (waiting,) = bed.make(lease, one_off(host_now() + 60 * SECOND))
    shown = api.get(f"/runs/{waiting.run_id}").text
    assert 'id="logs-1-ahead"' in shown
    part = api.get(f"/runs/{waiting.run_id}/logs", headers=PART).text
    assert "has not been dispatched yet" in part
    assert "hx-get" not in part, "its section is another one once it is dispatched"
    assert "load delay:5s" in api.get(f"/runs/{waiting.run_id}/logs").text
    (begun,) = bed.dispatched(lease, one_off(host_now() - 60 * SECOND))
    assert 'id="logs-1-begun"' in api.get(f"/runs/{begun.run_id}").text


def test_an_attempt_without_a_log_teaches_what_is_kept(
    api: TestClient, bed: StoreBed, lease: Lease, run: NewRun
) -> None:
    fail(bed, lease, run, ago=10 * SECOND)  # a log would have come by now
    assert 'href="/manual/logs"' in api.get(f"/runs/{run.run_id}/logs", headers=PART).text


@pytest.mark.redis
def test_a_running_attempt_is_followed_until_its_end(
    api: TestClient, stores: Stores, bed: StoreBed, lease: Lease, run: NewRun, redis_url: str
) -> None:
    keys, task = KEYS, f"{run.run_id}~1"
    with connect(redis_url) as client:
        within = api.get(f"/runs/{run.run_id}/logs", headers=PART).text
        assert client.exists(keys.watched, keys.watch(task)) == 2, "the page of a run follows it too"
        shown = api.get(f"/runs/{run.run_id}/logs").text
        assert asked(within) == asked(shown)
        assert "Following attempt 1" in shown
        client.xadd(keys.live_log(task), {"start": "0", "text": "one <i>\n"}, id="8-0")
        after = asked(shown)
        more = api.get(after).text
        assert more.startswith("one &lt;i&gt;\n")
        assert "after=8" in asked(more)
        stores.logs.keep([SentLog("1-0", run.run_id, 1, 12, zlib.compress(b"one <i>\ntwo\n"))])
        fail(bed, lease, run)
        last = api.get(asked(more)).text
        assert last.startswith("two\n")
        assert "The attempt is over." in last
        assert "hx-get" not in last
        client.delete(keys.live_log(task), keys.watch(task), keys.watched)


def test_a_page_that_showed_very_much_stops_and_offers_to_go_on(api: TestClient, run: NewRun, redis_url: str) -> None:
    keys, task = KEYS, f"{run.run_id}~1"
    with connect(redis_url) as client:
        client.xadd(keys.live_log(task), {"start": "2000000", "text": "x\n"}, id="2000002-0")
        shown = api.get(f"/parts/log/{run.run_id}?attempt=1&after=2000000&since=0").text
        assert "Go on following" in shown
        assert "hx-get" not in shown
        client.delete(keys.live_log(task), keys.watch(task), keys.watched)


def asked(shown: str) -> str:
    """The address that the script asks next."""
    found = re.search(r'hx-get="(/parts/log[^"]+)"', shown)
    assert found is not None, shown
    return found[1].replace("&amp;", "&")
