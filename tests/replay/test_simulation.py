"""Seeded histories of faults: whatever happens, nothing is lost, doubled, early, or never ended.

A failing seed says how to play it again, with everything that happened: `python -m tests.support.simulation SEED`.
"""

import pytest

from tests.support import simulation
from tests.support.simulation import simulate

FAST = 24
SLOW = 1_250
CHUNK = 125


def bad(seeds: range) -> str:
    """What went wrong in these histories; empty where all is well."""
    return "\n".join(str(outcome) for outcome in map(simulate, seeds) if not outcome.well)


@pytest.mark.parametrize("first", range(0, FAST, 12))
def test_histories_of_faults_keep_every_invariant(first: int) -> None:
    assert not bad(range(first, first + 12))


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (10, 20, 30))])
def test_histories_in_which_queues_come_and_go_keep_every_invariant_and_no_name_of_them(first: int) -> None:
    played = [simulate(seed, own_queues=True) for seed in range(first, first + 10)]
    assert not "\n".join(str(outcome) for outcome in played if not outcome.well)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, CHUNK))
def test_thousands_of_histories_of_faults_keep_every_invariant(first: int) -> None:
    assert not bad(range(max(first, FAST), first + CHUNK))


def test_the_same_seed_is_the_same_history() -> None:
    first, second = (simulate(7, tracing=True) for _ in range(2))
    assert first.trace
    assert first == second


def test_a_replay_says_by_its_status_whether_all_is_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulation.main(7) == 0
    assert "never ended" not in capsys.readouterr().out
    monkeypatch.setattr(simulation, "PATIENCE", 0)  # nobody waits for what is still under way
    assert simulation.main(7) == 1
    assert "never ended" in capsys.readouterr().out
