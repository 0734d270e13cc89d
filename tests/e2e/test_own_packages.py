"""Everything of ours starts in a folder that has packages of its own with our packages' names."""

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_service.runtime.run_file import REDIS_FILE
from tests.support.processes import REPOSITORY, Child, project_env, wait_until
from tests.support.running import Running

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SHOP = """
import os

from celery import Celery

app = Celery("shop", broker=os.environ["ITINERARY_REDIS_URL"])


@app.task(name="shop.add")
def add(x, y):
    return x + y
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("workers", "scheduler_service", "itinerary", "deploy", "tests", "alembic"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('the package {name} of the folder')\n")
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The checkout's own command line, as `python3 deploy` writes it."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "deploy"))
    import environments  # type: ignore[import-not-found]

    text = environments.LAUNCHER.format(python=environments.quoted(Path(sys.executable)))
    path = folder / "command"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_everything_starts_beside_packages_of_the_same_names(folder: Path, command: str) -> None:
    running = Running(folder / ".itinerary", "--demo", "--app", "shop:app", command=[command])
    env = project_env()
    del env["PYTHONPATH"]
    with running, running.client() as client:
        assert running.process is not None
        running.process.wait_for_line("demo   | * done", 60)
        wait_until(lambda: running.written["parts"]["flower"]["state"] == "ready", 60, lambda: running.output)
        run = client.enqueue("shop.add", [2, 3])
        assert client.wait(run["run_id"])["result"] == 5
        status = subprocess.run(
            [command, "status"],
            cwd=folder, env={**env, "ITINERARY_API_URL": client.base_url}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert (status.returncode, status.stderr) == (0, "")
        redis = {"ITINERARY_REDIS_URL": (running.data_dir / REDIS_FILE).read_text().strip()}
        for pool in ("prefork", "gevent"):
            switches = ["--app", "shop:app", "-Q", pool, "-c", "1", "-P", pool]
            with Child([command, "worker", *switches], env=env | redis, cwd=folder) as worker:
                worker.wait_for_line("ready.", 60)
        assert "of the folder" not in running.output
        assert running.stop() == 0
