"""Flower as its process: no route answers a stranger, and one click from the dashboard leads in."""

import http.server
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduler_service.flower_server.tickets import LOGIN_PATH, new_ticket, sealed
from tests.support.browser import Browser, find_browser
from tests.support.command_line import Itinerary
from tests.support.flower_process import PASSWORD, FlowerProcess, flower, routes
from tests.support.processes import PATIENCE, Child, project_env, wait_until
from tests.support.redis_server import RedisServer
from tests.support.running import WarmRunning

pytestmark = pytest.mark.e2e
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BROWSER = find_browser()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowerProcess]:
    # What would open it, had it been set by somebody, is not listened to.
    with (
        RedisServer(tmp_path_factory.mktemp("redis")) as redis,
        flower(redis.url, FLOWER_UNAUTHENTICATED_API="true", FLOWER_MAX_TASKS="77") as process,
    ):
        yield process


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example", "Content_Type": "text/plain"}, 403),
    ],
)
def test_no_route_answers_a_foreign_page_by_any_method(
    running: FlowerProcess, headers: dict[str, str], status: int
) -> None:
    for path in (*routes(), "/itinerary-login"):
        for method in METHODS:
            answer = running.ask(method, path, password=PASSWORD, **headers)
            assert answer.status == status, (method, path, answer)
            assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)


def test_no_route_but_the_health_check_answers_without_a_login(running: FlowerProcess) -> None:
    for path in routes():
        for method in METHODS:
            answer = running.ask(method, path)
            is_open = path == "/healthcheck" and method in ("GET", "HEAD", "OPTIONS")
            assert (answer.status == 401) is not is_open, (method, path, answer)
            assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)
    assert running.ask("GET", "/healthcheck").text == "OK"


def test_with_the_password_every_page_is_there_and_none_may_be_framed_or_read_by_others(running: FlowerProcess) -> None:
    for path in (
        "/",
        "/workers",
        "/tasks",
        "/broker",
        "/metrics",
        "/api/workers",
        "/api/tasks",
        "/static/css/flower.css",
    ):
        answer = running.ask("GET", path, password=PASSWORD)
        assert answer.status == 200, (path, answer)
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert running.ask("GET", path, password="wrong").status in (401, 429)


def test_a_checker_of_links_does_not_use_a_ticket_up(running: FlowerProcess) -> None:
    ticket = sealed(new_ticket("me", "viewer", "/tasks", time.time_ns() // 1000, "ticket"), PASSWORD, "ticket")
    address = f"{LOGIN_PATH}?ticket={ticket}"
    head = running.ask("HEAD", address)
    assert (head.status, head.headers["allow"]) == (405, "GET")
    assert "set-cookie" not in head.headers
    assert running.ask("GET", address).status == 200
    assert running.ask("GET", address).status == 403


def test_without_a_password_it_does_not_start(tmp_path: Path) -> None:
    ended = Itinerary(project_env(ITINERARY_DATA_DIR=str(tmp_path), FLOWER_UNAUTHENTICATED_API="1"))("flower")
    assert ended.returncode == 2
    assert "ITINERARY_FLOWER_PASSWORD" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("setting", "most"), [({}, 10_000), ({"ITINERARY_FLOWER_MAX_TASKS": "77"}, 77)])
def test_flower_keeps_a_bounded_number_of_tasks(setting: dict[str, str], most: int) -> None:
    ask = "from celery import Celery; from scheduler_service.config.settings import load_settings\n"
    ask += "from scheduler_service.flower_server.serve import guarded_flower\n"
    ask += "print('keeps', guarded_flower(load_settings(), 'x', Celery()).events.state.max_tasks_in_memory)"
    with Child([sys.executable, "-c", ask], env=project_env(**setting)) as child:
        assert child.wait_for_line("keeps") == f"keeps {most}\n"


@contextmanager
def foreign_page() -> Iterator[str]:
    """A page of somebody else, served at a name of its own."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>foreign</title><p>nice kittens")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://evil.localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium here; ITINERARY_TEST_BROWSER can name one")
def test_in_a_browser_one_click_leads_in_and_a_foreign_page_reads_and_does_nothing(tmp_path: Path) -> None:
    with (
        WarmRunning(tmp_path / "data") as up,
        foreign_page() as evil,
        Browser(str(BROWSER), tmp_path / "profile") as browser,
    ):
        up.wait_for("flower")
        flower_url, password = up.written["flower_url"], (up.data_dir / "flower.password").read_text().strip()
        asked = FlowerProcess(int(up.setting("ITINERARY_FLOWER_PORT")), up.process or pytest.fail("it does not run"))
        # It answers before it hears events, and a page of a task that it has not heard of yet stays as it is.
        workers = "/workers?json=1"
        wait_until(lambda: "heartbeats" in asked.ask("GET", workers, password=password).text, what="an event")
        with up.client() as client:
            run = client.enqueue("itinerary.echo", kwargs={"card": "4111"})
            client.wait(run["run_id"], timeout=PATIENCE)
        known = f"/api/task/info/{run['run_id']}~1"
        wait_until(lambda: asked.ask("GET", known, password=password).status == 200, what="the event of the run")
        browser.view(1280)
        browser.open(f"{up.written['api_url']}/runs/{run['run_id']}")
        browser.click('a[href^="/flower?to="]')
        browser.wait_for(f"location.href === {json.dumps(flower_url + '/task/' + run['run_id'] + '~1')}")
        browser.wait_for("document.body?.innerText.includes('itinerary.echo')")
        page = browser.run("document.documentElement.outerHTML + location.href + document.cookie + document.referrer")
        assert password not in page
        assert "ticket" not in page
        assert browser.run("fetch('/api/workers').then(a => a.status)") == 200

        # The session's cookie is there; a page of another site, and one of this machine's other ports, get nothing.
        for origin in (evil, evil.replace("evil.localhost", "127.0.0.1")):
            browser.open(origin)
            for path in ("/api/workers", "/api/tasks", "/", "/metrics", "/healthcheck"):
                read = f"fetch({json.dumps(flower_url + path)}, {{credentials: 'include'}})"
                said = browser.run(f"{read}.then(a => a.text()).then(t => 'read: ' + t, e => 'refused')")
                assert said == "refused", (origin, path)
            for path in ("/api/task/async-apply/itinerary.echo", f"/api/task/revoke/{run['run_id']}~1?terminate=true"):
                sent = f"{{method: 'POST', mode: 'no-cors', credentials: 'include', body: {json.dumps('{}')}}}"
                browser.run(f"fetch({json.dumps(flower_url + path)}, {sent}).then(a => a.status, e => -1)")
        browser.open(evil)
        browser.run(f"document.body.innerHTML = '<iframe src=\"{flower_url}/tasks\"></iframe>'")
        with up.client() as client:
            after = client.enqueue("itinerary.echo", kwargs={"card": "after"})
            client.wait(after["run_id"], timeout=PATIENCE)
        started = [line for line in up.output.splitlines() if "itinerary.echo[" in line and "received" in line]
        assert len(started) == 2, started
        assert up.output.count(password) == 1  # told once, when it was created
        assert "ticket=" not in up.output
