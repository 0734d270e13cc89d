"""The manual in a real browser: nothing wider than the screen, contents at hand, both themes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, find_browser
from tests.support.pages import CHAPTERS
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    with serving(sqlite_url, redis_url) as served:
        yield served
        served.database.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path / "profile") as opened:
        yield opened


def test_no_page_of_the_manual_is_wider_than_the_screen(browser: Browser, site: Site) -> None:
    for width, dark in ((390, False), (1440, True)):
        browser.view(width, dark=dark)
        for path in ("", *(f"/{page.stem}" for page in CHAPTERS)):
            browser.open(f"{site.url}/manual{path}")
            wide = browser.run("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide at {width}"
            broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
            assert browser.run(broken) == []
    assert browser.complaints == []


def test_no_name_of_the_navigation_is_cut(browser: Browser, site: Site) -> None:
    cut = (
        "[...document.querySelectorAll('#menu a')].filter(a => {"
        " const at = a.getBoundingClientRect(), row = a.parentElement.getBoundingClientRect();"
        " return at.left < row.left - 1 || at.right > row.right + 1 }).map(a => a.textContent)"
    )
    for width in (320, 390, 640):
        browser.view(width)
        browser.open(f"{site.url}/manual")
        browser.click("#menu-button")
        assert browser.run(cut) == [], f"at {width}"


def test_the_contents_are_beside_the_text_or_one_click_away(browser: Browser, site: Site) -> None:
    place = "(s => document.querySelector(s).getBoundingClientRect())"
    browser.view(1440)
    browser.open(f"{site.url}/manual/cron")
    assert browser.run(f"{place}('#contents').right <= {place}('article').left")
    browser.click("#contents a[href='#refused-when-saved']")
    browser.wait_for(f"Math.abs({place}('#refused-when-saved').top) < 40")
    browser.view(390)
    browser.open(f"{site.url}/manual/cron")
    assert browser.run(f"{place}('article').width") > 340
    assert browser.run(f"{place}('#contents').top > {place}('article').bottom - 1")
    browser.click(".to-contents a")
    browser.wait_for(f"{place}('#contents').top < 1000")
    browser.click("#contents a[href='/manual/clocks']")
    browser.wait_for("document.title.startsWith('Clock rules')")
    assert browser.complaints == []
