"""Every collected bug report has a test here that names it, and the half of it that lives elsewhere is named too."""

import ast
import json
import re
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
ROWS: Final = json.loads((ROOT / "tests/vectors/bug_cases.json").read_text())["rows"]

# What the leader's rules alone cannot show, and the test that does: the worker's half, a real server, the API.
ELSEWHERE: Final = {
    "B18": ("two real workers are given the same message many times", "tests/workers/test_worker_faults.py",
            "test_duplicates_over_two_workers_start_once_each"),
    "B21": ("a real worker is killed while it runs", "tests/workers/test_worker_faults.py",
            "test_after_a_worker_is_killed_its_attempt_is_never_started_again"),
    "B22": ("a task ends its own process", "tests/workers/test_worker_faults.py",
            "test_a_task_whose_process_dies_is_reported_once_and_the_worker_goes_on"),
    "B24": ("a real worker lives through a real Redis that is killed", "tests/workers/test_worker_faults.py",
            "test_a_task_that_runs_while_redis_is_killed_starts_once_and_its_result_arrives"),
    "B26": ("a real broker that is away", "tests/loops/test_election.py",
            "test_a_broker_that_is_away_leaves_runs_pending_and_publishing_resumes_by_itself"),
    "B27": ("the worker holds its report until Redis has it", "tests/workers/test_worker_faults.py",
            "test_the_main_process_holds_a_report_while_redis_is_frozen"),
    "B28": ("the claim of a real worker is refused for what is cancelled", "tests/contract/test_claims_contract.py",
            "test_an_attempt_that_is_flagged_is_not_started"),
    "B31": ("text of every kind through the API and a real database", "tests/api/test_runs.py",
            "test_what_was_accepted_is_kept_to_the_letter"),
    "B44": ("the transaction of a real database", "tests/contract/test_store_lost_reply.py",
            "test_planning_again_after_a_lost_reply_changes_nothing"),
    "B51": ("the takeover in real SQL", "tests/contract/test_store_lease.py",
            "test_a_lease_that_stands_still_is_taken_before_it_lapses_unless_it_was_renewed"),
    "B55": ("a worker's second report of one attempt", "tests/contract/test_claims_contract.py",
            "test_an_attempt_is_reported_once_whoever_reports_it"),
    "B68": ("a real database that is away", "tests/api/test_outages.py",
            "test_without_a_database_nothing_is_accepted_and_the_caller_is_told_to_come_again"),
    "B69": ("a real broker that hangs", "tests/contract/test_dispatcher_contract.py",
            "test_a_broker_that_is_away_is_reported_as_such_and_soon"),
    "B83": ("history is read page by page from the database", "tests/api/test_runs.py",
            "test_every_run_is_seen_once_while_newer_ones_come_in_between_pages"),
}  # fmt: skip


def _named() -> dict[str, set[str]]:
    """The reports that the tests of this folder name, with their references, from the first paragraph of each."""
    found: dict[str, set[str]] = {}
    for file in sorted(HERE.glob("test_bug_cases_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            said = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            case = re.match(r"(B\d+), (.*?)\.(\n|$)", said or "", re.DOTALL)
            if case and node.name.startswith("test_"):
                found.setdefault(case[1], set()).update(" ".join(case[2].split()).split(", "))
    return found


def test_every_report_is_replayed_and_its_public_references_are_named() -> None:
    assert len(ROWS) == 59
    assert _named() == {row["id"]: set(row["refs"]) for row in ROWS}


def test_what_is_shown_elsewhere_is_there() -> None:
    for case, (what, file, name) in ELSEWHERE.items():
        assert case in {row["id"] for row in ROWS}
        assert what
        assert f"def {name}(" in (ROOT / file).read_text(), case
