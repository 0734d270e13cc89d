"""Pages in a real browser: nothing wider than the screen, refused values told where they were typed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from itinerary.protocol.instants import HOUR, MINUTE, format_instant
from scheduler_service.core.leader.commands import CreateRuns
from scheduler_service.core.model import MissedRange
from scheduler_service.sql.database import host_now
from tests.support.axe import violations
from tests.support.browser import Browser, find_browser
from tests.support.led import Led
from tests.support.old_runs import keep, old_run
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
GOOD = 0.1
"""How far the parts of a page may have moved since it was drawn: what is held to be good."""
STILL = ("/", "/jobs", "/runs", "/load", "/failures?within=7d")
JOB = "a.job-with-a-long-name-of-somebody.who-likes-names.that-say-everything"


@pytest.fixture
def site(sqlite_url: str, redis_url: str) -> Iterator[Site]:
    """A job with a long name, its run, a group of failures, an outage of three jobs; nobody leads."""
    with serving(sqlite_url, redis_url) as served:
        led = Led(served.database)
        now = host_now()
        error = {"type": "RuntimeError", "message": "no such customer", "traceback": "Traceback ...\n" * 9}
        keep(served.database, *(old_run(now - n * MINUTE, state="failed", error=error) for n in range(3)))
        missed_ranges = tuple(
            MissedRange(f"{JOB}-{n}", now - HOUR, now - 30 * MINUTE, 30, "misfire skip: later than 30s")
            for n in range(3)
        )
        led.store.create_runs(led.lease, CreateRuns((), cursor=now, missed_ranges=missed_ranges))
        led.leases.resign(led.lease)
        with Client(served.url) as client:
            for name in (JOB, *(f"{JOB}-{n}" for n in range(3))):
                schedule = {
                    "kind": "interval",
                    "every": "1m",
                    "anchor": "2026-01-01T00:00:00Z",
                }  # also just after midnight
                client.create_job(
                    {"job_id": name, "task": "pkg.task", "schedule": schedule, "tags": ["finance", "night"]}
                )
            client.cancel(client.trigger(JOB)["run_id"])
            keys = {f"{JOB}-{n}": {"concurrency": n} for n in (1, 2)}
            client.start_freeze({"jobs": [JOB, *(f"{JOB}-{n}" for n in range(3))]}, "the closing of the books " * 9)
            client.put_limit(JOB, {"rate": {"count": 90, "per": "10s"}, "per_key": True, "overrides": keys})
            wide = {"k" * 256: {"concurrency": 2}}
            client.put_limit("w" * 100, {"concurrency": 1, "per_key": True, "overrides": wide})
            client.put_queue("q" * 128, {"concurrency": 2, "description": "d" * 200})
            client.pause_queue("q" * 128, "r" * 200)
            client.start_freeze({"queues": ["q" * 128, "p" * 128]}, "r" * 200)
        yield served
        served.database.close()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(str(BROWSER), tmp_path / "profile") as opened:
        yield opened


def pages(site: Site) -> list[str]:
    with Client(site.url) as client:
        run_id = client.runs(job_id=JOB)["items"][0]["run_id"]
        failed = client.runs(state="failed")["items"][0]["run_id"]
    since, until = format_instant(host_now() - 2 * HOUR), format_instant(host_now())
    return [
        "/", "/jobs", "/runs", f"/runs/{run_id}", f"/runs/{failed}", f"/jobs/{JOB}", "/failures?within=7d",
        "/failures/runs?within=7d&task=pkg.task&error_type=RuntimeError", f"/failures/backfill?from={since}&to={until}",
        "/workers", "/explain", "/audit", "/sessions", "/new-job", "/load", "/runs?since=yesterday", "/jobs/nobody",
        "/calendar?view=week", "/monitors", "/timeline",
        "/views", "/freezes", "/queues", f"/queues?edit={JOB}", "/limits", f"/limits?edit={JOB}",
    ]  # fmt: skip


def test_no_page_is_wider_than_the_screen_or_hard_to_reach(browser: Browser, site: Site) -> None:
    for width in (390, 1024, 1440):
        browser.view(width)
        for path in pages(site):
            browser.open(f"{site.url}{path}")
            wide = browser.run("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} wide at {width}"
            assert width != 1440 or violations(browser) == [], path
            shifts = browser.shifts() if path in STILL else []
            assert sum(value for value, *_ in shifts) < GOOD, f"{path} moves at {width}: {shifts}"
        if width == 1024:
            browser.open(site.url)
            assert browser.run("(nav => nav.scrollWidth <= nav.clientWidth)(document.querySelector('#menu'))")
            tops = browser.run("[...document.querySelectorAll('#menu a')].map(a => Math.round(a.offsetTop))")
            assert len(set(tops)) <= 2, tops
    assert [said for said in browser.complaints if "422" not in said and "404" not in said] == []


def test_what_is_refused_stays_on_its_page_with_the_sentence_at_its_field(browser: Browser, site: Site) -> None:
    browser.view(1280)
    browser.open(f"{site.url}/runs?queue=mail")
    browser.fill("[name=since]", "soon")
    browser.click(".filters button")
    browser.wait_for("document.querySelector('[name=since][aria-invalid=true]')")
    assert browser.run("document.querySelector('[name=queue]').value") == "mail"
    assert "'soon' is not accepted" in browser.text("#wrong-since")
    assert browser.run("document.querySelector('#field-since').getAttribute('aria-describedby')") == "wrong-since"

    browser.open(f"{site.url}/jobs/{JOB}")
    browser.run("document.querySelector('[name=confirm]').closest('details').open = true")
    browser.fill("[name=confirm]", "another")
    browser.click("form[action$='/delete'] button")
    browser.wait_for("document.querySelector('[name=confirm][aria-invalid=true]')")
    assert browser.run("document.querySelector('[name=confirm]').closest('details').open")
    assert browser.run("document.querySelector('[name=confirm]').value") == "another"

    browser.open(f"{site.url}/new-job")
    for name, text in (("job_id", "limited"), ("task", "t"), ("limits", '["api", "nowhere"]')):
        browser.fill(f"[name={name}]", text)
    browser.click("#save")
    browser.wait_for("document.querySelector('[name=limits][aria-invalid=true]')")
    assert browser.run("document.querySelector('[name=limits]').closest('details').open")
    assert browser.run("document.querySelector('[name=limits]').value") == '["api", "nowhere"]'
    assert "no limit has this name" in browser.text("#wrong-limits")

    browser.open(f"{site.url}/jobs?q=job-with")
    browser.click(".acting button[value=pause]")
    browser.wait_for("document.querySelector('.trouble')")
    assert "Tick some rows" in browser.text(".trouble")
    browser.click(".crumbs a")
    browser.wait_for("document.querySelector('[name=q]')")
    assert browser.run("document.querySelector('[name=q]').value") == "job-with"
    assert [said for said in browser.complaints if "422" not in said] == []


def test_an_answer_that_comes_late_takes_nothing_from_whoever_began_meanwhile(browser: Browser, site: Site) -> None:
    browser.view(1280)
    browser.open(f"{site.url}/jobs/{JOB}")
    browser.run(
        "document.body.addEventListener('htmx:afterRequest', () => { window.answers = (window.answers || 0) + 1 })"
    )
    box, field = (
        "document.querySelector('#seen .drawers details')",
        "document.querySelector('#seen .drawers [name=reason]')",
    )
    browser.run(f"(window.answers = 0, look('seen', true), {box}.open = true, 0)")
    browser.wait_for("window.answers > 0")
    assert browser.run(f"{box}.open"), "it was opened after the page asked"
    browser.run(
        f"(window.answers = 0, {box}.open = false, look('seen', true), {box}.open = true, {field}.focus(),"
        f" {field}.value = 'typed', {box}.open = true, 0)"
    )
    browser.wait_for("window.answers > 0")
    assert browser.run(f"{field}.value") == "typed"
    shown = browser.text(".as-of")
    browser.run(f"(document.activeElement.blur(), {box}.open = false, look('seen', true), 0)")
    browser.wait_for(f"document.querySelector('.as-of').innerText !== {shown!r}")
    assert browser.complaints == []


def test_a_field_below_a_box_keeps_its_distance(browser: Browser, site: Site) -> None:
    browser.view(1440)
    browser.open(f"{site.url}/monitors")
    browser.run("document.querySelectorAll('details').forEach(box => { box.open = true })")
    between = "box.nextElementSibling.getBoundingClientRect().top - box.getBoundingClientRect().bottom"
    assert browser.run(f"(box => {between})(document.querySelector('#new details'))") >= 12


def test_an_outage_is_backfilled_in_two_clicks(browser: Browser, site: Site) -> None:
    browser.view(1280)
    browser.open(f"{site.url}/failures?within=24h")
    assert browser.run("document.querySelectorAll('#gaps ~ table tbody tr').length") == 1
    browser.click("a[href^='/failures/backfill']")
    browser.wait_for("document.querySelector('#make-backfill')")
    assert browser.text("#make-backfill").startswith("Create 9")
    browser.click("#make-backfill")
    browser.wait_for("document.querySelector('#notice')?.innerText.includes('of so many jobs: 3')")
    assert browser.complaints == []


def test_a_limit_is_edited_in_its_row_and_deleted_after_a_question(browser: Browser, site: Site) -> None:
    browser.view(1440)
    browser.open(f"{site.url}/limits")
    browser.click(f"[aria-label='Edit {JOB}']")
    browser.wait_for("document.querySelector('#edit')")
    assert browser.run("document.querySelector('#seen').hasAttribute('hx-get')") is False, "nothing typed is lost"
    browser.fill("[name=rate]", "soon")
    browser.click("#save")
    browser.wait_for("document.querySelector('[name=rate][aria-invalid]')")
    assert browser.run("document.querySelector('[name=rate]').value") == "soon"
    browser.fill("[name=rate]", "7/1m")
    browser.click("#save")
    browser.wait_for("document.querySelector('#notice .good')")
    assert "7 in 1m" in browser.text("table")
    browser.click(f"[aria-label='Edit {JOB}']")
    browser.wait_for("document.querySelector('#edit')")
    assert browser.run("document.querySelector('#delete').checkVisibility()") is False
    browser.click(".editing summary")
    browser.click("#delete")
    browser.wait_for(f"document.querySelector('table') && !document.getElementById('limit-{JOB}')")
    assert [said for said in browser.complaints if "422" not in said] == []
