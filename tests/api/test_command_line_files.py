"""`jobs apply` and `jobs export` against a real API process."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.support.command_line import Itinerary
from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.slow  # whole processes, or real servers for long

SEED = REPOSITORY / "tests" / "jobs_as_code"


def names(itinerary: Itinerary, source: str) -> list[str]:
    return [job["job_id"] for job in json.loads(itinerary.done("jobs", "list", "--source", source, "--json"))["items"]]


@pytest.mark.slow
def test_a_file_is_shown_applied_and_exported_to_what_applies_to_no_change(
    itinerary: Itinerary, tmp_path: Path
) -> None:
    seed = str(SEED / "seed.toml")
    planned = itinerary.done("jobs", "apply", seed, "--dry-run")
    assert "+ job-4  itinerary.echo: Every 25 minutes" in planned
    assert "seed: 5 added, 0 as they are" in planned
    assert names(itinerary, "seed") == []
    assert itinerary.done("jobs", "apply", seed, "--yes").endswith("applied\n")
    assert names(itinerary, "seed") == [f"job-{n}" for n in range(1, 6)]
    for kind in ("toml", "yaml", "json"):
        file = tmp_path / f"out.{kind}"
        itinerary.done("jobs", "export", "--source", "seed", "--format", kind, "-o", str(file))
        assert "nothing to change, 5 as they are" in itinerary.done("jobs", "apply", str(file), "--yes")
    for same in ("seed.yaml", "seed.py"):
        assert "nothing to change, 5 as they are" in itinerary.done("jobs", "apply", str(SEED / same), "--yes")
    everything = tmp_path / "all.yaml"
    everything.write_text(itinerary.done("jobs", "export", "--format", "yaml"))
    assert "nothing to change" in itinerary.done("jobs", "apply", str(everything))


def test_a_dry_run_plans_beside_calendars_that_are_not_there_yet(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "closed.toml"
    file.write_text(
        'source = "closed"\n[calendars.not-yet]\nrules = ["weekly sun"]\n[[jobs]]\njob_id = "closed.job"\ntask = "t"\n'
        'schedule = "0 2 * * *"\ncalendars = {exclude = ["not-yet"]}\n[[jobs]]\njob_id = "open.job"\ntask = "t"\n'
        'schedule = "0 3 * * *"\n[monitors.closed]\nschedule = "0 2 * * *"\ncalendars = {only = ["not-yet"]}\n'
    )
    planned = itinerary("jobs", "apply", str(file), "--check")
    assert planned.returncode == 1
    assert [line.split("  ")[0] for line in planned.stdout.splitlines()] == [
        "+ closed.job", "+ open.job", "+ monitor closed", "closed: 3 added, 0 as they are",
    ]  # fmt: skip
    assert planned.stderr.splitlines() == [
        "calendar not-yet: added",
        "planned as if without calendars, until the new ones are there: closed.job, monitor closed",
    ]
    assert "applied" in itinerary("jobs", "apply", str(file), "--yes").stdout
    assert json.loads(itinerary.done("jobs", "show", "closed.job", "--json"))["calendars"]["exclude"] == ["not-yet"]
    deleted = itinerary.done("jobs", "delete", "closed.job", "open.job", "-o", "json")
    assert json.loads(deleted)["items"] == [
        {"job_id": "closed.job", "deleted": True}, {"job_id": "open.job", "deleted": True},
    ]  # fmt: skip
    assert "json" in itinerary("jobs", "delete", "x", "-o", "csv").stderr
    itinerary.done("monitors", "delete", "closed")
    itinerary.done("calendars", "delete", "not-yet")


def test_monitors_of_a_file_are_shown_applied_exported_and_pruned(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "watched.toml"
    file.write_text('source = "watched"\njobs = []\n[monitors.nightly]\nschedule = "0 2 * * *"\ngrace = "30m"\n')
    checked = itinerary("jobs", "apply", str(file), "--check")
    assert (checked.returncode, checked.stdout.splitlines()) == (
        1, ["+ monitor nightly  At 02:00 (UTC)", "watched: 1 added, 0 as they are"],
    )  # fmt: skip
    applied = itinerary("jobs", "apply", str(file), "--yes")
    assert applied.stderr == "monitor nightly is new; to ping it, get its token: itinerary monitors token nightly\n"
    assert "mon_" not in applied.stdout
    for command in (("list",), ("show", "nightly")):
        assert re.search(r" \d{4}-\d\d-\d\d \d\d:00:00 \w+ \(in ", itinerary.done("monitors", *command)), command
    assert itinerary.done("monitors", "token", "nightly").startswith("mon_")
    exported = tmp_path / "exported.toml"
    itinerary.done("jobs", "export", "--source", "watched", "-o", str(exported))
    assert "watched: nothing to change, 1 as they are" in itinerary.done("jobs", "apply", str(exported), "--yes")
    file.write_text('source = "watched"\njobs = []\n[monitors.nightly]\nschedule = "0 3 * * *"\ngrace = "30m"\n')
    changed = itinerary.done("jobs", "apply", str(file), "--yes")
    assert changed.splitlines()[:2] == ["~ monitor nightly  version 1", '    schedule.expr: "0 2 * * *" -> "0 3 * * *"']
    file.write_text('source = "watched"\njobs = []\n')
    kept = itinerary.done("jobs", "apply", str(file), "--yes", "--no-prune")
    assert "= monitor nightly  is not named; it stays" in kept
    assert "- monitor nightly  At 03:00 (UTC)" in itinerary.done("jobs", "apply", str(file), "--yes")
    assert json.loads(itinerary.done("monitors", "list", "--json")) == []


APP = """
from celery import Celery
from itinerary import schedule

app = Celery("shop")


@schedule.cron("0 2 1 * *", timezone="Europe/Berlin", overlap="queue")
@app.task(name="shop.close_month")
def close_month():
    pass


@schedule.hourly(17, job_id="report", args=["short"])
@app.task(name="shop.report")
def report(kind):
    pass
"""


def test_the_jobs_beside_an_apps_tasks_are_checked_applied_and_checked_again(
    itinerary: Itinerary, tmp_path: Path
) -> None:
    (tmp_path / "decorated_shop.py").write_text(APP)
    place, env = "decorated_shop:app", {"PYTHONPATH": f"{itinerary.env['PYTHONPATH']}:{tmp_path}"}
    checked = itinerary("jobs", "apply", place, "--check", **env)
    assert (checked.returncode, checked.stderr) == (1, "")
    assert "decorated_shop: 2 added, 0 as they are" in checked.stdout
    assert names(itinerary, "decorated_shop") == []
    assert itinerary.done("jobs", "apply", place, "--yes", **env).endswith("applied\n")
    assert names(itinerary, "decorated_shop") == ["report", "shop.close_month"]
    assert "nothing to change, 2 as they are" in itinerary.done("jobs", "apply", place, "--check", **env)
    theirs = tmp_path / "python"  # the interpreter of an environment in which the app is
    theirs.write_text(f'#!/bin/sh\nPYTHONPATH="{env["PYTHONPATH"]}" exec {sys.executable} "$@"\n')
    theirs.chmod(0o755)
    alone = itinerary("jobs", "apply", place)
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1)
    assert "--python PATH, or run there: python -m itinerary jobs apply decorated_shop:app" in alone.stderr
    there = itinerary.done("jobs", "apply", place, "--check", "--worker-python", str(theirs))
    assert "nothing to change, 2 as they are" in there
    there = itinerary("jobs", "apply", place, "--dry-run", "--source", "other", "--take-over", "--python", str(theirs))
    assert (there.returncode, "other: 2 changed" in there.stdout) == (0, True)
    assert "leave it out, or name MODULE:APP" in itinerary("jobs", "apply", "a.toml", "--python", str(theirs)).stderr
    (tmp_path / "decorated_shop.py").write_text(APP.replace('args=["short"]', ""))
    refused = itinerary("jobs", "apply", place, "--check", **env)
    assert refused.returncode == 2
    assert "decorated_shop.py:14: job report: the task shop.report cannot be called like that" in refused.stderr
    assert "missing a required argument: 'kind'" in refused.stderr


@pytest.mark.slow
def test_an_export_says_whose_values_it_does_not_hold_and_its_file_is_refused_by_name(
    itinerary: Itinerary, tmp_path: Path
) -> None:
    itinerary.done("jobs", "add", "pay", "itinerary.echo", "--every", "1d", "--kwargs", '{"password": "hush"}')
    file = tmp_path / "out.toml"
    ended = itinerary("jobs", "export", "-o", str(file))
    assert ended.returncode == 0
    assert "hidden values stand as [redacted] in jobs pay: put the value" in ended.stderr
    assert "hush" not in file.read_text() + ended.stderr + ended.stdout
    applied = itinerary("jobs", "apply", str(file), "--source", "", "--yes")
    assert applied.returncode == 1
    assert "kwargs.password" in applied.stderr


@pytest.mark.slow
def test_what_a_file_no_longer_names_is_deleted_unless_that_is_declined(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('source = "shop"\n[[jobs]]\njob_id = "shop.a"\ntask = "t"\nschedule = "0 2 * * *"\n')
    itinerary.done("jobs", "apply", str(file), "-y")
    file.write_text('source = "shop"\n[[jobs]]\njob_id = "shop.b"\ntask = "t"\nschedule = "0 3 * * *"\n')
    assert "= shop.a  is not named; it stays" in itinerary.done("jobs", "apply", str(file), "-y", "--no-prune")
    file.write_text('source = "shop"\n[[jobs]]\njob_id = "shop.b"\ntask = "t"\nschedule = "0 4 * * *"\n')
    changed = json.loads(itinerary.done("jobs", "apply", str(file), "-y", "--json"))
    assert [job["job_id"] for job in changed["removed"]] == ["shop.a"]
    assert changed["changed"][0]["changes"] == [{"field": "schedule.expr", "before": "0 3 * * *", "after": "0 4 * * *"}]
    assert names(itinerary, "shop") == ["shop.b"]


@pytest.mark.slow
def test_a_file_deletes_no_jobs_of_another_of_its_name_elsewhere(itinerary: Itinerary, tmp_path: Path) -> None:
    one, other = (tmp_path / repository / "ops" / "jobs.toml" for repository in ("one", "other"))
    for file, job_id in ((one, "one.a"), (other, "other.a")):
        file.parent.mkdir(parents=True)
        file.write_text(f'[[jobs]]\njob_id = "{job_id}"\ntask = "t"\nschedule = "0 2 * * *"\n')
    itinerary.done("jobs", "apply", str(one), "-y")
    for more in ("-y", "--dry-run"):
        refused = itinerary("jobs", "apply", str(other), more)
        assert refused.returncode == 2
        assert "source: 'ops/jobs.toml' " in refused.stderr
        assert "has other jobs (one.a): say `source` in yours" in refused.stderr
    itinerary.done("jobs", "apply", str(other), "-y", "--source", "other")
    assert (names(itinerary, "ops/jobs.toml"), names(itinerary, "other")) == (["one.a"], ["other.a"])
    one.write_text(one.read_text().replace("one.a", "one.b"))
    itinerary.done("jobs", "apply", str(one), "-y", "--prune")
    assert names(itinerary, "ops/jobs.toml") == ["one.b"]


def test_without_somebody_to_ask_nothing_is_applied(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "j.json"
    file.write_text('{"jobs": [{"job_id": "x.y", "task": "t", "schedule": "* * * * *"}]}')
    unowned = itinerary("jobs", "apply", str(file), "--source", "", "--prune")
    assert (unowned.returncode, "--prune" in unowned.stderr) == (2, True)
    unasked = itinerary("jobs", "apply", str(file), "--source", "who")
    assert (unasked.returncode, "--yes" in unasked.stderr) == (2, True)
    assert names(itinerary, "who") == []


def test_a_wrong_file_is_one_line_that_names_the_job(itinerary: Itinerary, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("source: s\njobs:\n- {job_id: a.b, task: t, schedule: 61 * * * *}\n")
    ended = itinerary("jobs", "apply", str(file), "-y")
    assert ended.returncode == 2
    assert ended.stderr.startswith("itinerary: job a.b.schedule.expr: ")
    assert ended.stderr.count("\n") == 1
