"""The table at the end of `python3 deploy test --matrix`."""

from tests.workers.matrix.table import LEGEND, table


def test_a_row_a_case_a_column_an_environment_a_letter_a_pool() -> None:
    place = "tests/workers/matrix/test_cases.py::test_"
    outcomes = {
        f"{place}canvas[5.4-3.10-prefork-chain]": "passed",
        f"{place}canvas[5.4-3.10-threads-chain]": "failed",
        f"{place}canvas[5.7-3.13-solo-chain]": "error",
        f"{place}kill_of_the_child[5.4-3.10-prefork]": "passed",
        f"{place}kill_of_the_child[5.7-3.13-gevent]": "skipped",
        "tests/workers/matrix/test_table.py::test_this": "passed",
    }
    assert table(outcomes).splitlines() == [
        "                   5.4   5.7   Celery",
        "                   3.10  3.13  Python",
        "canvas chain       pT..  ...S",
        "kill of the child  p...  ..-.",
        LEGEND.rstrip("\n"),
    ]


def test_without_a_worker_there_is_no_table() -> None:
    assert table({"tests/workers/matrix/test_table.py::test_this": "passed"}) == ""
