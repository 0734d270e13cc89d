"""The bands above the timeline's lanes: pauses of queues, times without a leader, freezes."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from fastapi.testclient import TestClient

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, format_instant
from scheduler_service.api.context import ApiContext
from scheduler_service.api.pages.timeline_bands import Bands, bands_of
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.api.services.who_leads import absences
from scheduler_service.bootstrap.parts import Stores
from scheduler_service.config.settings import Settings
from scheduler_service.core.audit import AuditedChange
from scheduler_service.ports.samples import Term
from scheduler_service.ports.timeline import Span
from scheduler_service.sql.database import Database, host_now
from tests.support.led import Led

BY = AuditedChange("ann", "operator", "queue.pause")
ENDING = AuditedChange("ann", "operator", "queue.resume")


@pytest.fixture
def context(settings: Settings, stores: Stores) -> ApiContext:
    return ApiContext(settings, stores, LeaderLine(stores.inbox, host_now), host_now)


@pytest.fixture
def led(settings: Settings) -> Iterator[Led]:
    with closing(Database(settings.database_url, pool_size=2)) as database:
        yield Led(database)


def shown(context: ApiContext, queue: str | None = None) -> Bands:
    now = host_now()
    return bands_of(context, Span(now - HOUR // 2, now + HOUR // 2, 100), now, queue)


def names(found: Bands) -> list[str]:
    return [name for name, _, _ in found.lanes]


def test_a_pause_is_a_band_from_its_beginning_to_its_end(context: ApiContext, stores: Stores, led: Led) -> None:
    now = host_now()
    assert shown(context).lanes == []
    stores.queue_store.pause("mail", "a new release", None, by=BY)
    stores.queue_store.pause("sms", "for a while", now + HOUR // 4, by=BY)
    stores.queue_store.pause("sms", "for longer", now + HOUR // 3, by=BY)
    assert names(shown(context)) == ["Paused"]
    ((_, kind, _),) = shown(context).lanes
    assert kind == "paused"
    (mail,), (sms,) = (shown(context).of_queue[name] for name in ("mail", "sms"))
    assert (mail.text, mail.link) == ("Queue mail paused by ann: a new release", "/queues/mail")
    assert (mail.x, mail.width, sms.text) == (
        pytest.approx(50, abs=5),
        pytest.approx(50, abs=5),
        "Queue sms paused by ann: for longer",
    )
    assert sms.width == pytest.approx(100 / 3, abs=4)
    stores.queue_store.resume("mail", by=ENDING)
    (over,) = shown(context).of_queue["mail"]
    assert (over.x, over.width < 5) == (pytest.approx(50, abs=5), True)
    stores.queue_store.pause("mail", "once more", None, by=BY)
    assert [band.width < 5 for band in shown(context).of_queue["mail"]] == [True, False]
    assert set(shown(context, "sms").of_queue) == {"sms"}
    assert names(shown(context, "other")) == []


def test_a_time_without_a_leader_is_a_band_and_shades_each_lane(context: ApiContext, api: TestClient, led: Led) -> None:
    assert shown(context).absences == []
    led.leases.resign(led.lease)
    (band,) = shown(context).absences
    assert (band.text, names(shown(context))) == ("Nobody leads", ["No leader"])
    page = api.get("/timeline?within=1h").text
    assert "No leader" in page
    assert 'class="band unled"' in page


def test_terms_tell_when_nobody_led() -> None:
    now: Instant = 1_795_000_000 * SECOND
    terms = [Term(4, now, None), Term(3, now - MINUTE, now - SECOND), Term(2, now - HOUR, now - 2 * MINUTE)]
    assert list(absences(terms)) == [(now - 2 * MINUTE, now - MINUTE, 3)]


def test_the_page_draws_a_paused_queue_in_its_lane(api: TestClient, stores: Stores) -> None:
    assert api.post("/api/v1/runs", json={"task": "pkg.task", "queue": "mail"}).status_code == 201
    stores.queue_store.pause("mail", "r", None, by=BY)
    stores.queue_store.pause("q/ä", "r", None, by=BY)
    assert api.post("/api/v1/freezes", json={"scope": {"all": True}, "reason": "books"}).status_code == 201
    page = api.get("/timeline?by=queue").text
    assert page.count('class="shade paused"') == 1
    assert 'href="/queues/q%2F%C3%A4"' in page
    assert 'class="band frozen"' in page
    assert 'class="shade paused"' not in api.get("/timeline?by=job").text
    assert format_instant(host_now())[:4] in page
