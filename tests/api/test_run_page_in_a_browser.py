"""The page of a run in a real browser: in every state, at three widths, in both themes; and the form from it."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import insert

from itinerary.client.sync import Client
from itinerary.protocol.instants import HOUR, MILLISECOND, MINUTE, SECOND, format_instant
from itinerary.protocol.keys import Keys
from scheduler_service.broker.client import connect
from scheduler_service.core.leader.messages import Query
from scheduler_service.sql.database import host_now
from scheduler_service.sql.lease import SqlLeaseStore
from scheduler_service.sql.tables import run_attempts
from tests.support.answering_leader import AnsweringLeader
from tests.support.axe import violations
from tests.support.browser import Browser, find_browser
from tests.support.old_runs import keep, old_run
from tests.support.site import Site, serving

BROWSER: Final = find_browser()
PICTURES: Final = os.environ.get("RUN_PICTURES")
"""A folder for pictures of every state, for whoever wants to look."""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
WIDTHS: Final = (390, 1024, 1440)
TRACEBACK: Final = 'Traceback (most recent call last):\n  File "/srv/shop/close.py", line 17, in close\n' * 8
ERROR: Final = {"type": "shop.errors.NoSuchCustomer", "message": "no customer 4711", "traceback": TRACEBACK}


@dataclass(frozen=True)
class Shown:
    """The site, the ids of its runs by what they show, and its Redis."""

    site: Site
    runs: dict[str, str]
    redis_url: str


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, _sqlite_template: Path, _session_redis: str) -> Iterator[Shown]:
    """A run in each state that the page must show; a leader answers with the progress of one."""
    path = tmp_path_factory.mktemp("runs") / "itinerary.db"
    path.write_bytes(_sqlite_template.read_bytes())
    with serving(f"sqlite:///{path}", _session_redis) as site, closing(site.database):
        runs = _rows(site)
        with AnsweringLeader(_session_redis) as leader:
            progress = {"done": 412, "total": 1000, "unit": "rows", "at": format_instant(host_now() - SECOND)}
            leader.progress = lambda query: {"progress": {runs["running"]: progress}, "count": 1}
            leader.waiting = _waits
            yield Shown(site, runs, _session_redis)


def _waits(query: Query) -> dict[str, Any]:
    held = {"run_id": "adhoc_holder", "attempt": None, "since": "2026-11-29T10:02:00Z"}
    full = {
        "name": "tenant", "key": "acme", "concurrency": 2, "rate": None, "in_flight": 2, "held_by": [held],
        "lanes": 1, "kept_for": None,
    }  # fmt: skip
    whole = {"limits": [full], "before": 17, "before_is_exact": True}
    return {"waiting": whole} if query.what == "waiting" else {"limit": full}


def _rows(site: Site) -> dict[str, str]:
    assert SqlLeaseStore(site.database).acquire(0, "one", HOUR) is not None
    now = host_now()
    at = now - HOUR
    ran: dict[str, Any] = {
        "pending_at": at + 8 * MILLISECOND, "published_at": at + 12 * MILLISECOND, "started_at": at + 31 * MILLISECOND,
        "finished_at": at + 4 * SECOND, "worker": "celery@worker-1.shop.example", "term": 7,
        "kwargs": {"month": 11, "api_token": "s3cret"}, "task": "shop.close_month",
    }  # fmt: skip
    none: dict[str, Any] = {"pending_at": None, "finished_at": None}
    rows = {
        "waiting": old_run(now + MINUTE, state="scheduled", **none),
        "running": old_run(now - 9 * SECOND, state="running", **{**ran, "finished_at": None,
                           "pending_at": now - 8 * SECOND, "started_at": now - 7 * SECOND, "published_at": None}),
        "failed": old_run(at, state="failed", attempt=4, error=ERROR, retry='{"max_attempts": 4}', **{
            **ran, "pending_at": at + 60 * SECOND, "published_at": at + 60 * SECOND + 4 * MILLISECOND,
            "started_at": at + 61 * SECOND, "finished_at": at + 63 * SECOND}),
        "lost": old_run(at, state="failed", reason="lost", **ran, error={
            "type": "Lost", "message": "no heartbeat from worker celery@worker-1 lists it any more"}),
        "cancelled": old_run(at, state="cancelled", reason="cancelled while running", cancel_requested_at=at, **ran),
        "completed": old_run(at, result={"invoices": 42, "customers": ["a" * 200]}, **ran),
        "skipped": old_run(at, state="skipped", reason="overlap skip: a.job_2026 is not final", **{
            **none, "finished_at": at + SECOND}),
        "limited": old_run(now - MINUTE, state="scheduled", limits='[["tenant","acme"]]', **none),
        "unknown": old_run(at, state="failed", **ran, error={
            "type": "celery.exceptions.NotRegistered", "message": "'no.such.task'", "traceback": TRACEBACK},
            reason="no worker on queue default knows the task no.such.task; is it misspelt, or on another queue?"),
    }  # fmt: skip
    for row in rows.values():
        keep(site.database, row)
    ended = {"outcome": "failed", "error": {**ERROR, "message": "a customer " * 30}, "worker": ran["worker"]}
    with site.database.write() as connection:
        for number in (1, 2, 3):
            begun = at + 15 * (number - 1) * SECOND
            times = {"pending_at": begun, "published_at": begun + 3 * MILLISECOND, "started_at": begun + SECOND}
            end = {"finished_at": begun + 2 * SECOND, "run_id": rows["failed"]["run_id"], "attempt": number}
            connection.execute(insert(run_attempts), {**ended, **times, **end})
    return {name: row["run_id"] for name, row in rows.items()}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


def test_no_run_is_wider_than_the_screen_and_none_complains(browser: Browser, shown: Shown) -> None:
    for width in WIDTHS:
        for dark in (False, True) if PICTURES else (False,):
            browser.view(width, dark=dark)
            for name, run_id in shown.runs.items():
                browser.open(f"{shown.site.url}/runs/{run_id}")
                if PICTURES:
                    browser.screenshot(Path(PICTURES) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
                wide = browser.run("document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} wide at {width}"
        browser.open(f"{shown.site.url}/runs/{shown.runs['completed']}/again")
        if PICTURES:
            browser.screenshot(Path(PICTURES) / f"again-{width}.png")
        assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []


def test_the_error_stands_first_and_the_bar_shows_every_attempt(browser: Browser, shown: Shown) -> None:
    browser.view(1440)
    browser.open(f"{shown.site.url}/runs/{shown.runs['failed']}")
    assert browser.run("[...document.querySelectorAll('#seen h2')].map(h => h.textContent)")[0] == "Error"
    kinds = browser.run("[...document.querySelectorAll('svg.spans rect')].map(r => r.getAttribute('class'))")
    assert kinds.count("span-running") == 4
    assert kinds.count("span-pause") == 3
    titles = browser.run("[...document.querySelectorAll('svg.spans rect title')].map(t => t.textContent)")
    assert "attempt 4: running 2.000 s" in titles
    fill = browser.run("getComputedStyle(document.querySelector('.span-running')).fill")
    assert fill != browser.run("getComputedStyle(document.querySelector('.span-published')).fill")
    assert browser.run("document.querySelectorAll('table.attempts tbody tr').length") == 4


def test_a_run_that_runs_has_a_live_bar_with_its_name(browser: Browser, shown: Shown) -> None:
    browser.open(f"{shown.site.url}/runs/{shown.runs['running']}")
    said = "document.querySelector('section.progress')?.innerText.includes('412 of 1,000 rows · 41 %')"
    browser.wait_for(f"document.querySelector('progress')?.value === 41 && {said}")


def test_the_log_is_followed_within_the_page_that_is_fetched_anew(browser: Browser, shown: Shown) -> None:
    keys, task = Keys(), f"{shown.runs['running']}~1"
    log = "document.querySelector('pre.log')"
    browser.view(1440)
    browser.open(f"{shown.site.url}/runs/{shown.runs['running']}")
    browser.wait_for("document.querySelector('#log-next')")
    with connect(shown.redis_url) as client:
        text = "".join(f"line {n}\n" for n in range(200))
        end = len(text)
        client.xadd(keys.live_log(task), {"start": "0", "text": text}, id=f"{end}-0")
        browser.wait_for(f"{log}.textContent.includes('line 199')")
        before = browser.run("document.querySelector('.as-of time').dateTime")
        browser.wait_for(f"document.querySelector('.as-of time').dateTime !== '{before}'")
        client.xadd(keys.live_log(task), {"start": str(end), "text": "the last\n"}, id=f"{end + 9}-0")
        browser.wait_for(f"{log}.textContent.endsWith('line 199\\nthe last\\n')")
        assert browser.run(f"{log}.scrollTop") == 0, "its end is in view"
        assert browser.run(f"{log}.scrollHeight > {log}.clientHeight")
        if PICTURES:
            browser.screenshot(Path(PICTURES) / "followed-1440.png")
        client.delete(keys.live_log(task), keys.watch(task), keys.watched)
    assert browser.complaints == []


def test_a_run_again_is_made_from_its_page(browser: Browser, shown: Shown) -> None:
    browser.open(f"{shown.site.url}/runs/{shown.runs['completed']}")
    browser.click("#with-changes")
    browser.wait_for("document.querySelector('.run-again')")
    assert "s3cret" not in browser.text("body")
    browser.click("#again")
    browser.wait_for("document.querySelector('[name=kwargs][aria-invalid=true]')")
    assert "stands for a hidden value" in browser.text("#wrong-kwargs")
    browser.fill("[name=queue]", "slow")
    browser.run("document.querySelector('[name=keep]').click()")
    browser.click("#again")
    browser.wait_for("document.querySelector('#notice')?.textContent.includes('with your changes')")
    assert f"Again of {shown.runs['completed']}" in browser.text("#seen")
    with Client(shown.site.url) as client:
        (new,) = client.runs(queue="slow")["items"]
    assert (new["kwargs"]["month"], new["retry_of"]) == (11, shown.runs["completed"])
    browser.open(f"{shown.site.url}/runs/{shown.runs['completed']}")
    assert f"Run again as {new['run_id']}" in browser.text("#seen")


def test_the_pages_of_a_run_have_no_fault_of_axe(browser: Browser, shown: Shown) -> None:
    for dark in (False, True):
        browser.view(1024, dark=dark)
        for path in (
            *(shown.runs[name] for name in ("failed", "running", "completed")),
            f"{shown.runs['failed']}/again",
        ):
            browser.open(f"{shown.site.url}/runs/{path}")
            assert violations(browser) == [], path
