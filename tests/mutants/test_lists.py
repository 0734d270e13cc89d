"""The lists of mutants fit the code, and a judge that says nothing proves nothing: it is tried on two mutants."""

from pathlib import Path

import pytest

from tests.mutants.listed import LISTS, Mutant, complaints, mutants
from tests.mutants.running import Outcome, UnsoundTests, judged

CORE_TEST = "tests/core/test_run_state.py"


def test_every_mutant_fits_the_code_and_names_tests_that_are_there() -> None:
    assert complaints() == []


def test_each_equivalent_mutant_says_why() -> None:
    assert all(one.equivalent is None or len(one.equivalent) > 10 for one in mutants([]))


def test_a_list_whose_text_is_gone_stands_twice_or_is_no_python_is_refused(tmp_path: Path) -> None:
    mutant = Mutant("a.py", "name", "x = 1", "x = 2", (CORE_TEST,))
    with pytest.raises(ValueError, match="0 times"):
        mutant.applied("y = 1\n")
    with pytest.raises(ValueError, match="2 times"):
        mutant.applied("x = 1\nx = 1\n")
    assert any("there is no such file" in text for text in complaints(tmp_path))


def test_scopes_are_files_and_folders() -> None:
    every = {one.path for one in mutants([])}
    assert {one.path for one in mutants(["core"])} == {
        path for path in every if path.startswith("scheduler_service/core/")
    }
    assert {one.path for one in mutants(["core/versions"])} == {"scheduler_service/core/versions.py"}
    assert {one.path for one in mutants(["core/plan"])} == set()
    assert len(list(LISTS.glob("*.toml"))) > 1


@pytest.mark.slow
def test_the_judge_tells_a_noticed_change_from_one_that_is_not(tmp_path: Path) -> None:
    path = "scheduler_service/core/run_state.py"
    noticed = Mutant(path, "final", "RunState.COMPLETED, ", "", (CORE_TEST,))
    unnoticed = Mutant(
        path, "nothing", "from enum import StrEnum", "from enum import StrEnum  # as it was", (CORE_TEST,)
    )
    outcomes = [verdict.outcome for verdict in judged([noticed, unnoticed], tmp_path / "good", 1)]
    assert outcomes == [Outcome.KILLED, Outcome.SURVIVED]
    missing = Mutant(path, "nothing", "StrEnum", "StrEnum", ("tests/core/no_such_test.py",))
    with pytest.raises(UnsoundTests):
        list(judged([missing], tmp_path / "bad", 1))
