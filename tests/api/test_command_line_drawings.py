"""What the command line draws: bars of progress, the last hour, groups of failures."""

from typing import Any

from scheduler_service.cli.failures import grouped
from scheduler_service.cli.progress import progress_bar
from scheduler_service.cli.top import sparkline


def test_progress_is_a_bar_where_its_total_is_known() -> None:
    assert progress_bar(None) is None
    assert progress_bar({"done": 5, "total": 20, "unit": "rows"}) == "█████░░░░░░░░░░░░░░░ 25 %  5 of 20 rows"
    assert progress_bar({"done": 30, "total": 20, "unit": ""}) == f"{'█' * 20} 100 %  30 of 20"
    assert progress_bar({"done": 5, "total": None, "unit": "rows"}) == "5 rows"
    assert progress_bar({"done": 19, "total": 20, "unit": "rows"}, over=True) == "19 of 20 rows"


def test_the_last_hour_is_drawn_from_nothing_to_its_highest() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 1, 7, 14]) == "▁▁▄█"


def test_failures_of_one_cause_are_one_group_with_their_newest_run() -> None:
    def run(run_id: str, job_id: str | None, message: str | None) -> dict[str, Any]:
        error = None if message is None else {"type": "E", "message": message}
        return {
            "run_id": run_id, "job_id": job_id, "task": "t", "state": "failed", "reason": None, "error": error,
        }  # fmt: skip

    groups = grouped([run("4", "a", "x\ny"), run("3", None, "x"), run("2", "a", "x"), run("1", "b", None)])
    assert [(g.what, g.cause, g.count, g.newest["run_id"]) for g in groups] == [
        ("a", "E: x", 2, "4"), ("t", "E: x", 1, "3"), ("b", "failed", 1, "1")
    ]  # fmt: skip
