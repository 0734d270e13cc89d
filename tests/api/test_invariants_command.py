"""`itinerary doctor --invariants`: quiet about a sound history, a line for each violation, and how it ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND
from scheduler_service.cli.invariants import read_record
from scheduler_service.core.invariants.history import Execution
from tests.support.command_line import Itinerary
from tests.support.processes import project_env
from tests.support.store_bed import StoreBed, one_off, sql_bed

pytestmark = pytest.mark.slow  # whole processes, or real servers for long


@pytest.fixture
def bed(sqlite_url: str) -> Iterator[StoreBed]:
    with sql_bed(sqlite_url) as bed:
        yield bed


@pytest.fixture
def command(sqlite_url: str, tmp_path: Path) -> Itinerary:
    return Itinerary(project_env(ITINERARY_DATABASE_URL=sqlite_url, ITINERARY_DATA_DIR=str(tmp_path)))


@pytest.mark.slow
def test_violations_are_listed_and_end_with_status_one(bed: StoreBed, command: Itinerary, tmp_path: Path) -> None:
    assert command.done("doctor", "--invariants").startswith("ok ")
    lease = bed.lead()
    (run,) = bed.dispatched(lease, one_off(lease.now))
    record = tmp_path / "record.jsonl"
    lines = [{"event": "start", "task_id": f"{run.run_id}~1", "at": lease.now / SECOND}] * 2
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))

    twice = command("doctor", "--invariants", "--log", str(record))
    assert twice.returncode == 1
    assert twice.stdout.split()[:2] == ["doubled", run.run_id]
    told = json.loads(command("doctor", "--invariants", "--json", "--log", str(record)).stdout)
    assert (told["rule"], told["subject"]) == ("doubled", run.run_id)
    assert bed.database is not None
    with bed.database.write() as connection:
        connection.execute(text("UPDATE runs SET state = 'completed'"))
    assert "completed without finished_at" in command("doctor", "--invariants").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--invariants", "--log", "nowhere"), 2, "readable file"),
        (("--log", "x"), 2, "--invariants"),
        (("--invariants", "--since", "noon"), 2, "--since"),
    ],
)
def test_a_wrong_call_is_refused(command: Itinerary, words: tuple[str, ...], status: int, said: str) -> None:
    ended = command("doctor", *words)
    assert (ended.returncode, said in ended.stderr) == (status, True), ended.stderr


def test_a_last_line_that_a_crash_cut_is_left_out_and_any_other_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.write_text(
        '{"event": "start", "task_id": "x~1", "at": 1.5}\n{"event": "end", "task_id": "x~1", "at": 2}\n{"ev'
    )
    assert read_record(record) == {("x", 1): Execution([1_500_000], 1)}
    record.write_text('{"event": "stop", "task_id": "x~1", "at": 1}\n')
    with pytest.raises(BadValue, match="line 1 of "):
        read_record(record)
