"""The log on the page of a run, as the server gives it to the page and to its script."""

import re
import zlib
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import SECOND
from itinerary.protocol.keys import Keys
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.broker.client import connect
from scheduler_service.config.settings import Settings
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.model import Lease, NewRun
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.ports.logs import SentLog
from scheduler_service.sql.database import host_now
from tests.support.store_bed import StoreBed, one_off, sql_bed

PART = {"HX-Request": "true"}


@pytest.fixture
def bed(settings: Settings) -> Iterator[StoreBed]:
    with sql_bed(settings.database_url) as opened:
        yield opened


@pytest.fixture
def lease(bed: StoreBed) -> Lease:
    return bed.lead()


@pytest.fixture
def run(bed: StoreBed, lease: Lease) -> NewRun:
    (made,) = bed.dispatched(lease, one_off(host_now() - 60 * SECOND))
    return made


def fail(bed: StoreBed, lease: Lease, run: NewRun) -> None:
    error = {"type": "E", "message": "m", "traceback": None}
    ended = Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, host_now() - 10 * SECOND, error=error)
    assert bed.leader.apply(lease, Apply((ended,))) == ()


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
    fail(bed, lease, run)
    assert 'href="/manual/logs"' in api.get(f"/runs/{run.run_id}/logs", headers=PART).text


@pytest.mark.redis
def test_a_running_attempt_is_followed_until_its_end(
    api: TestClient, stores: Stores, bed: StoreBed, lease: Lease, run: NewRun, redis_url: str
) -> None:
    keys, task = Keys(), f"{run.run_id}~1"
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
    keys, task = Keys(), f"{run.run_id}~1"
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
