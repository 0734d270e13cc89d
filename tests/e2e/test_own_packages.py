"""Everything of ours starts in a folder that has packages of its own with our packages' names."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scheduler_service.core.leader.messages import Succeeded
from scheduler_service.runtime.run_file import REDIS_FILE
from tests.support.command_line import COMMAND
from tests.support.processes import CHECKOUT, PATIENCE, REPOSITORY, Child, project_env
from tests.support.running import Running
from tests.support.worker_process import Bench, dispatched

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SHOP = """
import os

from celery import Celery

app = Celery("shop", broker=os.environ["ITINERARY_REDIS_URL"])


@app.task(name="shop.add")
def add(x, y):
    return x + y
"""
WHERE = """
import sys
from importlib.util import find_spec


@app.task(name="shop.where")
def where():
    return [sys.prefix, find_spec("scheduler_service") is not None]
"""
ATTACHED = """
import itinerary
import workers.sums


@app.task(name="shop.total")
def total(numbers):
    return workers.sums.total(numbers)


itinerary.attach(app)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of this checkout as `python3 deploy` leaves it; the packages of the tests' own are lent to it."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "deploy"))
    import environments  # type: ignore[import-not-found]

    home = tmp_path / "an environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "a-lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    environments.link_checkout(home)
    return home


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "somebody's"
    folder.mkdir()
    (folder / "shop.py").write_text(SHOP)
    return folder


def package(folder: Path, name: str, text: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(text)


def test_everything_starts_beside_packages_of_the_same_names(folder: Path, home: Path) -> None:
    for name in ("workers", "scheduler_service", "itinerary", "deploy", "tests", "alembic"):
        package(folder, name, f"raise RuntimeError('the package {name} of the folder')\n")
    command = str(home / "bin" / "itinerary")
    running = Running(folder / ".itinerary", "--demo", "--app", "shop:app", command=[command], PYTHONPATH="")
    env = project_env(PYTHONPATH="")
    with running, running.client() as client:
        assert running.process is not None
        running.process.wait_for_line("demo   | * done")
        running.wait_for("flower")
        run = client.enqueue("shop.add", [2, 3])
        assert client.wait(run["run_id"], timeout=PATIENCE)["result"] == 5
        status = subprocess.run(
            [command, "status"],
            cwd=folder, env={**env, "ITINERARY_API_URL": client.base_url}, capture_output=True, text=True,
        )  # fmt: skip
        assert (status.returncode, status.stderr) == (0, "")
        redis = {"ITINERARY_REDIS_URL": (running.data_dir / REDIS_FILE).read_text().strip()}
        for pool in ("prefork", "gevent"):
            switches = ["--app", "shop:app", "-Q", pool, "-c", "1", "-P", pool]
            with Child([command, "worker", *switches], env=env | redis, cwd=folder) as worker:
                worker.wait_for_line("ready.")
        assert "of the folder" not in running.output
        assert running.stop() == 0


def test_the_worker_runs_in_the_environment_of_the_app(folder: Path, home: Path) -> None:
    """The service's packages are not there: only Celery's and the small package, as `pip install ./workers` puts it."""
    theirs = folder / "theirs"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(theirs)], check=True)
    (site,) = theirs.glob("lib/python*/site-packages")
    (site / "a-lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n{REPOSITORY / 'workers'}\n")
    (folder / "shop.py").write_text(SHOP + WHERE)
    words = ("--app", "shop:app", "--worker-python", str(theirs / "bin" / "python"))
    command = [str(home / "bin" / "itinerary")]
    with Running(folder / ".itinerary", *words, command=command, PYTHONPATH="") as running, running.client() as client:
        run = client.enqueue("shop.where")
        assert client.wait(run["run_id"], timeout=PATIENCE)["result"] == [str(theirs), False]
        assert running.stop() == 0


def test_an_app_that_cannot_be_loaded_ends_up_at_once(folder: Path) -> None:
    ended = subprocess.run(
        [*COMMAND, "up", "--app", "nosuch:app"],
        cwd=folder, env=project_env(PYTHONPATH=CHECKOUT), capture_output=True, text=True,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, "")
    why = f"there is no module nosuch in {folder} or among the packages of {sys.executable}"
    assert ended.stderr.startswith(f"itinerary: --app: 'nosuch:app' is not accepted; {why}")
    assert ended.stderr.count("\n") == 1


@pytest.mark.redis
def test_celerys_own_command_runs_an_app_that_has_a_package_workers(folder: Path, home: Path, redis_url: str) -> None:
    package(folder, "workers", "")
    (folder / "workers" / "sums.py").write_text("def total(numbers):\n    return sum(numbers)\n")
    (folder / "shop.py").write_text(SHOP + ATTACHED)
    command = [str(home / "bin" / "python"), "-m", "celery", "-A", "shop", "worker", "-Q", "default", "-c", "1"]
    env = project_env(PYTHONPATH="", ITINERARY_REDIS_URL=redis_url)
    with Bench(redis_url, folder) as bench, Child(command, env=env, cwd=folder) as worker:
        bench.publish(dispatched("one", "shop.total", [1, 2, 4]))
        assert bench.report_of("one", Succeeded).result == 7, worker.output
