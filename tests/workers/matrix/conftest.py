"""One worker suite in an environment of each supported Celery and Python, in each pool that can do a case.

`python3 deploy test --matrix` runs all of it. Every other run takes the short form: the oldest environment, processes,
and no test marked `matrix`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.deployment import Deployment
from tests.support.matrix import COLUMNS, POOLS, WHOLE
from tests.workers.matrix.table import table
from tests.workers.matrix.worker import Service

HERE = Path(__file__).parent
QUICK = {"ITINERARY_LOST_AFTER": "6s", "ITINERARY_REDISPATCH_AFTER": "3s"}


class ByCombination(LoadScopeScheduling):
    """One unit of work is all that a worker of one environment and pool does."""

    def _split_scope(self, nodeid: str) -> str:
        combination = re.search(r"\[([\d.]+-[\d.]+-[a-z]+)", nodeid)
        return combination[1] if combination else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCombination | None:
    """Start each worker once."""
    return ByCombination(config, log) if WHOLE else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test of a worker in the pools that it names, in every environment; in the short form in the oldest."""
    if "combination" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("pools")
    pools, columns = (marker.args if marker else POOLS), COLUMNS
    if not WHOLE:
        pools, columns = POOLS[:1], COLUMNS[:1]
    combinations = [pytest.param((column, pool), id=f"{column}-{pool}") for column in columns for pool in pools]
    metafunc.parametrize("combination", combinations, scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of an ordinary run what is not of the short form."""
    left = [item for item in items if HERE in item.path.parents and not WHOLE and item.get_closest_marker("matrix")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A leader, an API and a Redis, from this checkout."""
    folder = tmp_path_factory.mktemp("service")
    database = f"sqlite:///{folder / 'itinerary.db'}"
    with (
        Deployment(folder, database, parts=("leader-1", "api"), **QUICK) as deployment,
        deployment.client() as client,
    ):
        yield Service(deployment, client)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Draw the table of the whole matrix."""
    if not WHOLE:
        return
    found = {
        report.nodeid: outcome
        for outcome in ("passed", "skipped", "failed", "error")
        for report in terminalreporter.stats.get(outcome, ())
    }
    terminalreporter.section("matrix")
    terminalreporter.write(table(found))
