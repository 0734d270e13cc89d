"""`itinerary up` as a person meets it: it starts, keeps what dies alive, stops clean, and remembers."""

import http.client
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from itinerary.client.sync import ApiError, Client, NoAnswer
from scheduler_service.sql.database import Database
from tests.support.processes import PATIENCE, alive, wait_until
from tests.support.running import Running

pytestmark = pytest.mark.e2e

PARTS = ("redis", "leader", "worker", "api", "flower")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One `up --demo` for the tests that only look."""
    with Running(tmp_path_factory.mktemp("up demo") / ".itinerary", "--demo") as running:
        yield running


def status_of(url: str, path: str) -> int:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_demo_adds_jobs_of_each_kind_and_their_runs_complete(demo: Running) -> None:
    assert demo.process is not None
    demo.process.wait_for_line("demo   | * done")
    with demo.client() as client:
        kinds = {job["schedule"]["kind"] for job in client.jobs()["items"]}
        assert kinds == {"cron", "hourly", "interval", "once", "solar", "rrule", "any"}
        wait_until(
            lambda: client.runs(job_id="demo.heartbeat", state="completed")["items"],
            what=lambda: demo.output,
            every=0.5,
        )


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics", "/api/v1/jobs", "/api/v1/scheduler/status"])
def test_the_api_answers_where_the_table_says(demo: Running, path: str) -> None:
    assert demo.written["api_url"] in demo.output
    assert status_of(demo.written["api_url"], path) == 200


def test_flower_answers_where_the_table_says(demo: Running) -> None:
    demo.wait_for("flower")
    assert f"{demo.written['flower_url']}, by the dashboard's link" in demo.output
    assert status_of(demo.written["flower_url"], "/healthcheck") == 200
    assert status_of(demo.written["flower_url"], "/tasks") == 401


def test_only_the_account_that_runs_it_can_read_what_it_keeps(demo: Running) -> None:
    found = {path: path.stat() for path in (demo.data_dir, *demo.data_dir.rglob("*"))}
    assert {"itinerary.db", "run.json", "redis.url", "flower.password"} <= {path.name for path in found}
    assert not {str(path): oct(seen.st_mode) for path, seen in found.items() if seen.st_mode & 0o077}


def test_at_the_stop_a_task_gets_its_time_and_nothing_new_is_dispatched(tmp_path: Path) -> None:
    every_second = {"task": "itinerary.echo", "schedule": {"kind": "interval", "every": "1s"}}
    with Running(tmp_path / ".itinerary") as running:
        with running.client() as client:
            slow = client.enqueue("itinerary.sleep", kwargs={"seconds": 12})["run_id"]
            client.put_job("often", every_second)
            wait_until(lambda: client.run(slow)["state"] == "running", what=lambda: running.output)
            wait_until(lambda: client.runs(job_id="often", state="completed")["items"], what=lambda: running.output)
        assert running.stop() == 0
        assert "killed" not in running.output
        database = Database(f"sqlite:///{running.data_dir}/itinerary.db", pool_size=1)
        with closing(database), database.read() as reading:
            states = dict(reading.execute(text("SELECT run_id, state FROM runs")).all())
        assert states[slow] == "completed"
        # Where a run takes over a second the next one is skipped; what no worker had begun waits for the next start.
        assert set(states.values()) <= {"completed", "scheduled", "skipped", "pending"}, states
        since = running.output[running.output.index("told that the stop is near") :]
        # A transaction may have been in hand; the slow task takes some of these seconds, each with an occurrence.
        assert since.count("runs released") < 2, running.output


def test_jobs_survive_a_clean_stop_and_no_process_is_left(tmp_path: Path) -> None:
    running = Running(tmp_path / ".itinerary")
    with running:
        with running.client() as client:
            client.create_job(
                {"job_id": "kept", "task": "itinerary.echo", "schedule": {"kind": "hourly", "minute": 17}}
            )
        port = running.written["redis_port"]
        assert running.stop() == 0
        assert "api_url" not in running.written
        running.start()
        with running.client() as client:
            assert client.job("kept")["version"] == 1
        assert running.written["redis_port"] == port
        assert running.stop() == 0


def test_every_part_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with Running(tmp_path / ".itinerary") as running:
        for part in PARTS:
            running.kill_part(part)
        with running.client() as client:
            run = wait_until(lambda: _enqueued(client), what=lambda: running.output, every=0.5)
            assert client.wait(run["run_id"], timeout=PATIENCE)["state"] == "completed"
        assert running.stop() == 0


def test_nothing_outlives_an_up_that_is_killed(tmp_path: Path) -> None:
    with Running(tmp_path / ".itinerary") as running:
        pids = [running.pid_of(part) for part in PARTS]
        pool = _children_of(running.pid_of("worker"))
        assert pool
        assert running.process is not None
        os.kill(running.process.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(alive, [*pids, *pool])), what=f"{pids} and {pool} to be gone")


def _enqueued(client: Client) -> dict[str, str]:
    try:
        return client.enqueue("itinerary.echo", kwargs={"message": "again"}, idempotency_key="again")
    except (ApiError, NoAnswer):
        return {}


def _children_of(pid: int) -> list[int]:
    """The processes that a celery worker made for its tasks."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if not listed.exists():
        pytest.skip("this kernel does not list a process's children")
    return [int(child) for child in listed.read_text().split()]
