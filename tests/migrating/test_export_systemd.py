"""Jobs as systemd's timers and services: read again as they were, judged by systemd itself, or refused by name."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from itinerary.protocol.instants import DAY, parse_instant
from scheduler_service.core.model import Job
from scheduler_service.core.schedules.schedule import occurrences
from scheduler_service.migrating.converted import checked
from scheduler_service.migrating.export_systemd import export_systemd, units_in_text
from scheduler_service.migrating.exported import jobs_of
from scheduler_service.migrating.systemd_timers import read_timers
from scheduler_service.migrating.systemd_units import units_of

NOW = parse_instant("2026-11-27T10:00:00Z")
COMMAND = {"command": "backup"}
BERLIN = {"kind": "cron", "timezone": "Europe/Berlin"}
FIRST = {"dst_gap": "skip", "dst_fold": "first"}


def job(job_id: str, schedule: Any, **fields: Any) -> Job:
    spec = {"kind": "cron", "expr": schedule} if isinstance(schedule, str) else schedule
    return jobs_of([{"job_id": job_id, "task": "ops.run", "schedule": spec, "kwargs": COMMAND, **fields}], NOW)[0]


JOBS = [
    job("plain", "0 3 * * mon-fri", title="Nightly 100 %", misfire={"policy": "skip"}, jitter="5m", timeout="2m"),
    job("quoted", "0 3 * * *", kwargs={
        "command": "printf '%s\\n' \"$HOME\" \\\\x 50% ; echo it's; true || false", "user": "shop",
        "env": {"A": 'two "words" \\ 5% $B'},
    }),
    job("fractions", "0 3 * * *", jitter="250ms", timeout="1500ms"),
    job("hourly", {"kind": "hourly", "minute": 7}),
    job("seconds", "* * * * * */20"),
    job("calendar", {"kind": "calendar", "unit": "day", "every": 1, "at": ["03:00", "15:00"]}),
    job("quarters", {"kind": "interval", "every": "15m"}),
    job("from-the-end", "0 3 L,L-2 * *"),
    job("thirteenth", {"kind": "cron", "expr": "0 3 13 * fri", "day_match": "and"}),
    job("of-quartz", {"kind": "cron", "expr": "20 15 10 L-1 * ? 2026-2028", "dialect": "quartz"}),
    job("of-spring", {"kind": "cron", "expr": "0 0 3 13 * FRI-SUN", "dialect": "spring"}),
    job("years", "5 4 1 1 * 30 2027,2030-2031"),
    job("once", {"kind": "once", "at": "2027-01-01T00:00:07Z"}),
    job("wall", {**BERLIN, "expr": "30 2 * * *", **FIRST}),
]  # fmt: skip


def times(one: Job) -> list[int]:
    return occurrences(one.schedule, NOW, NOW + 400 * DAY if one.job_id != "seconds" else NOW + DAY)


def test_what_is_exported_comes_again_the_same() -> None:
    text, refused = export_systemd(JOBS, None, NOW, nearest=False)
    assert refused == []
    read = {each.name: each for each in read_timers(units_of(text), task="ops.run", timezone="UTC", now=NOW)}
    assert len(read) == len(JOBS)
    for before in JOBS:
        found = read[f"{before.job_id}.timer"]
        after = checked("", found.body or {}, (), NOW)[1]
        assert after is not None
        assert times(before) == times(after) != [], before.job_id
        kept = ("kwargs", "overlap", "jitter", "timeout", "misfire", "task")
        wanted = {name: getattr(before, name) for name in kept} | {"kwargs": {"stdin": "", **before.kwargs}}
        assert {name: getattr(after, name) for name in kept} == wanted, before.job_id
        assert after.title == (before.title or before.job_id)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_itself_takes_the_units(tmp_path: Path) -> None:
    text, _ = export_systemd(JOBS, None, NOW, nearest=False)
    units = units_in_text(text)
    assert len(units) == 2 * len(JOBS)
    for name, unit in units.items():
        (tmp_path / name).write_text(unit)
    verify = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in units)]
    ended = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert [line for line in ended.stderr.splitlines() if any(name in line for name in units)] == []


def test_what_a_timer_cannot_say_is_refused_by_name() -> None:
    odd = [
        job("either", "0 3 13 * fri"),
        job("nth", "0 3 * * 5#3"),
        job("gap", {**BERLIN, "expr": "30 2 * * *"}),
        job("sun", {"kind": "solar", "event": "sunset", "latitude": 50, "longitude": 8}),
        job("rhythm", {"kind": "interval", "every": "7m"}),
        job("placed", {"kind": "interval", "every": "15m", "balanced": True}),
        job("queues", "0 3 * * *", overlap="queue"),
        job("retries", "0 3 * * *", retry={"max_attempts": 3}),
        job("paused", "0 3 * * *", paused=True),
        job("fed", "0 3 * * *", kwargs={"command": "c", "stdin": "x\n"}),
        job("lines", "0 3 * * *", kwargs={"command": "a\nb"}),
        job("listed", "0 3 * * *", kwargs={**COMMAND, "env": ["A=1"]}),
        job("misnamed", "0 3 * * *", kwargs={**COMMAND, "env": {"A B": "1"}}),
        job("task", "0 3 * * *", kwargs={"n": 1}),
        job("past", {"kind": "once", "at": "2026-01-01T00:00:00Z"}),
    ]  # fmt: skip
    _, refused = export_systemd(odd, None, NOW, nearest=False)
    told = {each.job_id: each.why for each in refused}
    for name, part in {
        "either": "only where both match", "nth": "known here alone", "gap": "only here at 2027-03-28T01:00:00Z",
        "sun": "kind solar", "rhythm": "from its last start", "placed": "may move it", "queues": "overlap queue",
        "retries": "3 attempts", "paused": "paused", "fed": "stdin", "lines": "does not fit into a line",
        "listed": "its `env` is no object", "misnamed": "its `env` has 'A B'", "task": "--celery-app",
        "past": "is past",
    }.items():  # fmt: skip
        assert part in told.pop(name), name
    assert told == {}


def test_the_nearest_names_its_differences_and_a_task_is_sent_by_celery() -> None:
    near = [
        job("rhythm", {"kind": "interval", "every": "7m"}),
        job("task", "0 3 * * *", kwargs={"n": "$1"}, priority=2),
    ]
    text, refused = export_systemd(near, "shop:app", NOW, nearest=True)
    assert refused == []
    assert "OnUnitActiveSec=420s" in text
    assert text.count("# differs: ") == 3
    call = '"celery" "-A" "shop:app" "call" "ops.run" "--queue" "default" "--kwargs" "{\\"n\\": \\"$$1\\"}"'
    assert f"ExecStart=/usr/bin/env {call}\n" in text
    again = {each.name: each.body for each in read_timers(units_of(text), task="other", timezone="UTC", now=NOW)}
    kept = {"task": "ops.run", "kwargs": {"n": "$1"}, "queue": "default", "overlap": "allow"}
    assert {name: (again["task.timer"] or {})[name] for name in kept} == kept
