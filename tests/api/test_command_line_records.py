"""The command line beyond jobs and runs: explanations, the audit log, everything as JSON, colours, completion."""

import json
import os
import pty
import shlex
import subprocess
import sys
from contextlib import suppress

import pytest

from scheduler_service.cli.completing import job_ids, states
from tests.support.command_line import COMMAND, Itinerary
from tests.support.processes import REPOSITORY, Child, free_port, project_env

pytestmark = pytest.mark.slow  # whole processes, or real servers for long


@pytest.fixture
def job(itinerary: Itinerary) -> str:
    body = {"task": "t", "schedule": {"kind": "hourly", "minute": 17}}
    itinerary("jobs", "add", "explained", "-f", "-", stdin=json.dumps(body))
    return "explained"


@pytest.mark.slow
def test_an_occurrence_and_a_run_are_explained_to_people_and_to_programs(itinerary: Itinerary, job: str) -> None:
    itinerary.done("jobs", "pause", job, "--reason", "audit \x1b[31m")
    told = itinerary.done("jobs", "explain", job, "2999-01-01T10:17:00Z")
    assert told.startswith("paused  explained  2999-01-01 11:17:00 CET (in ")
    assert 'by loopback: "audit \\x1b[31m"' in told
    assert "job_versions: job_id=explained, version=2" in told
    seen = json.loads(itinerary.done("jobs", "explain", job, "--at", "2999-01-01T11:18:00", "--json"))
    assert (seen["verdict"], seen["at"]) == ("never_due", "2999-01-01T10:18:00Z")
    assert seen["nearest_after"] == "2999-01-01T11:17:00Z"
    itinerary.done("jobs", "resume", job)
    run_id = itinerary.done("enqueue", "t", "--in", "1h").split()[0]
    assert itinerary.done("runs", "explain", run_id).startswith("not yet due")
    assert json.loads(itinerary.done("runs", "explain", run_id, "--json"))["run_id"] == run_id
    itinerary.done("freezes", "start", "--all", "--reason", "a \x1b[31mdeploy", "--until", "2999-01-01T10:00:00Z")
    held = itinerary.done("jobs", "trigger", job).split()[0]
    row = next(line for line in itinerary.done("runs", "explain", held).splitlines() if " freezes: " in line)
    assert "freezes: freeze_id=1, from=" in row
    assert "until=2999-01-01T10:00:00Z, reason=a \\x1b[31mdeploy" in row
    itinerary.done("freezes", "end", "1")


@pytest.mark.slow
def test_who_changed_what_is_told(itinerary: Itinerary, job: str) -> None:
    itinerary.done("jobs", "pause", job)
    itinerary.done("jobs", "resume", job)
    told = itinerary.done("audit", job)
    assert "job.resume" in told.splitlines()[1]
    assert "paused: True -> False" in told
    seen = json.loads(itinerary.done("audit", job, "--action", "job.pause", "--limit", "1", "--json"))
    assert [entry["action"] for entry in seen["items"]] == ["job.pause"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list"), ("jobs", "list", "--all"), ("jobs", "show", "explained"), ("jobs", "preview", "explained"),
        ("jobs", "explain", "explained", "2999-01-01T10:17:00Z"), ("runs", "list"), ("runs", "list", "--all"),
        ("status",), ("audit",), ("doctor",),
    ],
)  # fmt: skip
def test_every_reading_command_can_answer_in_json(itinerary: Itinerary, job: str, words: tuple[str, ...]) -> None:
    ended = itinerary(*words, "--json")
    assert isinstance(json.loads(ended.stdout), dict)
    assert ended.returncode == (1 if words in (("doctor",), ("status",)) else 0), ended.stderr


@pytest.mark.slow
def test_watching_in_json_is_a_line_for_each_change(itinerary: Itinerary) -> None:
    run_id = itinerary.done("enqueue", "t", "--in", "1h").split()[0]
    with Child([*COMMAND, "runs", "watch", run_id, "--every", "0.1", "--json"], env=itinerary.env) as watching:
        watching.wait_for_line('"state": "scheduled"')
        itinerary.done("runs", "cancel", run_id)
        assert watching.wait() == 1
    assert [json.loads(line)["state"] for line in watching.lines] == ["scheduled", "cancelled"]


def on_a_terminal(itinerary: Itinerary, *words: str, **env: str) -> str:
    """What a terminal is given."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, *words], env={**itinerary.env, "TERM": "xterm-256color", **env}, cwd=REPOSITORY,
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the end of a terminal is an error on Linux
        while part := os.read(ours, 65536):
            seen += part
    os.close(ours)
    child.wait()
    return seen.decode()


@pytest.mark.slow
def test_colours_are_for_terminals_whose_user_wants_them(itinerary: Itinerary) -> None:
    itinerary.done("enqueue", "t", "--in", "1h")
    assert "\x1b[" in on_a_terminal(itinerary, "runs", "list")
    assert "\x1b[3" not in on_a_terminal(itinerary, "runs", "list", NO_COLOR="1")
    assert "\x1b" not in itinerary.done("runs", "list")


@pytest.mark.slow
def test_long_work_is_shown_on_a_terminal_and_nowhere_else(itinerary: Itinerary) -> None:
    assert "reading runs" in on_a_terminal(itinerary, "runs", "list", "--all")
    ended = itinerary("runs", "list", "--all", "--json")
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("jobs", "explain", "explained"), "AT: give the instant"),
        (("jobs", "explain", "explained", "now"), "AT: 'now' is not accepted; give a time such as"),
        (("jobs", "explain", "explained", "--at", "now"), "--at: 'now' is not accepted; give a time such as"),
        (("runs", "list", "--limit", "0"), "--limit"),
        (("jobs", "edit", "explained"), "nothing to change; give at least one option"),
        (("jobs", "add", "another", "shop.add"), "give a schedule: --cron, --every, --minute, --at or --schedule"),
    ],
)
def test_wrong_usage_is_told_in_one_line(itinerary: Itinerary, words: tuple[str, ...], said: str) -> None:
    ended = itinerary(*words)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_shell_that_asks_can_complete() -> None:
    """Typer looks for the shell among the parents: `; true` keeps it there."""
    asked = f"{shlex.quote(sys.executable)} -P -m scheduler_service.cli --show-completion; true"
    told = subprocess.run(["bash", "-c", asked], env=project_env(), capture_output=True, text=True)
    assert "_itinerary_completion" in told.stdout, told.stderr


def test_a_tab_offers_states_and_the_jobs_of_an_api_that_answers(
    itinerary: Itinerary, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert states("c") == ["completed", "cancelled"]
    monkeypatch.setenv("ITINERARY_API_URL", f"http://127.0.0.1:{itinerary.env['ITINERARY_API_PORT']}")
    assert job in job_ids("expl")
    assert job_ids("nobody") == []
    monkeypatch.setenv("ITINERARY_API_URL", f"http://127.0.0.1:{free_port()}")
    assert job_ids("expl") == []


@pytest.mark.slow
def test_the_document_is_printed_without_anything_that_runs(itinerary: Itinerary) -> None:
    printed = itinerary.done("api", "--openapi", ITINERARY_DATABASE_URL="sqlite:////nowhere/x.db")
    assert json.loads(printed)["openapi"].startswith("3.1")


def test_explaining_costs_the_start_of_other_commands_nothing() -> None:
    script = "import scheduler_service.cli.program, sys; print('rich.progress' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "False"
