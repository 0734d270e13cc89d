"""The command line against a real API process: what it prints, and how it ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from itinerary.protocol.instants import HOUR, MILLISECOND, SECOND, parse_instant
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.ports.leases import LeaseView
from scheduler_service.sql.database import Database
from scheduler_service.sql.lease import SqlLeaseStore
from tests.support.answering_leader import AnsweringLeader
from tests.support.command_line import COMMAND, Itinerary
from tests.support.processes import REPOSITORY, Child, free_port, project_env, wait_until
from tests.support.stub_server import Answer, StubServer

pytestmark = pytest.mark.slow  # whole processes, or real servers for long


@pytest.mark.slow
def test_a_job_is_made_shown_changed_paused_triggered_and_deleted(itinerary: Itinerary) -> None:
    made = itinerary.done(
        "jobs", "add", "a.job", "--task", "itinerary.echo", "--cron", "0 2 * * *", "--timezone", "Europe/Berlin",
        "--kwargs", '{"a": 1}', "--tag", "x", "--attempts", "3",
    )  # fmt: skip
    assert made.startswith("a.job created, version 1; next run 2")
    job = json.loads(itinerary.done("jobs", "show", "a.job", "--json"))
    assert (job["kwargs"], job["tags"], job["retry"]["max_attempts"]) == ({"a": 1}, ["x"], 3)
    assert "02:00" in itinerary.done("jobs", "preview", "a.job", "--count", "2")
    assert "version 2" in itinerary.done("jobs", "edit", "a.job", "--title", "Mine")
    paused = itinerary.done("jobs", "pause", "a.job", "--reason", "audit")
    assert paused == "a.job paused, version 3; no run until it is resumed\n"
    assert "audit" in itinerary.done("jobs", "list")
    itinerary.done("jobs", "resume", "a.job")
    run_id = itinerary.done("jobs", "trigger", "a.job").split()[0]
    assert run_id in itinerary.done("runs", "list", "--job", "a.job")
    assert "itinerary.echo" in itinerary.done("runs", "show", run_id)
    assert "cancelled" in itinerary.done("runs", "cancel", run_id)
    assert f"runs {run_id} again" in itinerary.done("runs", "retry", run_id)
    itinerary.done("jobs", "delete", "a.job")
    assert json.loads(itinerary.done("jobs", "list", "-q", "a.job", "--json")) == {"items": [], "next_cursor": None}


@pytest.mark.slow
def test_a_backfill_is_told_before_it_is_made_and_makes_nothing_twice(itinerary: Itinerary) -> None:
    itinerary.done("jobs", "add", "late.job", "t", "--cron", "0 2 * * *")
    window = ("jobs", "backfill", "late.job", "--from", "2026-01-01T01:00:00", "--to", "2026-01-13T03:00:00")
    told = itinerary.done(*window, "--dry-run").splitlines()
    assert told[0].startswith("12 occurrences of late.job from 2026-01-01 01:00:00 CET (")
    assert told[1] == "12 runs would be created, to run one after the other"
    assert told[2].startswith("  2026-01-01 03:00:00 CET (")
    assert told[12] == "  and 2 more"
    assert told[13].startswith("warning: occurrences of the job that fall due meanwhile are skipped")
    made = itinerary.done(*window, "--overlap", "allow").splitlines()
    assert made[1] == "12 runs created, to run all at once"
    assert itinerary.done(*window).splitlines()[1:] == ["left out: 12 waiting already", "there is nothing to run"]
    assert json.loads(itinerary.done(*window, "--json"))["left_out"]["planned"] == 12
    refused = itinerary("jobs", "backfill", "late.job", "--from", "2026-01-01", "--to", "2999-01-01")
    assert (refused.returncode, "to: " in refused.stderr) == (1, True), refused.stderr


@pytest.mark.slow
def test_a_job_can_come_from_a_file_or_standard_input(itinerary: Itinerary, tmp_path: Path) -> None:
    schedule = {"kind": "cron", "expr": "0 0 1 1 * 0 2020"}
    body = {"task": "t", "schedule": schedule, "title": "from a file", "tags": ["of-a-file"]}
    (tmp_path / "job.json").write_text(json.dumps(body))
    told = itinerary.done("jobs", "add", "f", "--file", str(tmp_path / "job.json"))
    assert "warning: there will be no run: all its times are past" in told
    assert itinerary("jobs", "add", "g", "-f", "-", stdin=json.dumps(body)).returncode == 0
    jobs = json.loads(itinerary.done("jobs", "list", "--tag", "of-a-file", "--json"))["items"]
    assert [(job["job_id"], job["title"]) for job in jobs] == [("f", "from a file"), ("g", "from a file")]


def test_enqueueing_with_a_key_twice_is_one_run_and_times_are_meant_in_the_readers_zone(itinerary: Itinerary) -> None:
    itinerary.done("limits", "set", "api", "--concurrency", "1")
    itinerary.done("limits", "set", "tenant", "--rate", "10/1m", "--per-key")
    words = (
        "enqueue", "itinerary.echo", "--at", "2999-07-01T12:00:00", "--attempts", "3", "--key", "k", "--json",
        "--limit", "api", "--limit", "tenant=a=b",
    )  # fmt: skip
    first, again = (json.loads(itinerary.done(*words)) for _ in range(2))
    assert first == again
    assert itinerary(*words, "--attempts", "4").returncode == 1  # the same key for another request
    assert first["due_at"] == "2999-07-01T10:00:00Z"
    assert "2999-07-01 12:00:00" in itinerary.done("runs", "list")
    assert (first["limits"], first["fair_key"]) == (["api", {"name": "tenant", "key": "a=b"}], None)
    limit = {"name": "tenant", "key": {"from": "kwargs.tenant"}}
    itinerary.done(
        "jobs", "add", "once", "t", "--at", "2999-07-01T12:00:00", "--timezone", "America/New_York",
        "--limit", json.dumps(limit), "--kwargs", '{"tenant": "acme"}', "--fair-key", json.dumps(limit["key"]),
    )  # fmt: skip
    kept = json.loads(itinerary.done("jobs", "show", "once", "--json"))
    assert (kept["limits"], kept["fair_key"]) == ([limit], limit["key"])
    run = json.loads(itinerary.done("jobs", "trigger", "once", "--limit", "api", "--fair-key", "mine", "--json"))
    assert (run["limits"], run["fair_key"]) == (["api"], "mine")
    assert json.loads(itinerary.done("jobs", "show", "once", "--json"))["schedule"]["at"] == "2999-07-01T16:00:00Z"
    itinerary.done("jobs", "edit", "once", "--limit", "")
    assert json.loads(itinerary.done("jobs", "show", "once", "--json"))["limits"] == []


@pytest.mark.parametrize(
    ("run", "status", "said"),
    [
        ({"state": "completed", "result": {"a": 1}}, 0, 'r completed: {"a": 1}\n'),
        ({"state": "completed"}, 0, "r completed\n"),
        ({"state": "failed", "error": {"type": "E", "message": "no"}}, 1, "r failed: no\n"),
    ],
)
def test_whoever_waits_for_a_run_is_told_what_it_gave(
    itinerary: Itinerary, run: dict[str, Any], status: int, said: str
) -> None:
    known = {"items": [], "complete": False}  # it answers every call alike
    whole = {"run_id": "r", "result": None, "error": None, "reason": None, **run, **known}
    with StubServer([Answer(200, whole)]) as stub:
        ended = itinerary("enqueue", "t", "--wait", ITINERARY_API_URL=stub.url)
    assert (ended.returncode, ended.stdout) == (status, said)


def test_the_status_is_told_to_people_and_to_programs(itinerary: Itinerary) -> None:
    database = Database(f"sqlite:///{itinerary.env['ITINERARY_DATA_DIR']}/itinerary.db", pool_size=1)
    leases = SqlLeaseStore(database)
    lease = leases.acquire(0, "test-holder", HOUR)
    assert lease is not None
    with AnsweringLeader(itinerary.env["ITINERARY_REDIS_URL"], lease.term) as leading:
        seen = json.loads(itinerary.done("status", "--json"))
        text = itinerary.done("status")
        silent = itinerary("tasks")
        leading.tasks = {"tasks": ["shop.count", "shop.sum"], "complete": False}
        known, as_json = itinerary("tasks"), json.loads(itinerary.done("tasks", "--json"))
        unsure = itinerary("jobs", "add", "unsure", "shop.nosuch", "--every", "1h").stderr
        leading.tasks = {"tasks": ["shop.count", "shop.sum"], "complete": True}
        unknown = itinerary("jobs", "edit", "unsure", "--task", "shop.noone").stderr
        triggered = itinerary("jobs", "trigger", "unsure").stderr
        enqueued = itinerary("enqueue", "shop.noone", "--at", "2999-01-01T00:00:00Z").stderr
        right = itinerary("jobs", "edit", "unsure", "--task", "shop.sum").stderr
        right += itinerary("enqueue", "shop.sum", "--at", "2999-01-01T00:00:00Z").stderr
        leases.mark_standby(0, lease.term, "2019c on another")
        warned = itinerary("status")
        ill = itinerary("doctor").stdout
    leases.resign(lease)
    database.close()
    assert (unsure, right) == ("", "")
    assert unknown.startswith("warning: no living worker knows the task shop.noone")
    assert (triggered, enqueued) == (unknown, unknown)
    assert (seen["leader"], seen["workers"]) == ("test-holder", 1)
    assert (seen["zone_rules"], seen["zone_rules_api"], seen["zone_rules_standby"]) == (
        installed_rules().version, installed_rules().version, None,
    )  # fmt: skip
    assert "a standby has zone rules 2019c on another" in warned.stderr
    assert re.search(r"^FAIL +zone rules .*2019c on another", ill, re.MULTILINE)
    assert re.search(r"^leader +test-holder, last seen (less than a second|\d+ (s|min)) ago$", text, re.MULTILINE)
    assert "\x1b" not in text
    assert (silent.stdout, silent.stderr) == ("", "no living worker has said which tasks it knows\n")
    assert (known.stdout, known.stderr) == (
        "task\nshop.count\nshop.sum\n", "a worker may know more: it has not said all its tasks\n",
    )  # fmt: skip
    assert as_json == {"items": ["shop.count", "shop.sum"], "complete": False}


def test_the_status_says_that_nobody_leads_or_that_the_leader_is_silent(itinerary: Itinerary) -> None:
    database = Database(f"sqlite:///{itinerary.env['ITINERARY_DATA_DIR']}/itinerary.db", pool_size=1)
    leases = SqlLeaseStore(database)
    lease = leases.acquire(0, "killed-holder", HOUR)  # killed with -9: its lease is still valid, and nobody answers
    assert lease is not None
    silent = itinerary("status")
    leases.resign(lease)
    lapsed = leases.acquire(0, "frozen-holder", MILLISECOND)
    assert lapsed is not None
    wait_until(lambda: not seen_by(leases).live, what="the end of the lease")
    nobody, as_json = itinerary("status"), itinerary("status", "--json")
    database.close()
    assert silent.returncode == nobody.returncode == as_json.returncode == 1
    assert re.search(
        r"^leader +killed-holder holds the lease, last seen .* ago, but does not answer: it has just taken over, ",
        silent.stdout,
        re.M,
    )
    assert re.search(r"^leader +nobody leads; the last was frozen-holder, last seen .* ago$", nobody.stdout, re.M)
    seen = json.loads(as_json.stdout)
    assert (seen["leader"], seen["last_leader"], seen["leader_answers"]) == (None, "frozen-holder", None)
    assert parse_instant(seen["last_heard_at"]) <= lapsed.now + SECOND


def seen_by(leases: SqlLeaseStore) -> LeaseView:
    seen = leases.peek(0)
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("jobs", "show", "nobody"), 1, "no job nobody"),
        (("runs", "retry", "nobody"), 1, "no run nobody"),
        (("jobs", "add", "x", "t", "--cron", "61 * * * *"), 1, "schedule.expr"),
        (("jobs", "add"), 2, "job_id"),
        (("jobs", "add", "x", "--cron", "a", "--every", "b"), 2, "give one of them"),
        (("enqueue", "t", "--kwargs", "{"), 2, "--kwargs"),
        (("nope",), 2, "nope"),
        (("runs", "list", "--limit", "many"), 2, "--limit"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_the_status_says_whose_it_is(
    itinerary: Itinerary, words: tuple[str, ...], status: int, said: str
) -> None:
    ended = itinerary(*words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert ended.stderr.startswith("itinerary: ")
    assert ended.stderr.count("\n") == 1
    assert said in ended.stderr


@pytest.mark.parametrize("command", ["migrate", "up"])
def test_a_place_where_nothing_can_be_stored_is_said_in_one_line(
    itinerary: Itinerary, command: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    ended = itinerary(command, ITINERARY_DATA_DIR=str(tmp_path / "file" / "sub"))
    assert ended.returncode == 1
    assert ended.stderr == (
        f"itinerary: {tmp_path}/file/sub: Not a directory; a part of this path is a file; name another place\n"
    )


def test_a_port_in_use_is_said_in_one_line(itinerary: Itinerary) -> None:
    ended = itinerary("api", ITINERARY_LOG_LEVEL="error")
    assert ended.returncode == 1
    assert f"itinerary: port {itinerary.env['ITINERARY_API_PORT']} of 127.0.0.1" in ended.stderr


@pytest.mark.slow
def test_doctor_names_what_is_to_be_mended(itinerary: Itinerary, tmp_path: Path) -> None:
    well = {line.split()[1]: line.split()[0] for line in itinerary("doctor").stdout.splitlines()}
    assert (well["settings"], well["database"], well["leader"], well["workers"]) == ("ok", "ok", "FAIL", "--")
    assert well["zone"] == "ok"
    new = itinerary("doctor", ITINERARY_DATABASE_URL=f"sqlite:///{tmp_path}/new.db")
    assert new.returncode == 1
    assert "itinerary migrate" in new.stdout
    assert not (tmp_path / "new.db").exists()
    away = itinerary("doctor", ITINERARY_REDIS_URL=f"redis://:secret@127.0.0.1:{free_port()}/0")
    assert [line.split()[1] for line in away.stdout.splitlines() if line.startswith("FAIL")] == ["redis"]
    assert "FAIL  redis " in away.stdout
    assert "ITINERARY_REDIS_URL" in away.stdout
    for name in ("redis data", "leader"):
        assert re.search(rf"^--    {name} +skipped: see redis$", away.stdout, re.MULTILINE)
    assert "Redis's own configuration" not in away.stdout
    assert "secret" not in away.stdout + away.stderr
    broker = f"redis://:secret@127.0.0.1:{free_port()}/0"
    apart = itinerary("doctor", ITINERARY_BROKER_URL=broker)
    assert "FAIL  broker " in apart.stdout
    assert "secret" not in apart.stdout + apart.stderr
    by_name = itinerary.env["ITINERARY_REDIS_URL"].replace("127.0.0.1", "localhost")
    assert "ok    broker " in itinerary("doctor", ITINERARY_BROKER_URL=by_name).stdout


@pytest.mark.slow
def test_doctor_names_the_queues_that_nobody_listens_on(itinerary: Itinerary) -> None:
    for name, queue in (("q.one", "nobody"), ("q.two", "nobody"), ("q.three", "default"), ("q.four", "paused")):
        itinerary.done("jobs", "add", name, "t", "--every", "1h", "--queue", queue)
    itinerary.done("jobs", "pause", "q.four")
    database = Database(f"sqlite:///{itinerary.env['ITINERARY_DATA_DIR']}/itinerary.db", pool_size=1)
    leases = SqlLeaseStore(database)
    lease = leases.acquire(0, "test-holder", HOUR)
    assert lease is not None
    with AnsweringLeader(itinerary.env["ITINERARY_REDIS_URL"], lease.term):
        seen = itinerary("doctor").stdout
    leases.resign(lease)
    database.close()
    assert re.search(r"^FAIL  queues      no living worker listens on nobody \(2 jobs\); start", seen, re.MULTILINE)


@pytest.mark.slow
def test_migrate_makes_the_schema_and_may_be_run_again(empty_sqlite_url: str, tmp_path: Path) -> None:
    itinerary = Itinerary(project_env(ITINERARY_DATABASE_URL=empty_sqlite_url, ITINERARY_DATA_DIR=str(tmp_path)))
    assert "at version 0006" in itinerary.done("migrate", "--to", "0006")
    for _ in range(2):
        assert "up to date" in itinerary.done("migrate")
    assert "at version 0006" in itinerary.done("migrate", "--to", "0006")
    refused = itinerary("migrate", "--to", "base")
    assert (refused.returncode, "would drop every table" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        "api",
        *(pytest.param(c, marks=pytest.mark.slow) for c in ("leader", "worker", "flower", "migrate", "doctor", "up")),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_starts(command: str) -> None:
    ended = Itinerary(project_env(ITINERARY_LOP_INTERVAL="1s"))(command)
    assert ended.returncode == 2
    assert "ITINERARY_LOP_INTERVAL" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_without_tokens_the_api_does_not_start_on_an_open_address(sqlite_url: str) -> None:
    ended = Itinerary(project_env(ITINERARY_DATABASE_URL=sqlite_url))("api", "--host", "0.0.0.0")
    assert ended.returncode == 2
    assert "ITINERARY_API_TOKENS" in ended.stderr


def test_without_an_api_the_command_line_says_where_it_looked(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    ended = Itinerary(project_env(ITINERARY_API_URL=address, ITINERARY_DATA_DIR=str(tmp_path)))("jobs", "list")
    assert ended.returncode == 1
    assert address in ended.stderr
    assert "check ITINERARY_API_URL" in ended.stderr
    assert ended.stderr.count("\n") == 1
    unnamed = Itinerary(project_env(ITINERARY_API_PORT=str(free_port()), ITINERARY_DATA_DIR=str(tmp_path)))("status")
    assert (unnamed.returncode, unnamed.stdout) == (1, "")
    assert f"start it with `itinerary up --data-dir {tmp_path}`" in unnamed.stderr


@pytest.mark.parametrize("words", [("jobs", "list", "--json"), ("jobs", "list"), ("api", "--openapi"), ("status",)])
def test_whoever_closes_the_pipe_is_told_nothing_more(itinerary: Itinerary, words: tuple[str, ...]) -> None:
    itinerary("jobs", "add", "piped", "t", "--every", "1h")  # by each of these tests: the first makes it
    reads, writes = os.pipe()
    os.close(reads)
    buffered = {name: value for name, value in itinerary.env.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(
        [*COMMAND, *words], env=buffered, cwd=REPOSITORY, stdout=writes, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writes)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_it_starts_fast_and_imports_no_more_than_it_needs() -> None:
    heavy = ("sqlalchemy", "celery", "numpy", "fastapi", "redis", "pydantic_settings")
    script = f"import scheduler_service.cli.program, sys; print([m for m in {heavy} if m in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", script], env=project_env(), cwd=REPOSITORY, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert ended.stdout.strip() == "[]"


@pytest.mark.slow
def test_watching_a_run_tells_each_change_and_ends_with_it(itinerary: Itinerary) -> None:
    run_id = itinerary.done("enqueue", "t", "--in", "1h").split()[0]
    with Child([*COMMAND, "runs", "watch", run_id, "--every", "0.1"], env=itinerary.env) as watching:
        watching.wait_for_line(f"scheduled {run_id}")
        itinerary.done("runs", "cancel", run_id)
        assert watching.wait() == 1
        assert f"cancelled {run_id}" in watching.output
