"""Lists of the command line: how much there is, ids whole on any terminal, next and last runs, why runs failed."""

import csv
import json
from pathlib import Path

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.database import Database, host_now
from tests.support.command_line import Itinerary
from tests.support.led import Led
from tests.support.store_bed import one_off, sql_bed
from tests.support.terminal import on_a_terminal

pytestmark = pytest.mark.slow  # whole processes

LONG = "a.job-with-a-name-that-is-far-longer-than-any-column-of-a-terminal-of-eighty.columns"


@pytest.fixture(scope="module")
def failed_run(itinerary: Itinerary) -> str:
    """A run that failed with an error and without a reason, and 40 that are to come."""
    database = Database(f"sqlite:///{itinerary.env['ITINERARY_DATA_DIR']}/itinerary.db", pool_size=1)
    led = Led(database)
    run = one_off(host_now() - 60 * SECOND)
    with sql_bed(str(database.engine.url)) as bed:
        bed.dispatched(led.lease, run)
        bed.make(led.lease, *(one_off(host_now() + n * SECOND) for n in range(3600, 3640)))
        error = {"type": "ValueError", "message": "no such\ncustomer", "traceback": "..."}
        failing = Transition(run.run_id, 1, Event.FAIL, RunState.FAILED, host_now(), error=error)
        assert bed.leader.apply(led.lease, Apply((failing,))) == ()
    led.leases.resign(led.lease)
    database.close()
    return run.run_id


def test_an_empty_list_says_whether_a_filter_left_everything_out(itinerary: Itinerary) -> None:
    """The first test of this module: nothing was added yet."""
    for words, told in (
        (("jobs", "list"), "there are no jobs yet; add: itinerary jobs add JOB_ID TASK --every 1h\n"),
        (("runs", "list"), "there are no runs yet; add: itinerary enqueue TASK\n"),
        (("jobs", "list", "--tag", "nope"), "no jobs match; leave out a filter to see more\n"),
        (("runs", "list", "--queue", "nope"), "no runs match; leave out a filter to see more\n"),
    ):
        ended = itinerary(*words)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", told)


def test_a_list_says_how_much_there_is_beside_it(itinerary: Itinerary, failed_run: str) -> None:
    listed = itinerary("runs", "list")
    assert len(listed.stdout.splitlines()) == 31
    assert listed.stderr == "30 of 41 runs; --limit N lists more of them, --all all\n"
    assert itinerary("runs", "list", "--limit", "41").stderr == ""
    oldest = json.loads(itinerary("runs", "list", "--json", "--sort", "scheduled_at", "--limit", "2").stdout)
    assert set(oldest) == {"items", "next_cursor"}
    assert oldest["items"][0]["run_id"] == failed_run
    assert "sort: " in itinerary("runs", "list", "--sort", "worker").stderr


def test_a_list_of_failed_runs_says_why(itinerary: Itinerary, failed_run: str) -> None:
    (line,) = itinerary.done("runs", "list", "--state", "failed").splitlines()[1:]
    assert line.startswith(failed_run)
    assert line.endswith("ValueError: no such")


def test_a_job_that_is_not_there_has_no_empty_list(itinerary: Itinerary) -> None:
    for words in (("runs", "list", "--job", "nope"), ("audit", "nope")):
        ended = itinerary(*words)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "nope" in ended.stderr
    itinerary.done("jobs", "add", "idle", "t", "--every", "1h")
    assert itinerary("runs", "list", "--job", "idle").returncode == 0
    assert itinerary("audit", "idle", "--action", "job.pause").returncode == 0


def test_jobs_are_listed_with_their_next_and_last_run(itinerary: Itinerary) -> None:
    itinerary.done("jobs", "add", "daily", "t", "--every", "90m", "--title", "Mine")
    itinerary.done("jobs", "pause", "daily", "--reason", "audit")
    itinerary.done("jobs", "resume", "daily")
    run_id = itinerary.done("jobs", "trigger", "daily").split()[0]
    itinerary.done("runs", "cancel", run_id)
    header, line = itinerary.done("jobs", "list", "-q", "daily").splitlines()
    assert header.split("  ")[0] == "job"
    assert "cancelled" in line
    assert " in " in line
    (job,) = json.loads(itinerary.done("jobs", "list", "-q", "daily", "--json"))["items"]
    assert "last_run" not in job


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_id_is_folded_or_cut_on_a_terminal(itinerary: Itinerary, failed_run: str, columns: int) -> None:
    itinerary(
        "jobs", "add", LONG, "an.app.of.somebody.tasks.with_a_long_name", "--cron", "0 2 * * *", "--title", "x" * 90
    )
    run_id = itinerary.done("jobs", "trigger", LONG).split()[0]
    for words in (
        ("jobs", "list"), ("runs", "list", "--job", LONG), ("runs", "show", run_id), ("jobs", "show", LONG),
        ("runs", "explain", run_id), ("audit", LONG),
    ):  # fmt: skip
        seen = on_a_terminal(itinerary.env, *words, columns=columns)
        assert seen.status == 0, seen.text
        wanted = LONG if words[:2] in (("jobs", "list"), ("jobs", "show")) or words[0] == "audit" else run_id
        assert wanted in seen.text, f"{words} at {columns}:\n{seen.text}"
    assert failed_run in on_a_terminal(itinerary.env, "runs", "list", "--state", "failed", columns=columns).text


def test_a_list_is_written_for_spreadsheets_and_for_wide_terminals(itinerary: Itinerary, failed_run: str) -> None:
    itinerary.done("jobs", "add", "formula", "t", "--every", "1h", "--title", "=HYPERLINK(1)")
    (line,) = csv.DictReader(itinerary.done("jobs", "list", "-q", "formula", "--output", "csv").splitlines())
    assert (line["job"], line["title"]) == ("formula", "'=HYPERLINK(1)")
    (failed,) = csv.DictReader(itinerary.done("runs", "list", "--state", "failed", "-o", "csv").splitlines())
    assert (failed["run"], failed["reason"]) == (failed_run, "ValueError: no such")
    assert json.loads(itinerary.done("jobs", "list", "-o", "json")) == json.loads(
        itinerary.done("jobs", "list", "--json")
    )
    narrow = on_a_terminal(itinerary.env, "jobs", "list", "-q", "formula", columns=40)
    wide = on_a_terminal(itinerary.env, "jobs", "list", "-q", "formula", "-o", "wide", columns=40)
    assert "title" not in narrow.text
    assert "=HYPERLINK(1)" in wide.text.splitlines()[1]
    for words in (("queues", "list"), ("limits", "list"), ("freezes", "list"), ("calendars", "list"), ("bulk", "list")):
        assert "," in itinerary.done(*words, "--output", "csv").splitlines()[0]


def test_failures_are_grouped_by_cause(itinerary: Itinerary, failed_run: str) -> None:
    (group,) = csv.DictReader(itinerary.done("failures", "-o", "csv").splitlines())
    assert (group["count"], group["cause"], group["newest run"]) == ("1", "ValueError: no such", failed_run)
    assert json.loads(itinerary.done("failures", "--json"))[0]["newest"]["run_id"] == failed_run
    assert "nothing failed since" in itinerary("failures", "--within", "1s").stderr


def test_top_shows_the_installation_even_where_nobody_leads(itinerary: Itinerary, failed_run: str) -> None:
    shown = itinerary.done("top")
    for text in ("nobody leads", "last hour: ", "queue ", "worker ", "runs now"):
        assert text in shown


def test_a_delete_asks_on_a_terminal_alone(itinerary: Itinerary) -> None:
    itinerary.done("jobs", "add", "short.lived", "t", "--every", "1h")
    refused = on_a_terminal(itinerary.env, "jobs", "delete", "short.lived", typed="n\n")
    assert "Delete short.lived (task t)?" in refused.text
    assert refused.status != 0
    assert "short.lived" in itinerary.done("jobs", "list")
    deleted = on_a_terminal(itinerary.env, "jobs", "delete", "short.lived", typed="y\n")
    assert (deleted.status, "short.lived deleted" in deleted.text) == (0, True)
    for words in (("--yes",), ()):  # () with standard input that is no terminal
        itinerary.done("jobs", "add", "short.lived", "t", "--every", "1h")
        assert itinerary.done("jobs", "delete", "short.lived", *words) == "short.lived deleted\n"
    itinerary.done("jobs", "add", "short.lived", "t", "--every", "1h")
    assert on_a_terminal(itinerary.env, "jobs", "delete", "short.lived", "--yes").status == 0


def test_one_command_acts_on_several_and_tells_what_was_refused(itinerary: Itinerary) -> None:
    for name in ("s.one", "s.two"):
        itinerary.done("jobs", "add", name, "t", "--every", "1h")
    assert itinerary.done("jobs", "pause", "s.one", "s.two", "--reason", "r").count("paused, version 2") == 2
    mixed = itinerary("jobs", "resume", "s.one", "s.nope", "s.two")
    assert mixed.stdout.count("resumed") == 2
    assert mixed.stderr.splitlines() == [
        "itinerary: s.nope: no job s.nope (HTTP 404)", "itinerary: 1 of 3 were refused; the others are done"
    ]  # fmt: skip
    assert mixed.returncode == 1
    run_ids = [itinerary.done("jobs", "trigger", name).split()[0] for name in ("s.one", "s.two")]
    assert itinerary.done("runs", "cancel", *run_ids).count("is cancelled") == 2
    assert "is cancelled" in itinerary.done("runs", "cancel", run_ids[0])
    again = json.loads(itinerary.done("runs", "retry", *run_ids, "--json"))["items"]
    assert [run["retry_of"] for run in again] == run_ids


def test_every_field_of_a_job_has_an_option(itinerary: Itinerary) -> None:
    itinerary.done(
        "jobs", "add", "full", "t", "--cron", "0 2 1 * mon", "--tz", "Europe/Berlin", "--day-match", "and",
        "--description", "words", "--start", "2999-01-01T00:00:00Z", "--end", "2999-02-01T00:00:00Z", "--jitter", "30s",
        "--misfire", "fire_all", "--grace", "1m", "--max-catch-up", "7", "--attempts", "3", "--retry-initial", "2s",
        "--retry-factor", "1.5", "--retry-max", "1m",
    )  # fmt: skip
    job = json.loads(itinerary.done("jobs", "show", "full", "--json"))
    assert (job["schedule"]["day_match"], job["schedule"]["timezone"]) == ("and", "Europe/Berlin")
    assert (job["description"], job["jitter"], job["start_at"][:10], job["end_at"][:10]) == (
        "words", "30s", "2999-01-01", "2999-02-01",
    )  # fmt: skip
    assert job["misfire"] == {"policy": "fire_all", "grace": "1m", "max_catch_up": 7}
    assert job["retry"] == {"max_attempts": 3, "initial": "2s", "factor": 1.5, "max": "1m", "jitter": True}
    itinerary.done("jobs", "edit", "full", "--grace", "2m")
    misfire = json.loads(itinerary.done("jobs", "show", "full", "--json"))["misfire"]
    assert misfire == {"policy": "fire_all", "grace": "2m", "max_catch_up": 7}
    itinerary.done("jobs", "edit", "full", "--cron", "0 15 10 ? * 6L", "--dialect", "quartz")
    assert "0 15 10 ? * 6L (quartz) Europe/Berlin" in itinerary.done("jobs", "list")
    itinerary.done("jobs", "edit", "full", "--cron", "15 10 * * 5L", "--dialect", "")
    schedule = json.loads(itinerary.done("jobs", "show", "full", "--json"))["schedule"]
    assert (schedule["expr"], "dialect" in schedule) == ("15 10 * * 5L", False)


def test_a_queue_is_paused_shown_and_resumed(itinerary: Itinerary, failed_run: str) -> None:
    assert itinerary("queues", "pause", "mail").returncode == 2, "a pause says why"
    refused = itinerary("queues", "pause", "mail", "--reason", "x", "--until", "2001-01-01T00:00")
    assert (refused.returncode, "in the future" in refused.stderr) == (1, True)
    refused = itinerary("queues", "pause", "mail", "--reason", "x", "--until", "soon")
    assert "--until: 'soon' is not accepted; give a time such as" in refused.stderr
    assert "or how long from now, such as 5m" in refused.stderr
    itinerary.done("queues", "pause", "mail", "--reason", "for a while", "--until", "5m")
    paused = itinerary.done("queues", "pause", "mail", "--reason", "the server is away", "--until", "2999-01-01T00:00")
    for text in ("paused by     loopback", "reason        the server is away", "until         2999-01-01 00:00"):
        assert text in paused
    itinerary.done("queues", "describe", "mail", "to customers")
    head, default, mail = itinerary.done("queues", "list").splitlines()
    assert head.split() == ["queue", "state", "waiting", "pending", "running", "workers", "description"]
    assert default.split()[:2] == ["default", "active"]
    assert mail.split() == ["mail", "paused", "0", "0", "0", "-", "to", "customers"]
    assert json.loads(itinerary.done("queues", "show", "mail", "--json"))["pause_reason"] == "the server is away"
    assert "active" in itinerary.done("queues", "resume", "mail")
    bounded = itinerary.done("queues", "set", "mail", "--concurrency", "20", "--rate", "90/10s", "--fair")
    for text in ("bounds       20 at a time, 90 in 10s", "turns        fair", "description  to customers"):
        assert text in bounded
    assert "bounds       90 in 10s" in itinerary.done("queues", "set", "mail", "--concurrency", "none")


def test_limits_are_set_shown_and_deleted(itinerary: Itinerary, failed_run: str) -> None:
    assert "there are no limits yet; add: itinerary limits set NAME" in itinerary("limits", "list").stderr
    itinerary.done("limits", "set", "stripe", "--rate", "90/10s")
    words = (
        "--concurrency",
        "2",
        "--per-key",
        "--override",
        "a=b=20,5/1m",
        "--override",
        "x=1",
        "--description",
        "of each",
    )
    shown = itinerary.done("limits", "set", "tenant", *words)
    for text in ("bounds       2 at a time", "counted      per key, 2 overrides", "a=b: 20 at a time, 5 in 1m"):
        assert text in shown
    changed = json.loads(itinerary.done("limits", "set", "tenant", "--override", "x=none", "--json"))
    assert changed["overrides"] == {"a=b": {"concurrency": 20, "rate": {"count": 5, "per": "1m"}}}
    assert json.loads(itinerary.done("limits", "show", "tenant", "--json")) == changed
    head, stripe, tenant = itinerary.done("limits", "list").splitlines()
    assert head.split() == ["limit", "bounds", "keys", "in", "flight", "waiting", "description"]
    assert stripe.split() == ["stripe", "90", "in", "10s", "together", "-", "-"]
    assert tenant.startswith("tenant  2 at a time  per key, 1 override")
    assert [limit["name"] for limit in json.loads(itinerary.done("limits", "list", "--json"))] == ["stripe", "tenant"]
    assert "stripe deleted" in itinerary.done("limits", "delete", "stripe")
    words = ("--concurrency", "3", "--per-key", "--override", "x=none", "--json")
    fresh = json.loads(itinerary.done("limits", "set", "fresh", *words))
    assert fresh["overrides"] == {}, "it has none that would have to go"
    for words, status, told in (
        (("show", "stripe"), 1, "no limit stripe"), (("set", "new"), 1, "give concurrency, rate or both"),
        (("set", "new", "--rate", "90"), 2, "--rate: '90' is not accepted; give COUNT/TIME"),
        (("set", "new", "--concurrency", "-1"), 2, "--concurrency: '-1' is not accepted"),
        (("set", "new", "--concurrency", "0"), 1, "concurrency: 0 is not accepted; give a whole number from 1"),
        (("set", "new", "--override", "x"), 2, "--override: 'x' is not accepted; give KEY=5"),
        (("set", "new", "--override", "x=1,2"), 2, "give one number, one rate, or one of each"),
    ):  # fmt: skip
        refused = itinerary("limits", *words)
        assert (refused.returncode, told in refused.stderr) == (status, True), refused.stderr


def test_calendars_are_set_listed_shown_and_deleted(itinerary: Itinerary, failed_run: str) -> None:
    assert "there are no calendars yet; add: itinerary calendars set" in itinerary("calendars", "list").stderr
    rules = ("--rule", "2026-12-24..2027-01-02 Closed", "--rule", "weekly sun 02:00-04:00 Maintenance")
    shown = itinerary.done("calendars", "set", "plant", *rules, "--timezone", "Europe/Berlin")
    assert "2026-12-24..2027-01-02 Closed" in shown
    changed = itinerary.done("calendars", "set", "plant", "--description", "the plant", "--json")
    calendar = json.loads(changed)
    assert (len(calendar["rules"]), calendar["timezone"], calendar["description"]) == (2, "Europe/Berlin", "the plant")
    head, row = itinerary.done("calendars", "list").splitlines()
    assert head.split() == ["calendar", "zone", "rules", "version", "description"]
    assert row.split()[:4] == ["plant", "Europe/Berlin", "2", "1"]
    days = itinerary.done("calendars", "show", "plant", "--year", "2026")
    assert "2026-12-27  all day" in days
    assert "2026-12-20  in part" in days
    for words, status, told in (
        (("show", "other"), 1, "no calendar other"), (("set", "other", "--rule", "someday"), 2, "--rule 1: 'someday'"),
        (("set", "other", "--rule", "2026-02-30"), 1, "rules.0.date"), (("set", "other"), 1, "rules"),
        (("set", "other", "--ics", "away.ics"), 2, "--ics: 'away.ics' is not accepted; give a readable file"),
    ):  # fmt: skip
        refused = itinerary("calendars", *words)
        assert (refused.returncode, told in refused.stderr) == (status, True), refused.stderr
    closed = ("--calendars", '{"exclude": ["plant"]}')
    itinerary.done("jobs", "add", "closed", "t", "--at", "2999-07-01T12:00:00Z", *closed)
    assert json.loads(itinerary.done("jobs", "show", "closed", "--json"))["calendars"]["exclude"] == ["plant"]
    assert "named by closed" in itinerary("calendars", "delete", "plant").stderr
    itinerary.done("jobs", "edit", "closed", "--calendars", "")
    assert json.loads(itinerary.done("jobs", "show", "closed", "--json"))["calendars"] is None
    itinerary.done("jobs", "delete", "closed", "--yes")
    assert "plant deleted" in itinerary.done("calendars", "delete", "plant")


def test_a_file_of_jobs_brings_its_calendars(itinerary: Itinerary, failed_run: str, tmp_path: Path) -> None:
    text = """
        source = "plant"
        [calendars.holidays]
        timezone = "Europe/Berlin"
        rules = ["2026-05-01 Labour Day", {date = "2026-12-25"}]
        [[jobs]]
        job_id = "plant.close"
        task = "billing.close"
        schedule = "0 2 * * *"
        calendars = {exclude = ["holidays"]}
    """
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    checked = itinerary("jobs", "apply", str(file), "--check")
    assert (checked.returncode, "calendar holidays: added" in checked.stderr) == (1, True), checked.stderr
    made = itinerary("jobs", "apply", str(file), "--yes")
    assert (made.returncode, "applied" in made.stdout + made.stderr) == (0, True), made.stderr
    assert json.loads(itinerary.done("calendars", "show", "holidays", "--json"))["version"] == 1
    again = itinerary("jobs", "apply", str(file), "--check")
    assert (again.returncode, "calendar" in again.stderr) == (0, False), again.stderr
    file.write_text(text.replace("2026-12-25", "2026-12-26"))
    changed = itinerary("jobs", "apply", str(file), "--yes")
    assert "calendar holidays: changed" in changed.stderr
    file.write_text(text.replace("2026-05-01 Labour Day", "someday").replace('"holidays"]', '"x y"]'))
    refused = itinerary("jobs", "apply", str(file), "--check").stderr
    assert "calendar holidays.rules.0: 'someday'" in refused
    assert "job plant.close.calendars.exclude.0" in refused
    itinerary.done("jobs", "delete", "plant.close", "--yes")
    itinerary.done("calendars", "delete", "holidays")


def test_freezes_are_started_listed_shown_and_ended(itinerary: Itinerary, failed_run: str) -> None:
    assert "there are no freezes yet; add: itinerary freezes start" in itinerary("freezes", "list").stderr
    shown = itinerary.done(
        "freezes", "start", "--queue", "ice", "--queue", "snow", "--reason", "a deploy", "--skip", "--until", "2h"
    )
    assert "queues ice, snow" in shown
    (freeze,) = json.loads(itinerary.done("freezes", "list", "--status", "active", "--json"))
    number = str(freeze["freeze_id"])
    head, row = itinerary.done("freezes", "list").splitlines()
    assert head.split() == ["freeze", "status", "scope", "during", "from", "until", "reason"]
    assert row.split()[:3] == [number, "active", "queues"]
    assert "active" in itinerary.done("freezes", "show", number)
    assert "past" in itinerary.done("freezes", "end", number)
    for words, status, told in (
        (("show", "4711"), 1, "no freeze 4711"), (("start", "--reason", "x"), 2, "give --all, --queue, --tag or --job"),
        (("start", "--all", "--reason", "x", "--until", "2020-01-01T00:00Z"), 1, "give a time in the future"),
    ):  # fmt: skip
        refused = itinerary("freezes", *words)
        assert (refused.returncode, told in refused.stderr) == (status, True), refused.stderr


def test_views_are_saved_listed_and_deleted(itinerary: Itinerary) -> None:
    saved = itinerary.done("views", "save", "failed today", "/runs?state=failed&since=today&cursor=x")
    assert saved == "failed today leads to /runs?state=failed&since=today\n"
    (view,) = json.loads(itinerary.done("views", "list", "--json"))
    assert (view["name"], view["personal"]) == ("failed today", False)
    assert "failed today" in itinerary.done("views", "list")
    refused = itinerary("views", "save", "x", "https://example.com/runs")
    assert (refused.returncode, "address" in refused.stderr) == (1, True)
    itinerary.done("views", "delete", "failed today")
    assert "there are no views yet" in itinerary("views", "list").stderr


def test_a_run_that_is_over_cannot_be_cancelled(itinerary: Itinerary, failed_run: str) -> None:
    ended = itinerary("runs", "cancel", failed_run)
    said = f"itinerary: run {failed_run} is failed: it cannot be cancelled any more\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", said)
    waits = itinerary.done("enqueue", "t", "--at", "2999-01-01T00:00:00Z").split()[0]
    both = itinerary("runs", "cancel", failed_run, waits)
    assert (both.returncode, both.stdout) == (1, f"{waits} is cancelled, cancel requested\n")
    assert "1 of 2 were refused" in both.stderr
