"""The frame of every page in a real browser: navigation, time zone, theme, palette."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from itinerary.protocol.instants import format_instant
from scheduler_service.api.context import system_clock
from tests.support.axe import violations
from tests.support.browser import Browser, find_browser
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
CRON = {"kind": "cron", "expr": "0 9 * * *", "timezone": "Asia/Tokyo"}


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    with serving(sqlite_url, redis_url) as served, Client(served.url) as client:
        body = {"job_id": "tokyo", "task": "pkg.task", "schedule": CRON}
        client.create_job(body)
        client.put_job("tokyo", {**body, "priority": 7})
        client.trigger("tokyo")
        yield served
        served.database.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path / "profile") as opened:
        yield opened


def test_the_frame_at_each_width_in_both_themes(browser: Browser, site: Site) -> None:
    _navigation(browser, site)
    _zone(browser, site)
    _theme(browser, site)
    _palette(browser, site)
    assert browser.complaints == []


def _navigation(browser: Browser, site: Site) -> None:
    for width, dark in ((1440, False), (1024, True), (390, False)):
        browser.view(width, dark=dark)
        browser.open(f"{site.url}/audit")
        assert violations(browser) == [], width
        shown = "document.querySelector('#menu [aria-current=page]').checkVisibility()"
        assert browser.run(shown) is (width != 390)
    browser.click("#menu-button")
    browser.wait_for(shown)
    assert violations(browser) == []
    browser.click("#menu a[href='/jobs']")
    browser.wait_for("location.pathname === '/jobs'")
    assert browser.run(shown) is False, "the menu is closed again"


def _zone(browser: Browser, site: Site) -> None:
    """Each choice is one click, holds on every page and is named at the times."""
    browser.view(1440)
    browser.move_to("Europe/Berlin")
    browser.open(f"{site.url}/jobs/tokyo")
    assert browser.text(".as-of").endswith("UTC")
    for choice, zone in (("local", "Europe/Berlin"), ("job", "Asia/Tokyo")):
        browser.open(f"{site.url}/jobs/tokyo")
        browser.click("[popovertarget=view]")
        browser.wait_for("document.querySelector('#view').matches(':popover-open')")
        assert violations(browser) == []
        browser.click(f"#view [value={choice}]")
        browser.wait_for(f"document.querySelector('.as-of time')?.textContent.endsWith('{zone}')")
        assert browser.run("location.pathname") == "/jobs/tokyo"
        assert f"Until ({zone};" in browser.run("document.querySelector('[name=until]').closest('label').textContent")
    ahead = "document.querySelector('#clock').textContent.slice(0, 2) - new Date().getUTCHours()"
    browser.wait_for(f"[9, 9 - 24].includes({ahead})")  # it shows the zone of the times, up to a second late


def _theme(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/jobs")
    browser.click("[popovertarget=view]")
    browser.click("#view [value=dark]")
    browser.wait_for("document.documentElement?.dataset.theme === 'dark'")
    assert browser.run("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert browser.run("getComputedStyle(document.documentElement).getPropertyValue('--busy')") != ""
    assert violations(browser) == []


def _palette(browser: Browser, site: Site) -> None:
    """By keys alone: open, type, choose, go; `?` names the keys."""
    for width in (1440, 390):
        browser.view(width)
        browser.open(f"{site.url}/audit")
        _press(browser, "?")
        browser.wait_for("document.querySelector('#keys').open")
        assert violations(browser) == []
        _press(browser, "k", ctrlKey=True)
        browser.wait_for("document.querySelector('#palette [data-address=\"/jobs\"]')")
        assert browser.run("document.querySelector('#keys').open") is False
        assert violations(browser) == []
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run(
        "(i => { i.value = 'tok'; i.dispatchEvent(new Event('input', {bubbles: true})); })(document.activeElement)"
    )
    chosen = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    browser.wait_for(f"{chosen}?.dataset.address === '/jobs/tokyo'")
    _press(browser, "ArrowDown")
    browser.wait_for(f"{chosen}.dataset.address === '/runs?job_id=tokyo'")
    _press(browser, "ArrowUp")
    _press(browser, "Enter")
    browser.wait_for("location.pathname === '/jobs/tokyo'")


def test_pages_of_a_job_and_explanations_have_no_fault_of_axe(browser: Browser, site: Site) -> None:
    at = format_instant(system_clock())
    paths = (
        f"/jobs/tokyo?at={at}&before=1&after=2", "/new-job", "/explain", f"/explain?job_id=tokyo&at={at}", "/nowhere",
    )  # fmt: skip
    for width, dark, seen in ((1440, False, paths), (1024, True, paths[:1]), (390, True, paths)):
        browser.view(width, dark=dark)
        for path in seen:
            browser.open(f"{site.url}{path}")
            assert violations(browser) == [], f"{path} at {width}"
            assert browser.run("document.documentElement.scrollWidth") <= width, f"{path} at {width}"
    assert [said for said in browser.complaints if "404" not in said] == []


def test_the_page_of_the_api_has_no_fault_of_axe(browser: Browser, site: Site) -> None:
    for width, dark in ((1440, False), (390, True)):
        browser.view(width, dark=dark)
        browser.open(f"{site.url}/docs")
        browser.wait_for("document.querySelector('h3[aria-level]') && document.querySelector('[role=region]')")
        assert violations(browser) == []
        browser.click(".opblock-summary-control")
        browser.wait_for("document.querySelector('.opblock.is-open .opblock-body') && location.hash")
        assert violations(browser) == []
        assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []


def _press(browser: Browser, key: str, **held: bool) -> None:
    event = json.dumps({"key": key, "bubbles": True, **held})
    browser.run(f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {event})) && 0")
