"""Lists and bulk operations in a real browser: ticks, the bar in sight, preview, begin, undo; at three widths."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from itinerary.protocol.instants import MINUTE
from scheduler_service.bootstrap.bulk import carrying_on_bulk
from scheduler_service.bootstrap.parts import open_stores
from scheduler_service.config.settings import Settings
from scheduler_service.sql.database import host_now
from tests.support.browser import Browser, find_browser
from tests.support.old_runs import keep, old_run
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
IN_SIGHT = """(bar => bar.top < innerHeight && bar.bottom <= innerHeight + 1 && bar.bottom > 0)(
    document.querySelector('.acting').getBoundingClientRect())"""
TITLE = "a title of somebody who likes titles that say everything there is to say " * 2


@pytest.fixture(scope="module")
def site(_session_redis: str, tmp_path_factory: pytest.TempPathFactory, _sqlite_template: Path) -> Iterator[Site]:
    """60 jobs with long titles, 1,200 failed runs; operations are carried on."""
    path = tmp_path_factory.mktemp("site") / "itinerary.db"
    path.write_bytes(_sqlite_template.read_bytes())
    url = f"sqlite:///{path}"
    with serving(url, _session_redis) as served, Client(served.url) as client:
        now = host_now()
        error = {"type": "RuntimeError", "message": "no such customer " * 20, "traceback": "..."}
        keep(served.database, *(old_run(now - n * MINUTE, state="failed", error=error) for n in range(1_200)))
        for number in range(60):
            job = {"task": "pkg.task", "schedule": {"kind": "interval", "every": "90m"}, "title": TITLE, "tags": ["t"]}
            client.create_job({**job, "job_id": f"a.job-{number:02}"})
        with (
            open_stores(Settings(database_url=url, redis_url=_session_redis)) as stores,
            carrying_on_bulk(stores.bulk, lambda _: None),
        ):
            yield served
        served.database.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_nothing_is_wider_than_the_screen_and_a_row_is_a_line(browser: Browser, site: Site) -> None:
    for width in (1440, 1024, 390):
        browser.view(width)
        for path in ("/jobs", "/runs", "/bulk", "/bulk/new?on=runs&action=retry&scope=all&state=failed", "/views"):
            browser.open(f"{site.url}{path}")
            assert browser.run("document.documentElement.scrollWidth") <= width, (path, width)
        browser.open(f"{site.url}/jobs")
        if width > 640:  # on a phone the bar is out of the way until a row is ticked
            assert browser.run("document.querySelector('.acting').getBoundingClientRect().bottom <= innerHeight")
            assert browser.run("document.querySelector('.lines tbody tr').getBoundingClientRect().height") < 40
    assert browser.complaints == []


def test_on_a_phone_the_bar_comes_into_sight_with_a_ticked_row(browser: Browser, site: Site) -> None:
    browser.view(390, height=700)
    for path in ("/jobs", "/runs?state=failed"):
        browser.open(f"{site.url}{path}")
        assert not browser.run(IN_SIGHT), (path, "out of the way")
        browser.click("td.tick input")
        browser.wait_for(IN_SIGHT)
        browser.click("td.tick input")
        browser.wait_for(f"!({IN_SIGHT})")
    assert browser.complaints == []


def test_all_rows_of_the_page_are_ticked_and_paused_and_it_is_undone(browser: Browser, site: Site) -> None:
    browser.view(1440)
    browser.open(f"{site.url}/jobs?tag=t")
    browser.click("[data-ticks]")
    assert browser.run("document.querySelectorAll('td.tick input:checked').length") == 50
    browser.click(".acting button[value=pause]")
    browser.wait_for("document.querySelector('[name=reason]')")
    browser.fill("[name=reason]", "audit")
    browser.click(".filters button")
    shown = "document.querySelector('.foreseen')?.textContent.includes('50')"
    browser.wait_for(f"location.search.includes('reason=audit') && {shown}")
    browser.click("form[action='/bulk'] button")
    browser.wait_for("document.querySelector('#notice')?.innerText.includes('Begun')")
    browser.wait_for("document.querySelector('.foreseen')?.innerText.includes('paused')")
    with Client(site.url) as client:
        assert client.jobs(paused=True, limit=100, total=True).total == 50
        browser.click("form[action$='/undo'] button")
        browser.wait_for("document.querySelector('.foreseen')?.innerText.includes('as before')")
        assert client.jobs(paused=True).items == []
    assert browser.complaints == []


def test_a_list_is_saved_as_a_view_and_found_by_its_name(browser: Browser, site: Site) -> None:
    browser.view(1440)
    browser.open(f"{site.url}/runs?state=failed")
    browser.click("nav.views a")
    browser.wait_for("document.querySelector('[name=address]')?.value == '/runs?state=failed'")
    browser.fill("[name=name]", "what failed")
    browser.click("form[action='/views'] button")
    browser.wait_for("document.querySelector('#notice')?.innerText.includes('Saved as a view')")
    browser.wait_for("document.querySelector('nav.views [aria-current]')?.innerText == 'what failed'")
    browser.open(f"{site.url}/jobs")
    browser.click("#search")
    browser.fill("#palette-input", "what f")
    browser.wait_for("document.querySelector('#palette-list [data-address=\"/runs?state=failed\"]')")
    assert browser.complaints == []


def test_all_that_match_are_run_again_while_the_page_follows(browser: Browser, site: Site) -> None:
    browser.view(390, dark=True)
    browser.open(f"{site.url}/runs?state=failed")
    assert "all 1,200 that match" in browser.text(".acting select")
    browser.fill("[name=scope]", "all")
    browser.click(".acting button[value=retry]")
    browser.wait_for("document.querySelector('form[action=\"/bulk\"]')")
    assert browser.text("form[action='/bulk'] button") == "Run again: 1,200 runs"
    browser.click("form[action='/bulk'] button")
    browser.wait_for("document.querySelector('#seen')?.innerText.includes('Done: 1,200 seen')")
    assert "1,200\trun again" in browser.text(".foreseen tbody")
    assert browser.complaints == []
