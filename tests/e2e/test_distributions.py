"""What a release publishes: what the wheels hold, and each in environments that hold nothing else of ours.

Needs a registry that answers, for deploy/release.lock and deploy/matrix-*.lock; skips where none does.
"""

import inspect
import json
import os
import re
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from itinerary import Client
from itinerary.version import VERSION
from scheduler_service.runtime.run_file import REDIS_FILE
from tests.support.fresh_environment import (
    CannotInstall,
    Environment,
    Wheels,
    built_release,
    skip_without_a_registry,
    wheels_in,
)
from tests.support.matrix import COLUMNS, Column, running_python
from tests.support.processes import PATIENCE, REPOSITORY, WARM_STOP, Child, project_env, wait_until
from tests.support.running import Running, WarmRunning

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.postgres]

SHOP = """
import sys

from celery import Celery
import itinerary
from workers.sums import total

app = Celery("shop", broker="BROKER")


@app.task(name="shop.add")
def add(x, y):
    return [total(x, y), itinerary.current_run().attempt]


@app.task(name="shop.loaded")
def loaded():
    return [itinerary.__file__, sorted({name.partition(".")[0] for name in sys.modules})]


itinerary.attach(app)
"""
IMPORTED = """
import sys
before = set(sys.modules)
import itinerary
print(itinerary.__file__)
print([name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names])
"""
OVER_HTTP = """
import asyncio, sys
from itinerary import AsyncClient, Client

url, queue = sys.argv[1:]
with Client(url) as client:
    run = client.enqueue("shop.add", [2, 3], queue=queue)
    print(client.wait(run["run_id"])["result"])

async def main():
    async with AsyncClient(url) as client:
        run = await client.enqueue("shop.add", [3, 4], queue=queue)
        print((await client.wait(run["run_id"]))["result"])

asyncio.run(main())
print(sorted({"celery", "kombu", "redis", "scheduler_service", "sqlalchemy"} & set(sys.modules)))
"""
IN_TRANSACTION = """
import sys
import psycopg
from itinerary import enqueue_in

with psycopg.connect(sys.argv[1]) as connection:
    print(enqueue_in(connection, "shop.add", [4, 5], queue=sys.argv[2]))
"""
FOREIGN = {"scheduler_service", "numpy", "sqlalchemy", "fastapi", "flower", "pydantic", "structlog"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a release publishes, built of this checkout; a registry is first needed here."""
    try:
        return built_release(tmp_path_factory)
    except CannotInstall as exc:
        skip_without_a_registry(exc)


@pytest.fixture(scope="module")
def wheels(built: Path) -> Wheels:
    return wheels_in(built)


@dataclass(frozen=True)
class Corner:
    """An end of the range of releases, with the small wheel installed."""

    name: str
    environment: Environment

    def run(self, program: str, *words: str, cwd: Path) -> str:
        """What the program prints."""
        ended = subprocess.run(
            [self.environment.python, "-c", program, *words],
            env=self.env, cwd=cwd, capture_output=True, text=True,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        return ended.stdout

    @property
    def env(self) -> dict[str, str]:
        env = project_env()
        del env["PYTHONPATH"]
        return env


@pytest.fixture(scope="module", params=["oldest", "newest"])
def corner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheels: Wheels) -> Corner:
    column = COLUMNS[0] if request.param == "oldest" else Column(COLUMNS[-1].celery, running_python())
    return Corner(request.param, column.environment(tmp_path_factory))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service") / ".itinerary"
    with WarmRunning(folder, ITINERARY_DATABASE_URL=module_postgres_url) as running:
        yield running


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def text(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(ending))
        return archive.read(name).decode()


def test_the_small_wheel_holds_its_package_licence_and_page_and_nothing_else(wheels: Wheels) -> None:
    held, info = names(wheels.small), f"celery_itinerary-{VERSION}.dist-info"
    ours = {path.relative_to(REPOSITORY / "workers") for path in (REPOSITORY / "workers" / "itinerary").rglob("*.py")}
    assert {Path(name) for name in held if name.endswith(".py")} == ours
    assert {name.partition("/")[0] for name in held} == {"itinerary", info}
    assert {"itinerary/py.typed", f"{info}/licenses/LICENSE"} <= held
    assert not [name for name in held if "test" in name.replace("itinerary/testing/", "")]
    metadata = text(wheels.small, "dist-info/METADATA")
    assert (REPOSITORY / "workers" / "README.md").read_text().strip() in metadata
    needs = re.findall(r"(?m)^Requires-Dist: ([^;\n]+)$", metadata)
    assert sorted(needs) == ["celery<6,>=5.4", "kombu[redis]<6,>=5.4", "redis>=5"]
    assert os.path.getsize(wheels.small) < 240_000


def test_the_server_wheel_holds_migrations_templates_and_the_command(wheels: Wheels) -> None:
    held, info = names(wheels.server), f"itinerary_server-{VERSION}.dist-info"
    assert {name.partition("/")[0] for name in held} == {"scheduler_service", info}
    versions = {f"scheduler_service/migrations/versions/{p.name}" for p in REPOSITORY.glob("alembic/versions/*.py")}
    pages = {str(p.relative_to(REPOSITORY)) for p in REPOSITORY.glob("scheduler_service/api/pages/templates/**/*.html")}
    static = {str(p.relative_to(REPOSITORY)) for p in REPOSITORY.glob("scheduler_service/api/pages/static/**/*.js")}
    manual = {str(p.relative_to(REPOSITORY)) for p in REPOSITORY.glob("scheduler_service/manual/**/*.*")}
    assert min(len(versions), len(pages), len(manual)) > 20
    assert static
    ours = {"scheduler_service/migrations/env.py", f"{info}/licenses/LICENSE"}
    assert versions | pages | static | manual | ours <= held
    assert "itinerary = scheduler_service.cli:main" in text(wheels.server, "entry_points.txt")
    assert f"Requires-Dist: celery-itinerary=={VERSION}" in text(wheels.server, "dist-info/METADATA")
    assert not [name for name in held if "tests/" in name or "/test_" in name]


def test_the_two_wheels_run_everything_without_a_checkout(wheels: Wheels, tmp_path: Path) -> None:
    home = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    # The locked packages, but nothing that leads to the checkout: a .pth file there is not read.
    (site / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for wheel in (wheels.small, wheels.server):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    command = (str(home / "bin" / "python"), "-P", "-m", "scheduler_service.cli")
    asked = subprocess.run([*command, "--version"], cwd=tmp_path, env=project_env(PYTHONPATH=""), capture_output=True)
    assert asked.stdout.decode() == f"itinerary-server {VERSION}\ncelery-itinerary {VERSION}\n", asked.stderr
    with Running(tmp_path / "data", "--demo", command=command, PYTHONPATH="") as running, running.client() as client:
        wait_until(lambda: client.jobs(limit=1)["items"], what=lambda: running.output)
        run_id = client.enqueue("itinerary.echo")["run_id"]  # a job's own run may be under way: then another is skipped
        assert client.wait(run_id, timeout=PATIENCE)["state"] == "completed"
        for page in ("/", "/manual"):
            with urllib.request.urlopen(client.base_url + page, timeout=PATIENCE) as answer:
                assert answer.status == 200


def test_each_list_of_parts_names_what_its_lock_pins(built: Path) -> None:
    for name, lock in (("celery-itinerary", "requirements-worker.lock"), ("itinerary-server", "requirements.lock")):
        parts = json.loads((built / f"{name}.cdx.json").read_text())
        assert (parts["bomFormat"], parts["metadata"]["component"]["version"]) == ("CycloneDX", VERSION)
        pinned = re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)", (REPOSITORY / "deploy" / lock).read_text())
        assert {(part["name"], part["version"]) for part in parts["components"]} == set(pinned)


def test_importing_the_small_package_loads_nothing(corner: Corner, tmp_path: Path) -> None:
    place, loaded = corner.run(IMPORTED, cwd=tmp_path).splitlines()
    assert place.startswith(str(corner.environment.home))
    assert loaded == "['itinerary']"


@pytest.mark.parametrize("way", ["celery", "itinerary"])
def test_a_worker_with_the_small_wheel_alone_runs_what_its_client_enqueues(
    way: str, corner: Corner, service: Running, tmp_path: Path
) -> None:
    broker = (service.data_dir / REDIS_FILE).read_text().strip()
    (tmp_path / "shop.py").write_text(SHOP.replace("BROKER", broker))
    (tmp_path / "workers").mkdir()  # as many projects have one of their own
    (tmp_path / "workers" / "__init__.py").touch()
    (tmp_path / "workers" / "sums.py").write_text("def total(*numbers):\n    return sum(numbers)\n")
    queue = f"{corner.name}-{way}"
    by_celery = ["-m", "celery", "-A", "shop", "worker", "-Q", queue, "-c", "1", "-n", f"{queue}@here"]
    argv = by_celery if way == "celery" else ["-m", "itinerary", "--app", "shop:app", "-Q", queue, "-c", "1"]
    with Child([corner.environment.python, *argv], env=corner.env, cwd=tmp_path) as worker, service.client() as client:
        added = client.wait(client.enqueue("shop.add", [1, 2], queue=queue)["run_id"], timeout=PATIENCE)
        assert added["result"] == [3, 1], worker.output
        place, loaded = client.wait(client.enqueue("shop.loaded", queue=queue)["run_id"], timeout=PATIENCE)["result"]
        assert place.startswith(str(corner.environment.home))
        assert {"celery", "itinerary", "redis"} <= set(loaded)
        assert not FOREIGN & set(loaded)
        said = corner.run(OVER_HTTP, client.base_url, queue, cwd=tmp_path)
        assert said == "[5, 1]\n[7, 1]\n[]\n"
        dsn = service.setting("ITINERARY_DATABASE_URL").replace("+psycopg", "")
        run_id = corner.run(IN_TRANSACTION, dsn, queue, cwd=tmp_path).strip()
        assert client.wait(run_id, timeout=PATIENCE)["result"] == [9, 1]
        assert worker.stop(WARM_STOP) == 0


RIGHT = """
import asyncio
from datetime import datetime, timezone
from typing import Any

from celery import Celery  # type: ignore[import-untyped]

import itinerary
from itinerary import (
    ApiError, AsyncClient, BadValue, Client, Conflict, CurrentRun, ItineraryError, NoAnswer, RunCancelled, WaitTimeout,
    attach, current_run, enqueue_in, enqueue_in_async, enqueue_many_in, enqueue_many_in_async, schedule,
)
from itinerary.client.results import Run
from itinerary.testing import Service

app = Celery("shop")
attach(app)
itinerary.attach(app, "redis://127.0.0.1:6379/0", exclude=["shop.batch"])


def task() -> str | None:
    run: CurrentRun | None = current_run()
    if run is None:
        return None
    if run.cancelled():
        raise RunCancelled
    at: datetime = run.scheduled_at
    return f"{run.run_id} {run.job_id} {run.attempt + 1} {at} {run.due_at}"


@schedule.cron("0 2 1 * *", overlap="queue", retry={"max_attempts": 3})
@schedule.hourly(17, job_id="hourly")
def report(kind: str = "short") -> int:
    return len(kind)


def test_report() -> None:
    with Service(app, now="2026-12-01T00:00:00Z") as service:
        service.advance("1h")
        runs: list[Run] = [*service.run_due(), *service.assert_enqueued("shop.add", [1], times=report("x"))]
        states: list[str] = [run.state for run in runs]
        print(states)


def enqueue(connection: Any) -> str:
    now = datetime.now(timezone.utc)
    many: list[str] = enqueue_many_in(connection, [{"task": "shop.add", "args": [1]}], schema="itinerary")
    print(many)
    return enqueue_in(connection, "shop.add", [1], {"a": 2}, run_at=now, priority=3, retry={"max_attempts": 2})


def call() -> list[Run]:
    with Client("http://127.0.0.1:8080", token=None, timeout=3.5, retries=0) as client:
        run = client.enqueue("shop.add", [1, 2], {"a": 1}, queue="shop", idempotency_key="one")
        try:
            client.wait(run["run_id"], timeout=1)
        except (ApiError, BadValue, Conflict, NoAnswer, WaitTimeout) as exc:
            error: ItineraryError = exc
            print(error)
        client.put_job("a", {"task": "t"}, if_version=3)
        client.delete_job("a")
        print(client.jobs(tag="x", limit=3)["items"], [job["job_id"] for job in client.all_jobs(q="x")])
        return client.enqueue_batch([{"task": "t"}])


async def enqueue_async(connection: Any) -> str:
    many: list[str] = await enqueue_many_in_async(connection, [{"task": "shop.add", "args": [1]}])
    print(many)
    return await enqueue_in_async(connection, "shop.add", [1], {"a": 2}, priority=3, retry={"max_attempts": 2})


async def call_async() -> list[Run]:
    async with AsyncClient("http://127.0.0.1:8080", at_once=5) as client:
        run = await client.enqueue("shop.add", [1, 2], {"a": 1}, queue="shop", idempotency_key="one")
        ended: Run = await client.wait(run.run_id, timeout=1)
        due: datetime = ended.due_at
        state: str = f"{ended.state} {due} {ended['state']}"
        await client.delete_job("a", if_version=3)
        async for found in client.all_runs(state=["failed"]):
            print(found["run_id"], state)
        return await client.enqueue_batch([{"task": "t"}])


asyncio.run(call_async())
"""
WRONG = """
attach()  # wrong: call-arg
attach(app, exclude=5)  # wrong: arg-type
attach(app, queue="x")  # wrong: call-arg
current_run(1)  # wrong: call-arg
current_run().run_id  # wrong: union-attr
itinerary.attatch(app)  # wrong: attr-defined
enqueue_in(None, 5)  # wrong: arg-type
enqueue_in(None)  # wrong: call-arg
enqueue_in(None, "t", prio=3)  # wrong: call-arg
enqueue_many_in(None, [5])  # wrong: list-item
print(enqueue_in_async(None, 5))  # wrong: arg-type
print(enqueue_in_async(None, "t", prio=3))  # wrong: call-arg
print(enqueue_many_in_async(None))  # wrong: call-arg
Client(port=8080)  # wrong: call-arg
AsyncClient(port=8080)  # wrong: call-arg
AsyncClient(at_once="5")  # wrong: arg-type
report(5)  # wrong: arg-type
schedule.hourly("17")  # wrong: arg-type
schedule.hourly(17, overlap="que")  # wrong: arg-type
Service(now=5)  # wrong: arg-type
client = Client()
client.enqueue("t", priority="high")  # wrong: arg-type
client.wait(17)  # wrong: arg-type
client.run("a").stat  # wrong: attr-defined
client.enqueue("t", timeout=5)  # wrong: arg-type
client.enque("t")  # wrong: attr-defined
nothing = client.delete_job("a")  # wrong: func-returns-value
"""


def program_with_wrong_calls() -> str:
    """RIGHT, and then a wrong call of each function and method of the public face."""
    methods = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]
    assert len(methods) > 30
    calls = "".join(f"client.{name}(no_such=1)  # wrong: call-arg\n" for name in methods)
    awaited = "".join(
        f"    client.{name}(no_such=1)  # wrong: call-arg\n"
        if name.startswith(("all_", "follow_"))
        else f"    await client.{name}(no_such=1)  # wrong: call-arg\n"
        for name in methods
    )
    return (
        f"{RIGHT}\n{WRONG}{calls}\nasync def wrong_calls(client: AsyncClient) -> None:\n{awaited}"
        '    client.status()["leader"]  # wrong: index\n'
    )


def judged(program: str, folder: Path, python: str) -> list[tuple[int, str]]:
    """Line and kind of each error that mypy finds in the program, as somebody has it who installed the wheel."""
    place, settings = folder / "program.py", folder / "mypy.ini"
    place.write_text(program)
    settings.write_text("[mypy]\n")  # else one of the home folder would count
    strict = [sys.executable, "-P", "-m", "mypy", "--strict", "--python-executable", python, "--output", "json"]
    env = project_env()
    del env["PYTHONPATH"]
    command = [*strict, "--config-file", str(settings), "--cache-dir", str(folder / "cache"), str(place)]
    ended = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
    assert ended.stderr == ""
    found = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    return sorted({(one["line"], one["code"]) for one in found if one["severity"] == "error"})


@pytest.mark.parametrize("corner", ["newest"], indirect=True)
def test_mypy_sees_each_wrong_call_of_the_wheel_and_accepts_right_ones(corner: Corner, tmp_path: Path) -> None:
    wrong = program_with_wrong_calls()
    marks = [(number, line.partition("# wrong: ")[2]) for number, line in enumerate(wrong.splitlines(), 1)]
    assert judged(wrong, tmp_path, corner.environment.python) == [(number, kind) for number, kind in marks if kind]
    assert judged(RIGHT, tmp_path, corner.environment.python) == []
