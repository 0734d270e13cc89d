"""Signing in with a real browser: at the provider and back, work, the end of a session, sharing, signing out."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from scheduler_service.core.audit import AuditedChange
from scheduler_service.sql.database import host_now
from scheduler_service.sql.sessions import SqlSessionStore
from tests.support.axe import violations
from tests.support.browser import Browser, find_browser
from tests.support.oidc_provider import CLIENT, SECRET, RunningProvider
from tests.support.processes import free_port
from tests.support.site import Site, serving

BROWSER = find_browser()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one"),
]
TOKEN = "secret-of-a-program"
JOB = {"job_id": "a.job", "task": "pkg.task", "schedule": {"kind": "interval", "every": "1h"}}


@pytest.fixture
def provider() -> Iterator[RunningProvider]:
    with RunningProvider() as running:
        running.behaves(asks=True)
        yield running


@pytest.fixture
def site(sqlite_url: str, redis_url: str, provider: RunningProvider) -> Iterator[Site]:
    """An API that knows the provider and a token, and shares pages."""
    port = free_port()
    given = {
        "api_port": port, "public_url": f"http://127.0.0.1:{port}", "share_links": True,
        "api_tokens": f"ci:operator:{hashlib.sha256(TOKEN.encode()).hexdigest()}",
        "oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET,
        "oidc_roles": "ops:operator",
    }  # fmt: skip
    with serving(sqlite_url, redis_url, **given) as served:
        with Client(served.url, token=TOKEN) as client:
            client.create_job(JOB)
        yield served
        served.database.close()


def at(path: str) -> str:
    return f"location.pathname === '{path}'"


def test_the_whole_way_in_a_browser(site: Site, provider: RunningProvider, tmp_path: Path) -> None:
    with Browser(str(BROWSER), tmp_path / "profile") as browser:
        browser.view(390)
        browser.open(f"{site.url}/jobs/a.job")
        browser.wait_for(at("/sign-in"))
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert violations(browser) == []
        browser.click(".at-provider")
        browser.click("#approve")
        browser.wait_for(at("/jobs/a.job"))
        assert f"jane@example.com ({provider.issuer}), operator" in browser.text("footer")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        browser.view(1440)

        browser.click("form[action='/jobs/a.job/trigger'] button")
        browser.wait_for("location.pathname.startsWith('/runs/')")
        assert browser.complaints == []

        by = AuditedChange("admin", "admin", "session.end")
        browser.open(f"{site.url}/jobs/a.job")
        assert SqlSessionStore(site.database).end_all("u-1", provider.issuer, host_now(), by=by) == 1
        browser.wait_for(at("/sign-in"))
        browser.click(".at-provider")
        browser.click("#approve")
        browser.wait_for(at("/jobs/a.job"))
        browser.complaints.clear()  # the refresh that was refused

        browser.click("footer a[href^='/links/new']")
        browser.wait_for(at("/links/new"))
        browser.click("main form button")
        browser.wait_for("document.querySelector('main input[readonly]')")
        assert violations(browser) == []
        link = browser.run("document.querySelector('main input[readonly]').value")

        browser.open(f"{site.url}/links")
        assert violations(browser) == []
        browser.click(".sign-out button:not([name])")
        browser.wait_for(f"{at('/sign-in')} && document.body.innerText.includes('You are signed out.')")
        browser.open(f"{site.url}/jobs")
        browser.wait_for(at("/sign-in"))

        browser.open(link)
        assert "Shared page, to read only" in browser.text("header")
        assert "a.job" in browser.text("h1")
        assert violations(browser) == []
        assert browser.run("document.querySelectorAll('form[method=post]').length") == 0
        before = browser.text(".as-of")
        browser.wait_for(f"document.querySelector('.as-of').innerText !== {before!r}")
        for width in (390, 1024):
            browser.view(width)
            assert browser.run("document.documentElement.scrollWidth") <= width

        browser.open(f"{site.url}/sign-in?next=/runs")
        browser.run("document.querySelector('details').open = true")
        browser.fill("input[name=token]", TOKEN)
        browser.click("form[action='/sign-in'] button")
        browser.wait_for(at("/runs"))
        assert "ci, operator" in browser.text("footer")
        assert browser.complaints == []
