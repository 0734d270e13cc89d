"""Reported failures of reading a schedule or a text, each replayed to its right outcome."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from itinerary.protocol.instants import DAY, MINUTE
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import latest, occurrences, parse_schedule, upcoming
from tests.support.moments import at, schedule_of, texts
from tests.support.replay import cron, starts_of, world_at

ROOT: Final = Path(__file__).parents[2]
ODD_NAME: Final = "Überprüfung 夜間 🕐 \u202eabc"


@pytest.mark.parametrize(
    ("expr", "words", "found"),
    [
        ("0 0 * * 6/1", "At 00:00, on Saturday (UTC)", ["2026-11-28T00:00:00Z", "2026-12-05T00:00:00Z"]),
        ("59/15 * * * *", "At minute 59 of every hour, every day (UTC)",
         ["2026-11-27T10:59:00Z", "2026-11-27T11:59:00Z"]),
        ("0 23/6 * * *", "At 23:00, every day (UTC)", ["2026-11-27T23:00:00Z", "2026-11-28T23:00:00Z"]),
    ],
)  # fmt: skip
def test_a_start_with_a_step_has_one_meaning_which_its_writer_is_told(expr: str, words: str, found: list[str]) -> None:
    """B16, pallets-eco/croniter#246."""
    parsed = parse_schedule(cron(expr), job_id="job", created_at=at("2026-11-27T10:00:00Z"))
    assert texts(upcoming(parsed.schedule, at("2026-11-27T10:00:00Z"), 2)) == found
    assert describe(parsed.schedule) == words
    if expr != "0 0 * * 6/1":
        assert "only the first value is meant" in parsed.warnings[0]


def test_the_cron_library_is_one_exact_version_so_that_no_upgrade_changes_a_stored_job() -> None:
    """B16, pallets-eco/croniter#246."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (croniter,) = [line for line in project["dependencies"] if line.startswith("croniter")]
    assert croniter == "croniter==7.0.0"


@pytest.mark.parametrize(
    ("expr", "present"),
    [
        ("0 0 */10 * *", ["2024-03-01T00:00:00Z", "2024-01-31T00:00:00Z", "2023-12-31T00:00:00Z"]),
        ("0 0 L * *", ["2023-10-31T00:00:00Z", "2024-02-29T00:00:00Z", "2024-04-30T00:00:00Z"]),
        ("0 3 16,30 * *", ["2024-02-16T03:00:00Z", "2024-01-30T03:00:00Z", "2024-03-30T03:00:00Z"]),
        ("0 3 29-31 * *", ["2024-02-29T03:00:00Z", "2024-03-29T03:00:00Z", "2024-03-31T03:00:00Z"]),
    ],
)
def test_twelve_months_are_the_same_forward_and_backward(expr: str, present: list[str]) -> None:
    """B80, pallets-eco/croniter#1, taichino/croniter#20, taichino/croniter pull 49, agronholm/apscheduler#1138."""
    schedule = schedule_of(cron(expr))
    start, end = at("2023-09-01T00:00:00Z"), at("2024-09-01T00:00:00Z")
    forward = upcoming(schedule, start - 1, 400, end_at=end)
    backward = []
    until = end
    while (newest := latest(schedule, start, until)) is not None:
        backward.append(newest)
        until = newest
    assert forward == backward[::-1] == occurrences(schedule, start, end)
    assert set(present) <= set(texts(forward))


def test_a_date_whose_midnight_is_skipped_moves_no_later_month() -> None:
    """B80, pallets-eco/croniter#1, taichino/croniter#20, taichino/croniter pull 49, agronholm/apscheduler#1138."""
    for spec in (
        cron("0 0 4 * *", "America/Sao_Paulo"),
        {"kind": "calendar", "unit": "month", "days": [4], "at": ["00:00"], "timezone": "America/Sao_Paulo",
         "start": "2018-10-01"},
    ):  # fmt: skip
        schedule = schedule_of(spec, created_at="2018-10-01T00:00:00Z")
        found = upcoming(schedule, at("2018-10-01T12:00:00Z"), 4)
        assert texts(found) == [
            "2018-10-04T03:00:00Z", "2018-11-04T03:00:00Z", "2018-12-04T02:00:00Z", "2019-01-04T02:00:00Z",
        ]  # fmt: skip
        assert latest(schedule, found[0], found[-1] + DAY) == found[-1]


def test_a_name_and_arguments_in_any_script_run_and_come_back_as_they_were() -> None:
    """B31, celery/django-celery-beat#54, celery/django-celery-beat#10, celery/celery#1386."""
    world = world_at("2026-11-30T10:00:30Z")
    job = world.every("check", "1m", title=ODD_NAME, args=["Łódź"], kwargs={"名": ODD_NAME})
    world.workers.behave = lambda attempt: ("succeeded", {"result": ODD_NAME})
    world.advance(MINUTE)
    assert world.store.jobs.get("check").title == job.title == ODD_NAME
    assert starts_of(world, "check") == ["2026-11-30T10:01:00Z"]
    run = world.runs("check")[0]
    assert (run.args, run.kwargs, run.result) == (["Łódź"], {"名": ODD_NAME}, ODD_NAME)


def test_a_name_in_any_script_is_logged_under_the_plainest_locale() -> None:
    """B31, celery/django-celery-beat#54, celery/django-celery-beat#10, celery/celery#1386."""
    program = (
        "import structlog\n"
        "from scheduler_service.observability.logs import configure_logs\n"
        f"configure_logs('json'); structlog.get_logger('x').info('job made', title={ODD_NAME!a})\n"
        f"configure_logs('console'); structlog.get_logger('y').info('job made', title={ODD_NAME!a})\n"
    )
    plain = {**os.environ, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=plain, cwd=ROOT, capture_output=True, check=True)
    for_machines, for_people = done.stderr.splitlines()
    assert json.loads(for_machines)["title"] == ODD_NAME
    assert b"berpr" in for_people
    assert b"Traceback" not in done.stderr
