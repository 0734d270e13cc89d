"""The panel and its dialog as somebody with a browser uses them: a real Chromium, a real leader, the strict policy."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from scheduler_service.sql.database import host_now
from tests.support.browser import Browser, find_browser
from tests.support.leading import LeaderThread
from tests.support.placed_jobs import cluster
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
NAMES = [f"crawl.source-{n:02}" for n in range(20)]
DIALOG = "document.querySelector('#rebalance')"


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    with serving(sqlite_url, redis_url) as served:
        cluster(served.database, NAMES, host_now(), pinned=2)
        with LeaderThread(sqlite_url, redis_url):
            yield served
        served.database.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path / "profile") as opened:
        yield opened


def opened(browser: Browser, site: Site) -> None:
    browser.view(1280)
    browser.open(site.url)
    browser.wait_for("document.querySelector('#rebalance-button')")


def press(browser: Browser, selector: str) -> None:
    """Click it once it is there and the page has come to rest."""
    browser.wait_for(
        f"document.querySelector('{selector}') && !document.querySelector('.htmx-settling, .htmx-request')"
    )
    browser.click(selector)


def score(browser: Browser) -> float:
    return float(browser.text("#distribution .figure .value"))


def test_a_rebalance_is_looked_at_confirmed_seen_and_taken_back(browser: Browser, site: Site) -> None:
    opened(browser, site)
    before = score(browser)
    assert browser.run("document.querySelectorAll('#distribution .bars rect').length") in (24, 25)
    assert browser.run("document.querySelectorAll('#distribution .heat rect').length") == 96
    press(browser, "#rebalance-button")
    browser.wait_for(f"{DIALOG}.open")
    shown = browser.text("#rebalance-body")
    assert "Every job keeps its rhythm" in shown
    assert "2 jobs left alone: is pinned" in shown
    moved = browser.run("document.querySelectorAll('#rebalance-body tbody tr').length")
    assert 5 < moved < 20
    assert f"move {moved} jobs" in browser.text("#confirm-rebalance")
    press(browser, "#confirm-rebalance")
    browser.wait_for("document.querySelector('#undo-rebalance')")
    assert f"{moved} jobs were moved" in browser.text("#rebalance-title")
    press(browser, "#rebalance-body [data-close]")
    browser.wait_for(f"!{DIALOG}.open")
    assert f"{moved} jobs were moved, 2 left alone" in browser.text("#notice")
    browser.wait_for(f"parseFloat(document.querySelector('#distribution .figure .value').innerText) > {before}")
    assert browser.complaints == []


def test_an_undo_right_there_puts_everything_back(browser: Browser, site: Site) -> None:
    opened(browser, site)
    before = score(browser)
    for selector in ("#rebalance-button", "#confirm-rebalance", "#undo-rebalance"):
        press(browser, selector)
    browser.wait_for("document.querySelector('#rebalance-title').innerText.includes('moved back')")
    press(browser, "#rebalance-body [data-close]")
    browser.wait_for(f"parseFloat(document.querySelector('#distribution .figure .value').innerText) === {before}")
    assert browser.complaints == []


def test_a_button_that_a_refresh_brought_works_at_once(browser: Browser, site: Site) -> None:
    opened(browser, site)
    press = "document.querySelector('#rebalance-button').click()"
    begun = "document.body.addEventListener('htmx:beforeRequest', () => { window.begun = true }, {once: true})"
    swapped = f"() => queueMicrotask(() => {{ window.begun = false; {begun}; {press}; }})"
    browser.run(f"document.body.addEventListener('htmx:afterSwap', {swapped}, {{once: true}})")
    browser.run("look('distribution')")
    browser.wait_for("window.begun !== undefined")
    assert browser.run("window.begun")


def test_cancelling_changes_nothing(browser: Browser, site: Site) -> None:
    opened(browser, site)
    before = score(browser)
    press(browser, "#rebalance-button")
    browser.wait_for(f"{DIALOG}.open")
    press(browser, "#rebalance-body [data-close]")
    browser.wait_for(f"!{DIALOG}.open")
    assert browser.text("#notice") == ""
    assert score(browser) == before


def fill_in(browser: Browser, name: str, value: str) -> None:
    browser.fill(f".filters [name={name}], details[open] [name={name}]", value)


def test_a_backfill_is_looked_at_and_then_made_once(browser: Browser, site: Site) -> None:
    schedule = {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"}
    with Client(site.url) as client:
        client.create_job({"job_id": "report", "task": "t", "schedule": schedule})
    browser.view(1280)
    browser.open(f"{site.url}/jobs/report")
    browser.run("document.querySelector('#backfill').closest('details').open = true")
    fill_in(browser, "from", "2026-10-20T00:00")
    fill_in(browser, "to", "2026-11-01T00:00")
    press(browser, "#backfill")
    browser.wait_for("location.pathname === '/jobs/report/backfill' && document.querySelector('#make-backfill')")
    assert browser.text("#would") == "12 of 12 occurrences would run, one after the other"
    assert "2026-10-25 02:30:00" in browser.text(".times")
    assert "fold: first pass" in browser.text(".times")
    for width in (390, 1280):
        for dark in (False, True):
            browser.view(width, dark=dark)
            assert browser.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    press(browser, "#make-backfill")
    browser.wait_for("location.pathname === '/jobs/report'")
    assert "The runs are created" in browser.text("#notice")
    with Client(site.url) as client:
        assert len(client.runs(job_id="report")["items"]) == 12
    seen_again = "/jobs/report/backfill?from=2026-10-20T00:00&to=2026-11-01T00:00&overlap=allow"
    browser.open(f"{site.url}{seen_again}")
    assert browser.text("#would") == "0 of 12 occurrences would run, all at once"
    assert not browser.run("!!document.querySelector('#make-backfill')")
    browser.open(f"{site.url}/jobs/report/backfill?from=2026-10-20T00:00&to=2999-01-01T00:00")
    assert "give a time in the past" in browser.text("[role=alert]")
    refused = "Failed to load resource: the server responded with a status of 422 (Unprocessable Entity)"
    assert browser.complaints == [refused]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_off_at_any_width_and_the_panel_outlives_a_refresh(
    browser: Browser, site: Site, width: int, dark: bool
) -> None:
    opened(browser, site)
    browser.view(width, dark=dark)
    browser.run("htmx.trigger('#seen', 'look')")
    press(browser, "#rebalance-button")
    browser.wait_for(f"{DIALOG}.open")
    for part in ("document.documentElement", "document.querySelector('#rebalance-body')"):
        assert browser.run(f"{part}.scrollWidth <= {part}.clientWidth")
    long = "e.textContent = '47 min 13 s'; return right(e) <= right(e.parentElement)"
    browser.run("window.right = e => e.getBoundingClientRect().right")
    assert browser.run(f"[...document.querySelectorAll('.figure .value')].every(e => {{ {long} }})")
    assert browser.run("document.querySelector('#confirm-rebalance').getBoundingClientRect().bottom <= innerHeight")
    assert browser.complaints == []


def test_a_form_is_sent_once_however_often_it_is_clicked(browser: Browser, site: Site) -> None:
    browser.view(1280)
    browser.open(f"{site.url}/jobs/{NAMES[0]}")
    counted = "addEventListener('submit', e => { sent += e.defaultPrevented ? 0 : 1; e.preventDefault(); })"
    asked = "const form = document.querySelector('#run-now').form"
    browser.run(f"(() => {{ window.sent = 0; {counted}; {asked}; form.requestSubmit(); form.requestSubmit(); }})()")
    assert browser.run("sent") == 1
    browser.run("dispatchEvent(new Event('pageshow'))")
    browser.run("document.querySelector('#run-now').form.requestSubmit()")
    assert browser.run("sent") == 2
