"""The dashboard in a real browser over a whole `itinerary up`: the main flows, and no page with a complaint."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.migrations import upgrade
from tests.support.browser import Browser, find_browser
from tests.support.placed_jobs import cluster
from tests.support.running import Running, WarmRunning

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed; name one by ITINERARY_TEST_BROWSER"),
]
WIDTHS = (1280, 390)
CROWD = [f"crawl.source-{number:02}" for number in range(12)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One `up`, whose database has jobs that were placed long ago, all at the same time of the day."""
    data_dir = tmp_path_factory.mktemp("site") / "data"
    data_dir.mkdir()
    database_url = f"sqlite:///{data_dir}/itinerary.db"
    upgrade(database_url)
    with closing(Database(database_url, pool_size=1)) as database:
        cluster(database, CROWD, host_now(), pinned=2)
    with WarmRunning(data_dir) as up:
        yield up


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[Client]:
    with running.client() as client:
        yield client


@pytest.fixture
def browser(running: Running, tmp_path: Path) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path / "profile") as opened:
        opened.view(1280)
        yield opened
        assert opened.complaints == []


def put(browser: Browser, name: str, value: str) -> None:
    """Type into a field."""
    browser.fill(f"[name={json.dumps(name)}]", value)


def says(text: str) -> str:
    """That the page shows this text."""
    return f"document.querySelector('main')?.innerText.includes({json.dumps(text)})"


def at(path: str) -> str:
    """That the browser has come to this page, and has loaded it."""
    return f"location.pathname.startsWith({json.dumps(path)})"


def test_a_job_is_made_seen_to_run_paused_and_run_by_hand(browser: Browser, running: Running, client: Client) -> None:
    url = running.written["api_url"]
    browser.open(f"{url}/new-job")
    put(browser, "job_id", "tick")
    put(browser, "task", "itinerary.echo")
    browser.click("[name=kind][value=interval]")
    put(browser, "interval.every", "0s")
    browser.wait_for("document.querySelector('#preview .hint')")
    put(browser, "interval.every", "5s")
    browser.wait_for("document.querySelectorAll('#preview li').length === 10")
    browser.click("#save")
    browser.wait_for(at("/jobs/tick") + " && " + says("The job is saved."))
    assert browser.run("location.search") == ""
    browser.wait_for(says("completed"))

    browser.click(".drawers summary")
    put(browser, "reason", "seen enough")
    browser.click("#pause")
    browser.wait_for("document.querySelector('#resume')")
    browser.wait_for(says("seen enough"))
    assert client.job("tick")["paused"] is True

    browser.click("#run-now")
    browser.wait_for(at("/runs/tick_manual-"))
    browser.wait_for(says("completed") + " && document.querySelector('#retry')")
    assert browser.text(".verdict") == "completed"
    browser.open(f"{url}/jobs/tick")
    browser.click("#resume")
    browser.wait_for("!document.querySelector('#resume') && document.querySelector('#run-now')")
    assert client.job("tick")["paused"] is False


def test_a_run_is_cancelled_and_tried_again_and_explains_itself(
    browser: Browser, running: Running, client: Client
) -> None:
    url = running.written["api_url"]
    run = client.enqueue("itinerary.sleep", kwargs={"seconds": 60})
    browser.open(f"{url}/runs/{run['run_id']}")
    browser.wait_for(says("runs it"))
    browser.click("#cancel")
    browser.wait_for(says("cancelled") + " && document.querySelector('#retry')")
    browser.wait_for(says("Its cancellation was requested by loopback"))
    later = client.enqueue("itinerary.echo", run_at="2030-01-01T00:00:00Z")
    browser.open(f"{url}/runs/{later['run_id']}")
    browser.wait_for(says("not yet due"))
    browser.click("#cancel")
    browser.wait_for("document.querySelector('#retry')")
    browser.click("#retry")
    browser.wait_for(says("Again of " + later["run_id"]))
    browser.wait_for(says("completed"))


def test_a_job_says_why_it_did_not_run(browser: Browser, running: Running, client: Client) -> None:
    client.create_job({"job_id": "why", "task": "itinerary.echo", "schedule": {"kind": "hourly", "minute": 17}})
    browser.open(f"{running.written['api_url']}/jobs/why")
    put(browser, "at", "2026-01-01 00:17")
    browser.click("#why ~ form button")
    browser.wait_for("document.querySelector('.verdict')")
    assert browser.text(".verdict strong") == "never due"


def test_a_rebalance_is_previewed_confirmed_and_changes_the_load_map(
    browser: Browser, running: Running, client: Client
) -> None:
    heat = (
        "[...document.querySelectorAll('#distribution .heat rect')].map(rect => rect.querySelector('title').innerHTML)"
    )
    before = {name: client.job(name)["next_runs"][0] for name in CROWD}
    browser.open(f"{running.written['api_url']}/load")
    browser.wait_for("document.querySelector('#rebalance-button')")
    crowded = browser.run(heat)
    browser.click("#rebalance-button")
    browser.wait_for("document.querySelector('#confirm-rebalance')")
    assert "2 jobs left alone: is pinned" in browser.text("#rebalance-body")
    promised = browser.run("document.querySelectorAll('#rebalance-body tbody tr').length")
    assert f"move {promised} job" in browser.text("#confirm-rebalance")
    assert {name: client.job(name)["next_runs"][0] for name in CROWD} == before

    browser.click("#confirm-rebalance")
    browser.wait_for("document.querySelector('#undo-rebalance')")
    browser.click("#rebalance-body [data-close]")
    browser.wait_for(f"JSON.stringify({heat}) !== JSON.stringify({json.dumps(crowded)})")
    after = {name: client.job(name)["next_runs"][0] for name in CROWD}
    assert sum(before[name] != after[name] for name in CROWD) == promised > 0
    assert [after[name] for name in CROWD[:2]] == [before[name] for name in CROWD[:2]]
    browser.open(f"{running.written['api_url']}/audit")
    browser.wait_for(says("rebalance"))


@pytest.mark.parametrize("dark", [False, True])
def test_every_page_fits_its_window_in_both_themes(
    browser: Browser, running: Running, client: Client, dark: bool
) -> None:
    schedule = {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"}
    client.put_job("fits", {"task": "itinerary.echo", "schedule": schedule, "title": "A long title of a job " * 4})
    run = client.enqueue("itinerary.echo")["run_id"]
    pages = ["/", "/jobs", "/jobs/fits", "/jobs/fits/edit", "/new-job", "/runs", f"/runs/{run}", "/failures"]
    for path in [*pages, "/workers", "/load", "/explain", "/explain?job_id=fits&at=2026-01-01 00:00", "/audit"]:
        browser.open(running.written["api_url"] + path)
        for width in WIDTHS:
            browser.view(width, dark=dark)
            over = browser.run("document.documentElement.scrollWidth - window.innerWidth")
            assert over <= 0, f"{path} is {over} pixels too wide for {width}"


def test_on_a_narrow_screen_the_navigation_shows_where_one_is(browser: Browser, running: Running) -> None:
    browser.view(390)
    browser.open(running.written["api_url"] + "/audit")
    browser.click("#menu-button")
    browser.wait_for(
        "(() => { const r = document.querySelector('nav [aria-current=page]').getBoundingClientRect();"
        " return 0 <= r.left && r.left < r.right && r.right <= 390; })()"
    )


def test_refreshing_stops_and_goes_on(browser: Browser, running: Running) -> None:
    browser.open(running.written["api_url"])
    browser.wait_for("document.querySelector('#distribution svg')")
    before = browser.text(".as-of")
    browser.wait_for(f"document.querySelector('.as-of').innerText !== {json.dumps(before)}")
    browser.click("#refresh")
    browser.wait_for("document.querySelector('#refresh').innerText.includes('Paused')")
    browser.open(running.written["api_url"] + "/jobs")
    assert browser.text("#refresh") == "Paused"
    browser.click("#refresh")
    browser.wait_for("document.querySelector('#refresh').getAttribute('aria-pressed') === 'true'")
