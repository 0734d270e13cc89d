"""The trends in a real Chromium: drawn once, kept through refreshes without a shift, and the same as text."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_service.sql.database import host_now
from tests.support.browser import Browser, find_browser
from tests.support.sampled import keep_sample, keep_samples
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="a Chromium draws the pages"),
]
AS_OF = "document.querySelector('.as-of time').dateTime"
COLOURED = """(() => { const canvas = document.querySelector("figure[data-plot=throughput] canvas");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4)
    if (Math.max(...data.slice(at, at + 3)) - Math.min(...data.slice(at, at + 3)) > 60 && data[at + 3] > 200) found++;
  return found; })()"""
PLOT = "document.querySelector('#trends canvas')"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Of this test alone: a page of the test before would still ask its site, which is gone."""
    with Browser(str(BROWSER), tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    with serving(sqlite_url, redis_url) as served:
        keep_samples(served.database, host_now())
        yield served


def test_the_overview_draws_its_trends_and_keeps_them_through_refreshes(browser: Browser, site: Site) -> None:
    for width, dark in ((1440, False), (1024, True), (390, False)):
        browser.view(width, dark=dark)
        browser.open(f"{site.url}/?window=6h")
        browser.run(f"(window.drawn = {PLOT}, window.before = {AS_OF}, 0)")
        assert browser.run("document.querySelectorAll('#trends .uplot').length") == 3
        assert browser.run(COLOURED) > 100, "the lines have their colours in this theme"
        browser.wait_for(f"{AS_OF} !== window.before")
        assert browser.run(f"window.drawn === {PLOT} && window.drawn.isConnected"), "it is the same plot"
        assert browser.shifts() == []
        assert browser.run("document.documentElement.scrollWidth") <= width
    assert "mails 0 ms" in browser.text("figure[data-plot=lag] figcaption")
    browser.open(f"{site.url}/queues/mails?window=24h")
    assert browser.run("[...document.querySelectorAll('.uplot')].length") == 3
    assert "pending" in browser.text("figure[data-plot=depth] figcaption")
    browser.open(f"{site.url}/workers")
    assert "fewest alive 3" in browser.text("figure[data-plot=workers] figcaption")
    assert browser.complaints == []


def test_a_gap_and_the_changes_are_there_as_text_and_the_window_is_in_the_address(browser: Browser, site: Site) -> None:
    browser.view(1440)
    browser.open(f"{site.url}/")
    browser.click("#trends nav a[href='?window=1h']")
    browser.wait_for("location.search === '?window=1h' && document.querySelectorAll('#trends .uplot').length === 3")
    assert browser.text("#trends nav [aria-current]") == "1h"
    browser.open(f"{site.url}/?window=24h")
    browser.run("document.querySelectorAll('#trends details').forEach((one) => { one.open = true; })")
    changes = browser.text(".changes")
    assert "the leader's version went from 0.0.9 to 0.1.0" in changes
    assert "the workers' versions went from 0.0.9 to 0.0.9, 0.1.0" in changes
    assert browser.run("JSON.parse(document.getElementById('trend-data').dataset.trends).gaps.length") == 0
    browser.open(f"{site.url}/?window=6h")
    assert browser.run("JSON.parse(document.getElementById('trend-data').dataset.trends).gaps.length") == 1


def test_a_new_sample_is_drawn_without_loading_the_page_again(browser: Browser, site: Site) -> None:
    browser.view(1440)
    browser.open(f"{site.url}/?window=1h")
    browser.run(f"window.drawn = {PLOT}")
    keep_sample(site.database, host_now(), completed=777)
    browser.run("look('trend-data')")
    browser.wait_for("document.querySelector('figure[data-plot=throughput] .latest').textContent.includes('777')")
    assert browser.run(f"window.drawn === {PLOT}")
    assert browser.complaints == []
