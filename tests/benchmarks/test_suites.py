"""That the suites run; what they measure is nobody's assertion."""

import importlib
import inspect
from pathlib import Path

import pytest

from tests.benchmarks import bench_limits
from tests.benchmarks.bench_profile import STAGES
from tests.benchmarks.figures import Asked, table
from tests.benchmarks.plots import exponent
from tests.support.processes import REPOSITORY

SUITES = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))


@pytest.mark.parametrize("suite", SUITES)
def test_every_suite_gives_its_figures_for_what_is_asked(suite: str) -> None:
    module = importlib.import_module(f"tests.benchmarks.{suite}")
    assert next(iter(inspect.signature(module.figures).parameters)) == "asked"


def test_the_stages_of_the_profile_are_files_of_the_leader() -> None:
    paths = [path.with_suffix("") for path in REPOSITORY.glob("scheduler_service/**/*.py")]
    files = {f"{path.parent.name}/{path.name}" for path in paths} | {"engine/default"}  # SQLAlchemy's commit
    assert {stage.partition(".")[0] for stage in STAGES} <= files


def test_the_exponent_of_a_square_is_two() -> None:
    assert exponent({10: 100.0, 100: 10_000.0, 1_000: 1_000_000.0}) == pytest.approx(2)


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.postgres
def test_the_limits_are_measured_and_drawn(tmp_path: Path) -> None:
    found = list(bench_limits.figures(Asked(quick=True, plots=tmp_path), 200))
    assert all(figure.value > 0 for figure in found)
    assert "rows moved to pending" in table([figure.body("limits") for figure in found])
    assert (tmp_path / "limits.svg").read_text().startswith("<?xml")
