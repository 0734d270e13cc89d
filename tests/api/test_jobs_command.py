"""`python -m itinerary jobs plan|apply`: jobs beside an app's tasks, applied from the app's own environment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from itinerary.command_line import main
from itinerary.jobs_command import plan_lines
from tests.support.command_line import Itinerary
from tests.support.processes import CHECKOUT

BESIDE = """
from celery import Celery
from itinerary import schedule

print("noise at import")
app = Celery("beside_app", broker="redis://127.0.0.1:1/0")


@schedule.cron("{expr}", timezone="Europe/Berlin")
@app.task(name="beside.close")
def close(): ...


@schedule.hourly(17)
@app.task(name="beside.report")
def report(): ...
"""


@pytest.mark.slow
def test_the_jobs_of_an_app_are_planned_applied_checked_and_refused_by_their_line(
    itinerary: Itinerary, tmp_path: Path
) -> None:
    module = tmp_path / "beside_app.py"
    module.write_text(BESIDE.replace("{expr}", "0 2 1 * *"))
    url = f"http://127.0.0.1:{itinerary.env['ITINERARY_API_PORT']}"

    # A module that changes within a second must not be read from its bytecode.
    env = {**itinerary.env, "PYTHONPATH": CHECKOUT, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "itinerary", "jobs", *words, "beside_app:app", "--url", url],
            cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip

    planned = run("plan", "--check")
    assert (planned.returncode, planned.stderr) == (1, "noise at import\n")
    assert planned.stdout.splitlines() == [
        "+ beside.close  beside.close: cron, expr 0 2 1 * *, timezone Europe/Berlin",
        "+ beside.report  beside.report: hourly, minute 17, timezone UTC",
        "beside_app: 2 added, 0 as they are",
    ]
    unasked = run("apply")
    assert (unasked.returncode, "--yes: no terminal to ask on" in unasked.stderr) == (2, True)
    assert run("apply", "--yes").stdout.endswith("applied\n")
    same = run("plan", "--check", "--json")
    assert (same.returncode, json.loads(same.stdout)["unchanged"]) == (0, 2)
    module.write_text(BESIDE.replace("{expr}", "30 2 1 * *"))
    assert '~ beside.close  version 1\n    schedule.expr: "0 2 1 * *" -> "30 2 1 * *"' in run("plan").stdout
    module.write_text(BESIDE.replace("{expr}", "0 25 1 * *"))
    wrong = run("plan")
    assert wrong.returncode == 1
    assert "beside_app.py:9: job beside.close.schedule.expr" in wrong.stderr.splitlines()[-1]


def test_without_a_service_or_an_app_the_call_is_refused(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ITINERARY_API_URL", raising=False)
    assert main(["jobs", "plan", "no_such:app"]) == 2
    assert "--url: name the service" in capfd.readouterr().err
    assert main(["jobs", "plan", "no_such:app", "--url", "http://127.0.0.1:1"]) == 2
    assert "there is no module no_such in" in capfd.readouterr().err
    assert main(["jobs", "plan", "tests.migrating.beat_app:app", "--url", "http://127.0.0.1:1"]) == 1
    assert "refused; start the service there, or name another by --url" in capfd.readouterr().err
    assert main(["nonsense"]) == 2
    assert "export-apscheduler or jobs" in capfd.readouterr().err


def test_no_text_of_a_job_breaks_a_line_of_the_plan() -> None:
    job = {"task": "a\n- b", "schedule": {"kind": "once", "at": "\x1b[2J"}}
    plan = {
        "source": "shop", "added": [{"job_id": "a", "job": job}], "removed": [], "left": ["kept"], "unchanged": 3,
        "changed": [{"job_id": "b", "version": 2, "changes": [{"field": "title", "before": "x", "after": "y" * 500}]}],
        "warnings": [{"job_id": "a", "msg": "no such task"}],
    }  # fmt: skip
    assert plan_lines(plan) == [
        "+ a  a\\n- b: once, at \\x1b[2J",
        "~ b  version 2",
        f'    title: "x" -> "{"y" * 199}...',
        "= kept  is not declared; it stays",
        "warning: a: no such task",
        "shop: 1 added, 1 changed, 3 as they are",
    ]
