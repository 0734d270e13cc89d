"""deploy/'s topology for real: scaled under load, then every part replaced one after the other, and nothing noticed."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from itinerary.client.sync import Client
from scheduler_service.sql.database import Database
from scheduler_service.sql.record_tables import leaderships
from tests.support.processes import wait_until
from tests.support.records import occurrences, read_truth
from tests.support.topology import Load, Topology, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]

APP = "tests.e2e.recording_app:app"
PENDING = 'scheduler_queue_pending_runs{queue="default"}'
LEASE_SECONDS = 30
"""The most that the setting allows: a leader that waited for the end of a lease that was given up would be seen."""


@dataclass(frozen=True)
class Outcome:
    """All that is left when it is over."""

    runs: list[dict[str, Any]]
    accepted: dict[str, str]
    record: Path
    topology: Topology
    led: int
    endings: set[str]

    def of(self, job_id: str) -> list[dict[str, Any]]:
        return [run for run in self.runs if run["job_id"] == job_id]


@pytest.fixture(scope="module")
def outcome(module_postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Jobs each second and clients that enqueue, while all of it is scaled and replaced."""
    folder = tmp_path_factory.mktemp("topology")
    record = folder / "record.jsonl"
    settings = {"RECORD_FILE": str(record), "ITINERARY_LEASE_TTL": f"{LEASE_SECONDS}s"}
    with Topology(folder, module_postgres_url, app=APP, **settings) as topology, ExitStack() as stack:
        clients = [stack.enter_context(client) for client in topology.clients()]
        _add_jobs(clients[0])
        with Load(clients, "recording.note").running() as load:
            _scale(topology, load)
            _replace_each(topology)
            wait_until(lambda: len(load.accepted) > 100, what=lambda: topology.output)
        for job_id in ("tick", "long"):
            clients[0].pause_job(job_id, "enough", waiting="skip")
        wait_until(lambda: _all_final(clients[0]), what=lambda: topology.output, every=0.5)
        led = len(topology.lines_with("leading"))
        with closing(Database(module_postgres_url)) as database, database.read() as reading:
            endings = set(reading.execute(select(leaderships.c.ending)).scalars())
        yield Outcome(list(clients[0].all_runs()), dict(load.accepted), record, topology, led, endings)


def _add_jobs(client: Client) -> None:
    for job_id, taken in (("tick", 0.0), ("long", 3.0)):
        client.create_job(
            {"job_id": job_id, "task": "recording.note", "kwargs": {"seconds": taken}, "overlap": "allow",
             "schedule": {"kind": "interval", "every": "1s" if job_id == "tick" else "4s"}}
        )  # fmt: skip


def _scale(topology: Topology, load: Load) -> None:
    """One worker cannot keep up, eight can: what the autoscaler looks at must say so."""
    load.rate, load.kwargs = 8, {"seconds": 1}
    eventually(lambda: topology.figure(PENDING), lambda n: n > 8, "the queue to grow")
    more = [f"worker-{number}" for number in range(2, 9)]
    for name in more:
        topology.start(name)
    eventually(lambda: topology.figure("scheduler_workers_alive"), lambda n: n == 8, "eight workers")
    eventually(lambda: topology.figure(PENDING), lambda n: n <= 2, "the queue to be worked off")
    load.rate, load.kwargs = 4, {"seconds": 0.1}
    topology.stop(*more)
    eventually(lambda: topology.figure("scheduler_workers_alive"), lambda n: n == 1, "one worker")


def _replace_each(topology: Topology) -> None:
    """What a rolling upgrade does: leaders and APIs in place, a worker after its successor has come."""
    for name in ("leader-1", "leader-2", "api-1", "api-2"):
        topology.restart(name)
    eventually(lambda: topology.figure("scheduler_is_leader"), lambda n: n == 1, "a leader")
    topology.start("worker-9")
    topology.wait_until_well("worker-9")
    topology.stop("worker-1")


def _all_final(client: Client) -> bool:
    return all(run["finished_at"] for run in client.all_runs())


def test_every_occurrence_of_each_second_ran_once(outcome: Outcome) -> None:
    for job_id, every in (("tick", 1.0), ("long", 4.0)):
        times = occurrences(outcome.runs, job_id)
        assert len(times) > 3  # how many depends on how soon all was replaced
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {every}, job_id
        states = [(run["state"], run["attempt"]) for run in outcome.of(job_id)]
        # The pause ends what lies ahead of it.
        assert set(states) <= {("completed", 1), ("skipped", 1)}
        assert states.count(("skipped", 1)) <= 12


def test_every_run_that_a_client_was_promised_ran_once(outcome: Outcome) -> None:
    runs = {run["run_id"]: run for run in outcome.runs}
    assert len(set(outcome.accepted.values())) == len(outcome.accepted)
    for run_id in outcome.accepted.values():
        assert (runs[run_id]["state"], runs[run_id]["attempt"]) == ("completed", 1)
    # Nor was one made that nobody was promised: an answer that was lost in a restart found its run again.
    assert {run["run_id"] for run in outcome.runs if run["job_id"] is None} == set(outcome.accepted.values())


def test_what_ran_is_what_the_history_says_and_nothing_ran_twice(outcome: Outcome) -> None:
    truth = read_truth(outcome.record)
    completed = {f"{run['run_id']}~{run['attempt']}" for run in outcome.runs if run["state"] == "completed"}
    assert set(truth.starts) == completed
    assert set(truth.starts.values()) == {1}
    assert truth.starts == truth.ends


def test_nobody_was_lost_and_a_change_of_the_lead_was_short(outcome: Outcome) -> None:
    assert not outcome.topology.lines_with("lease lost")
    assert not outcome.topology.lines_with("stepped down")
    assert outcome.led >= 2
    assert outcome.endings == {"resigned"}, "nobody waited for the end of a lease"


def test_the_invariants_hold_over_all_of_it(outcome: Outcome) -> None:
    judged = outcome.topology.command_line("doctor", "--invariants", "--log", str(outcome.record))
    assert judged.returncode == 0, judged.stdout + judged.stderr
