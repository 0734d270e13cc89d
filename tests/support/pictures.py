"""`python -m tests.support.pictures` takes the manual's pictures again, of a service with the demo jobs."""

import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from PIL import Image

from itinerary import Client
from tests.support.browser import Browser, find_browser
from tests.support.processes import MANUAL, wait_until
from tests.support.running import Running

COLOURS: Final = 128
LINE: Final = """
const fill = (name, value) => {
  const field = document.querySelector(`[name="${name}"]`);
  field.value = value;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  field.dispatchEvent(new Event('change', {bubbles: true}));
};
document.querySelector('input[value=cron]').click();
fill('job_id', 'billing.close'); fill('task', 'billing.close_month');
fill('cron.timezone', 'Europe/Berlin'); fill('cron.expr', '30 2 * * *');
"""


def take(folder: Path) -> None:
    """Start the service, kill a worker in the middle of a run, pause a job; photograph the five pages."""
    program = find_browser() or sys.exit("no Chromium: name one by ITINERARY_TEST_BROWSER")
    with tempfile.TemporaryDirectory() as place, ExitStack() as opened:
        up = opened.enter_context(Running(Path(place) / ".itinerary", "--demo"))
        client = opened.enter_context(up.client())
        client.create_job(
            {"job_id": "hello", "task": "itinerary.echo", "schedule": {"kind": "interval", "every": "5s"},
             "title": "Say hello", "kwargs": {"name": "world"}}
        )  # fmt: skip
        run_id = _killed_and_completed(client, up)
        browser = opened.enter_context(Browser(program, Path(place) / "profile"))
        shots = _Shots(browser, client.base_url, folder)
        client.pause_job("hello", reason="seen enough")
        asked = datetime.now(UTC) + timedelta(seconds=10 - datetime.now(UTC).second % 5)
        wait_until(lambda: datetime.now(UTC) > asked + timedelta(seconds=5), what="the time that is asked for")
        shots.take("explain", f"/explain?job_id=hello&at={asked:%Y-%m-%dT%H:%M:%S}", 1280, 430)
        shots.take(
            "run",
            f"/runs/{run_id}",
            1100,
            1060,
            until="document.querySelector('.log-body')?.innerText.trim() !== 'Its log'",
        )
        shots.take("job", "/jobs/demo.flaky", 1100, 1000)
        shots.take(
            "form", "/new-job", 1100, 820, LINE, "document.querySelectorAll('.beside .hint, .beside li').length > 10"
        )
        wait_until(lambda: len(client.trends().points) > 4, 300, "a line of the trends", every=1)
        client.enqueue("itinerary.sleep", kwargs={"seconds": 90})
        wait_until(lambda: client.runs(state="running")["items"], what="a running run")
        shots.take("overview", "/?window=1h", 1280, 900)


def _killed_and_completed(client: Client, up: Running) -> str:
    run_id = str(client.enqueue("itinerary.sleep", kwargs={"seconds": 20}, retry={"max_attempts": 3})["run_id"])
    wait_until(lambda: client.run(run_id)["state"] == "running", what="the run")
    up.kill_part("worker")
    wait_until(lambda: client.run(run_id)["state"] == "completed", what="the second attempt")
    return run_id


class _Shots:
    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self._browser = browser
        self._url = url
        self._folder = folder

    def take(self, name: str, path: str, width: int, height: int, script: str = "", until: str = "true") -> None:
        self._browser.view(width, height=height)
        self._browser.open(f"{self._url}{path}")
        if script:
            self._browser.run(f"(() => {{ {script} }})()")
        self._browser.wait_for(until)
        file = self._browser.screenshot(self._folder / f"{name}.png", whole=False)
        image = Image.open(file).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        image.save(file, optimize=True)


if __name__ == "__main__":
    take(MANUAL / "pictures")
