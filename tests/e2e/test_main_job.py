"""The main job, end to end: on one machine by `itinerary up`, and apart on PostgreSQL with two leaders."""

import itertools
import json
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from scheduler_service.adapters.database import Database
from scheduler_service.cli.invariants import findings, read_record
from scheduler_service.client import Client
from tests.support.deployment import Deployment
from tests.support.postgres_server import create_database, drop_database
from tests.support.processes import wait_until
from tests.support.records import Truth, occurrences, read_truth, seconds
from tests.support.running import Running

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(300)]

APP = "tests.e2e.recording_app:app"
QUICK = {"ITINERARY_LOST_AFTER": "6s", "ITINERARY_REDISPATCH_AFTER": "3s"}


@dataclass(frozen=True)
class System:
    client: Client
    kill: Callable[[str], object]
    record: Path
    database_url: str
    output: Callable[[], str]

    def truth(self) -> Truth:
        return read_truth(self.record)

    def runs(self, job_id: str) -> list[dict[str, Any]]:
        """All runs of the job, over all pages."""
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = self.client.runs(job_id=job_id, limit=200, cursor=cursor)
            found += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def all_final(self, job_id: str) -> bool:
        return all(run["finished_at"] for run in self.runs(job_id))


@pytest.fixture(scope="module")
def module_postgres_url(_session_postgres: str, _postgres_template: str, worker_number: int) -> Iterator[str]:
    """A migrated PostgreSQL database for all tests of this module."""
    admin = make_url(_session_postgres)
    url = create_database(admin, f"itinerary_main_job_{worker_number}", _postgres_template)
    yield url
    drop_database(admin, url)


@pytest.fixture(scope="module", params=["up", pytest.param("apart", marks=pytest.mark.postgres)])
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    folder = tmp_path_factory.mktemp("main job")
    record = folder / "record.jsonl"
    if request.param == "up":
        with (
            Running(folder / ".itinerary", "--app", APP, RECORD_FILE=str(record), **QUICK) as up,
            up.client() as client,
        ):
            yield System(client, up.kill_part, record, f"sqlite:///{up.data_dir}/itinerary.db", lambda: up.output)
            return
    url = request.getfixturevalue("module_postgres_url")
    with (
        Deployment(folder, url, app=APP, RECORD_FILE=str(record), **QUICK) as apart,
        apart.client() as client,
    ):
        yield System(client, apart.kill, record, url, lambda: apart.output)


def steps(times: list[float]) -> list[float]:
    """The distances between neighbouring instants."""
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def completed(system: System, job_id: str) -> int:
    return sum(run["state"] == "completed" for run in system.runs(job_id))


def goes_on_after(system: System, part: str) -> None:
    """kill -9 of `part`, then four more runs complete."""
    wanted = completed(system, "tick") + 4
    system.kill(part)
    said = lambda: f"runs to go on after {part} was killed:\n{system.output()}"  # noqa: E731
    wait_until(lambda: completed(system, "tick") >= wanted, 60, said, 0.5)


def make_job(system: System, job_id: str, every: str, task: str = "recording.note", **more: Any) -> None:
    schedule = {"kind": "interval", "every": every}
    system.client.create_job({"job_id": job_id, "task": task, "schedule": schedule, **more})


def test_an_interval_job_runs_each_occurrence_once_never_early_and_at_once(system: System) -> None:
    make_job(system, "beat", "2s")
    wait_until(lambda: completed(system, "beat") >= 10, 60, system.output, 0.5)
    system.client.pause_job("beat", "seen enough")
    wait_until(lambda: system.all_final("beat"), 20, system.output, 0.2)

    runs = [run for run in system.runs("beat") if run["state"] == "completed"]
    times = occurrences(runs, "beat")
    assert steps(times) == [2.0] * (len(times) - 1)
    truth = system.truth()
    assert [truth.starts_of(run["run_id"]) for run in runs] == [1] * len(runs)
    waits = [seconds(run["started_at"]) - seconds(run["due_at"]) for run in runs]
    assert min(waits) >= 0
    assert statistics.median(waits) < 0.1, waits


def test_a_failing_task_is_retried_as_its_job_says_and_keeps_its_traceback(system: System) -> None:
    make_job(
        system, "doomed", "1d", "recording.explode", retry={"max_attempts": 3, "initial": "200ms", "jitter": False}
    )
    run = system.client.trigger("doomed")
    wait_until(lambda: system.client.run(run["run_id"])["state"] == "failed", 30, system.output, 0.2)

    ended = system.client.run(run["run_id"])
    assert [attempt["attempt"] for attempt in ended["attempts"]] == [1, 2, 3]
    assert ended["error"]["type"] == "RuntimeError"
    assert "this task always fails" in ended["error"]["traceback"]
    assert system.truth().starts_of(run["run_id"]) == 3


def test_a_run_cancelled_before_its_time_never_starts(system: System) -> None:
    run_at = (datetime.now(UTC) + timedelta(seconds=3)).isoformat().replace("+00:00", "Z")
    doomed = system.client.enqueue("recording.note", run_at=run_at)
    kept = system.client.enqueue("recording.note", run_at=run_at)
    assert system.client.cancel(doomed["run_id"])["state"] == "cancelled"
    wait_until(lambda: system.client.run(kept["run_id"])["state"] == "completed", 30, system.output, 0.2)

    assert system.client.run(doomed["run_id"])["state"] == "cancelled"
    assert system.truth().starts_of(doomed["run_id"]) == 0
    assert system.truth().starts_of(kept["run_id"]) == 1


def test_a_thousand_runs_of_eight_clients_complete_each_started_once(system: System) -> None:
    def enqueue(number: int) -> str:
        with Client(system.client.base_url, timeout=60) as client:
            return " ".join(client.enqueue("recording.note")["run_id"] for _ in range(125))

    with ThreadPoolExecutor(8) as pool:
        run_ids = " ".join(pool.map(enqueue, range(8))).split()
    assert len(set(run_ids)) == 1000
    truth = wait_until(
        lambda: (t := system.truth()) and all(t.ends[f"{r}~1"] for r in run_ids) and t, 120, system.output, 1
    )
    assert [truth.starts_of(run_id) for run_id in run_ids] == [1] * 1000
    wait_until(lambda: all(system.client.run(r)["state"] == "completed" for r in run_ids[::50]), 30, system.output, 0.5)


def test_kill_minus_nine_of_each_part_loses_nothing_and_starts_nothing_twice(system: System) -> None:
    retry = {"max_attempts": 4, "initial": "100ms", "jitter": False}
    make_job(
        system, "tick", "1s", kwargs={"seconds": 0.3}, retry=retry, overlap="allow", misfire={"policy": "fire_all"}
    )
    wait_until(lambda: system.truth().starts and len(system.runs("tick")) > 3, 30, system.output, 0.2)
    for part in ("worker", "leader", "redis", "worker", "leader"):
        goes_on_after(system, part)
    system.client.pause_job("tick", "enough")
    wait_until(lambda: system.all_final("tick"), 60, lambda: json.dumps(system.runs("tick")) + system.output(), 0.5)

    runs = system.runs("tick")
    times = occurrences(runs, "tick")
    assert steps(times) == [1.0] * (len(times) - 1), "an occurrence is missing"
    truth = system.truth()
    twice = {task_id: count for task_id, count in truth.starts.items() if count > 1}
    assert not twice
    wrong = [run for run in runs if run["state"] not in ("completed", "skipped")]
    assert not wrong, wrong
    for run in runs:
        if run["state"] == "completed":
            assert truth.ends[f"{run['run_id']}~{run['attempt']}"] == 1, run


def test_every_invariant_holds_over_all_that_these_tests_did(system: System) -> None:
    with closing(Database(system.database_url)) as database:
        found = list(findings(database, read_record(system.record)))
    assert not found, "\n".join(f"{one.rule}: {one.subject}: {one.words}" for one in found)
