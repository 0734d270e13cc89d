"""All parts as processes, by `itinerary up` or apart on PostgreSQL, with one face for the tests that drive both."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from itinerary.client.sync import Client
from scheduler_service.cli.invariants import findings, read_record
from scheduler_service.sql.database import Database
from tests.support.deployment import Deployment
from tests.support.records import Truth, read_truth
from tests.support.running import WarmRunning

APP = "tests.e2e.recording_app:app"
QUICK = {"ITINERARY_LOST_AFTER": "6s", "ITINERARY_REDISPATCH_AFTER": "3s"}


@dataclass(frozen=True)
class System:
    """`kill` ends a part by its name with kill -9; `record` is what the app itself wrote."""

    client: Client
    kill: Callable[[str], object]
    record: Path
    database_url: str
    output: Callable[[], str]

    def truth(self) -> Truth:
        return read_truth(self.record)

    def runs(self, job_id: str) -> list[dict[str, Any]]:
        """All runs of the job, over all pages."""
        return list(self.client.all_runs(job_id=job_id))

    def completed(self, job_id: str) -> int:
        """How many runs of the job are completed."""
        return sum(run["state"] == "completed" for run in self.runs(job_id))

    def all_final(self, job_id: str) -> bool:
        return all(run["finished_at"] for run in self.runs(job_id))

    def make_job(self, job_id: str, every: str, task: str = "recording.note", **more: Any) -> None:
        schedule = {"kind": "interval", "every": every}
        self.client.create_job({"job_id": job_id, "task": task, "schedule": schedule, **more})

    def violations(self) -> str:
        """A line for each rule that the whole history, held against the record, breaks."""
        with closing(Database(self.database_url)) as database:
            found = list(findings(database, read_record(self.record)))
        return "\n".join(f"{one.rule}: {one.subject}: {one.message}" for one in found)


@contextmanager
def on_one_machine(folder: Path) -> Iterator[System]:
    """`itinerary up`, on SQLite."""
    record = folder / "record.jsonl"
    with (
        WarmRunning(folder / ".itinerary", "--app", APP, RECORD_FILE=str(record), **QUICK) as up,
        up.client() as client,
    ):
        yield System(client, up.kill_part, record, f"sqlite:///{up.data_dir}/itinerary.db", lambda: up.output)


@contextmanager
def apart(folder: Path, database_url: str) -> Iterator[System]:
    """Two leaders, a worker and an API on this PostgreSQL database."""
    record = folder / "record.jsonl"
    with (
        Deployment(folder, database_url, app=APP, RECORD_FILE=str(record), **QUICK) as deployed,
        deployed.client() as client,
    ):
        yield System(client, deployed.kill, record, database_url, lambda: deployed.output)
