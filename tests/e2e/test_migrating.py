"""A Celery project with tasks and a beat schedule of its own, moved in by what the manual says, and back out again."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from itinerary.client.sync import Client
from tests.support.command_line import COMMAND
from tests.support.processes import CHECKOUT, WARM_STOP, Child, project_env, wait_until
from tests.support.running import Running, WarmRunning

pytestmark = pytest.mark.e2e

SHOP = '''
"""Somebody's shop."""

import json, os, time
from celery import Celery
from celery.schedules import crontab

app = Celery("shop", broker="BROKER")
app.conf.beat_schedule = {
    "count stock": {"task": "shop.count", "schedule": 2.0, "args": ("stock",)},
    "nightly": {"task": "shop.count", "schedule": crontab(hour=2, minute=30), "args": ("night",)},
}

@app.task(name="shop.count", bind=True)
def count(self, what):
    with open(os.path.join(os.path.dirname(__file__), "counted.txt"), "a") as file:
        file.write(f"{what} {self.request.id} {time.time()}\\n")
    return what
'''
ATTACHED = "\nimport itinerary\nitinerary.attach(app)\n"


class Shop:
    """The project's folder, its worker and its beat, started as Celery's manual says."""

    def __init__(self, folder: Path, broker: str) -> None:
        folder.mkdir()
        self.folder = folder
        self.module = folder / "shop.py"
        self.module.write_text(SHOP.replace("BROKER", broker))
        self.env = project_env(PYTHONPATH=f"{folder}:{CHECKOUT}", ITINERARY_REDIS_URL=broker, NO_COLOR="1")

    def celery(self, *words: str) -> Child:
        return Child([sys.executable, "-m", "celery", "-A", "shop", *words], env=self.env, cwd=self.folder)

    def worker(self) -> Child:
        return self.celery("worker", "-c", "1", "-l", "info")

    def beat(self) -> Child:
        return self.celery("beat", "-s", str(self.folder / "beat-schedule"))

    def itinerary(self, running: Running, *words: str) -> str:
        env = {**self.env, "ITINERARY_DATA_DIR": str(running.data_dir)}
        with Child([*COMMAND, *words], env=env, cwd=self.folder) as child:
            assert child.wait() == 0, child.output
            return child.output

    def counted(self) -> list[str]:
        """The task ids of what ran, in order."""
        written = self.folder / "counted.txt"
        return [line.split()[1] for line in written.read_text().splitlines()] if written.exists() else []

    def counts_more(self, than: int) -> bool:
        return len(self.counted()) >= than


def test_a_celery_project_is_moved_in_by_the_readme_alone_and_back_out_again(tmp_path: Path, redis_url: str) -> None:
    shop = Shop(tmp_path / "shop", redis_url)
    with shop.worker() as worker, shop.beat() as beat:  # as it was
        wait_until(lambda: shop.counts_more(2), what=lambda: worker.output + beat.output)
        beat.stop()
        worker.stop(WARM_STOP)
    by_beat = len(shop.counted())

    with WarmRunning(tmp_path / ".itinerary", ITINERARY_REDIS_URL=redis_url) as running:
        shown = shop.itinerary(running, "jobs", "import-beat", "shop:app")
        assert "+ count-stock  from count stock" in shown
        assert "2 can be moved, 0 cannot" in shown
        assert "no time differs" in shop.itinerary(running, "shadow", "shop:app", "--hours", "24")
        shop.module.write_text(shop.module.read_text() + ATTACHED)
        with shop.worker() as worker:
            worker.wait_for_line("ready")
            shop.itinerary(running, "jobs", "import-beat", "shop:app", "--apply")
            wait_until(lambda: shop.counts_more(by_beat + 3), what=lambda: worker.output + running.output)
            with running.client() as client:
                done = client.runs(job_id="count-stock", state="completed")["items"]
                assert {run["result"] for run in done} == {"stock"}
            (shop.folder / "none.json").write_text(json.dumps({"source": "beat:shop:app", "jobs": []}))
            assert "2 removed" in shop.itinerary(running, "jobs", "apply", "none.json", "--yes")
            with running.client() as client:
                assert client.jobs()["items"] == []
                wait_until(lambda: not _open_runs(client), what="the last runs to end")
            worker.stop(WARM_STOP)
        assert running.stop() == 0

    ran = shop.counted()
    assert [task_id for task_id, times in Counter(ran).items() if times > 1] == []
    assert all(task_id.startswith("count-stock_") for task_id in ran[by_beat:])
    shop.module.write_text(shop.module.read_text().replace(ATTACHED, ""))
    with shop.worker() as worker, shop.beat() as beat:  # as it was, again
        wait_until(lambda: shop.counts_more(len(ran) + 2), what=lambda: worker.output + beat.output)
    assert not any("~" in task_id for task_id in shop.counted()[len(ran) :])


def _open_runs(client: Client) -> bool:
    return any(client.runs(job_id="count-stock", state=state)["items"] for state in ("pending", "running"))
