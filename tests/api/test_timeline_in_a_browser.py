"""Timeline, calendar and load map in a real browser: drawn within the window, zoomed by drag and keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from itinerary.protocol.instants import HOUR, MINUTE, format_instant
from scheduler_service.sql.database import host_now
from tests.support.browser import Browser, find_browser
from tests.support.old_runs import keep, old_run
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
JOB = "a.job-with-a-long-name-of-somebody.who-likes-names.that-say-everything"
PICTURE = "document.querySelector('#timeline')"
SPAN = f"(Date.parse({PICTURE}.dataset.until) - Date.parse({PICTURE}.dataset.since))"
FOCUSED = "document.activeElement"


def press(browser: Browser, key: str) -> None:
    browser.run(f"{PICTURE}.focus()")
    browser.run(f"{FOCUSED}.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}))")


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    """Runs of an hour in two lanes, a job, a freeze."""
    with serving(sqlite_url, redis_url) as served:
        now = host_now()
        for n in range(40):
            at = now - n * MINUTE
            fields = {"state": "failed" if n % 9 == 0 else "completed", "started_at": at, "finished_at": at + MINUTE}
            keep(served.database, old_run(at, job_id=JOB if n % 2 else "b", **fields))
        with Client(served.url) as client:
            client.create_job({"job_id": JOB, "task": "pkg.task", "schedule": {"kind": "interval", "every": "1m"}})
            client.start_freeze({"queues": ["q" * 128]}, "the closing of the books " * 9)
        yield served
        served.database.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path / "profile") as opened:
        yield opened


def test_a_time_is_chosen_by_drag_and_by_keys_and_the_address_says_it(browser: Browser, site: Site) -> None:
    now = host_now()
    browser.view(1440)
    browser.open(f"{site.url}/timeline?from={format_instant(now - HOUR)}&to={format_instant(now)}")
    assert browser.run("document.querySelectorAll('#timeline .mark').length") == 40
    assert browser.run(SPAN) == 3_600_000
    browser.run("""(() => {
        const svg = document.querySelector('#timeline .mark').closest('svg'), box = svg.getBoundingClientRect();
        for (const [type, share] of [['pointerdown', .25], ['pointermove', .5], ['pointerup', .5]])
          svg.dispatchEvent(new PointerEvent(type, {bubbles: true, button: 0, pointerType: 'mouse',
                                                    clientX: box.left + share * box.width, clientY: box.top + 4}));
    })()""")
    browser.wait_for(f"Math.abs({SPAN} - 900000) < 10000")
    assert browser.run("new URL(location.href).searchParams.get('from') !== null")
    press(browser, "-")
    browser.wait_for(f"{SPAN} > 1700000")
    press(browser, "Enter")
    assert browser.run(f"{FOCUSED}.matches('a.mark') && {FOCUSED}.href.baseVal.startsWith('/runs/old-')")


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1024, True), (390, False)])
def test_the_pages_fit_their_window(browser: Browser, site: Site, width: int, dark: bool) -> None:
    browser.view(width, dark=dark)
    for path in ("/timeline", "/timeline?by=queue&within=10m", "/calendar", "/calendar?view=week", "/calendar?view=day",
                 f"/calendar?job={JOB}", "/load"):  # fmt: skip
        browser.open(f"{site.url}{path}")
        assert browser.run("document.documentElement.scrollWidth") <= width, path
        assert browser.run("document.querySelector('h1') !== null"), path
    assert browser.complaints == []
