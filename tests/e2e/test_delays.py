"""How soon a due run starts when nothing else is asked of the machine: the only tests that measure a delay."""

import statistics

import pytest

from tests.support.processes import wait_until
from tests.support.records import occurrences, seconds, steps
from tests.support.whole_system import System

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(300)]


def test_an_interval_job_runs_each_occurrence_once_never_early_and_at_once(system: System) -> None:
    system.make_job("beat", "1s")
    wait_until(lambda: system.completed("beat") >= 10, 60, system.output, 0.5)
    system.client.pause_job("beat", "seen enough")
    wait_until(lambda: system.all_final("beat"), 20, system.output, 0.2)

    runs = [run for run in system.runs("beat") if run["state"] == "completed"]
    times = occurrences(runs, "beat")
    assert steps(times) == [1.0] * (len(times) - 1)
    truth = system.truth()
    assert [truth.starts_of(run["run_id"]) for run in runs] == [1] * len(runs)
    waits = [seconds(run["started_at"]) - seconds(run["due_at"]) for run in runs]
    assert min(waits) >= 0
    assert statistics.median(waits) < 0.1, waits
    assert not system.violations()
