"""systemd's timers moved in: calendar events against systemd's own reader, units, commands, and what has no equal."""

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import Instant, from_datetime, parse_instant
from scheduler_service.core.schedules.schedule import parse_schedule, upcoming
from scheduler_service.migrating.converted import CannotConvert, Converted
from scheduler_service.migrating.systemd_calendar import calendar_spec, span_of
from scheduler_service.migrating.systemd_timers import read_timers
from scheduler_service.migrating.systemd_units import units_in, units_of

NOW = parse_instant("2026-11-27T10:00:00Z")
BASES = (datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2027, 3, 27, 12, tzinfo=UTC))
TIMER = "OnCalendar=Mon..Fri 02:30\nPersistent=true\n"
HAS_SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
SERVICE = "Type=oneshot\nExecStart=/usr/bin/backup --all\n"


def text(timer: str = TIMER, service: str = SERVICE, unit: str = "", name: str = "backup") -> str:
    timer_file = (
        f"# /etc/systemd/system/{name}.timer\n[Unit]\n{unit}\n[Timer]\n{timer}\n[Install]\nWantedBy=timers.target\n"
    )
    template = f"{name.partition('@')[0]}@" if "@" in name else name
    return f"{timer_file}\n# /lib/systemd/system/{template}.service\n[Service]\n{service}"


def read(held: str, timezone: str = "Europe/Berlin") -> list[Converted]:
    return read_timers(units_of(held), task="ops.run", timezone=timezone, now=NOW)


def one(*parts: str, **named: str) -> Converted:
    (converted,) = read(text(*parts, **named))
    return converted


def body(converted: Converted) -> dict[str, Any]:
    assert converted.refused is None
    return dict(converted.body or {})


def command(line: str, more: str = "") -> str:
    return str(body(one(TIMER, f"Type=oneshot\nExecStart={line}\n{more}"))["kwargs"]["command"])


def test_a_timer_and_its_service_become_a_job_of_the_task_that_was_named() -> None:
    converted = one(unit="Description=Nightly backup")
    assert body(converted) == {
        "job_id": "backup",
        "title": "Nightly backup",
        "task": "ops.run",
        "kwargs": {"command": "/usr/bin/backup --all", "stdin": ""},
        "schedule": {
            "kind": "cron", "expr": "30 2 * * 1-5", "timezone": "Europe/Berlin", "dst_gap": "skip", "dst_fold": "first",
        },
        "overlap": "skip",
    }  # fmt: skip
    assert converted.name == "backup.timer"


# Calendar events


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: apt install systemd"
)
@pytest.mark.parametrize(
    "event",
    [
        "*:0/30 Europe/Berlin", "hourly Europe/Berlin", "2:30 Europe/Berlin", "1..3:15 America/New_York",
        "*:*:0/20 Europe/Berlin", "quarterly Asia/Tokyo", "Mon *-05~07/1", "*-*~1,2 10:00", "*-*~07/2", "*-*~1..3",
        "Mon..Fri 9..17/2:0/15 Europe/Berlin", "Mon-Fri 10:00", "Mon,Wed,Fri *-*-1..7 12:00", "27-1..3-1 5:6:7",
        "*-1..12/3-1 4:5", "Sun 2027-*-* 03:00", "0/2:00 Africa/Cairo", "monday..WEDNESDAY 1:00 America/Sao_Paulo",
        "*:0/30 Australia/Lord_Howe", "*-*-1/3 6,18:30:15 UTC", "weekly", "Sat", "1:2:3.0",
    ],
)  # fmt: skip
def test_a_calendar_event_elapses_when_systemd_says(event: str) -> None:
    for base in BASES:
        assert ours(event, base) == theirs(event, base)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: apt install systemd"
)
@pytest.mark.parametrize(
    "event", ["Sun..Tue", "*-*-31..28", "*:*/5", "*-0-1", "24:00", "12", "5:0/70", "Mon,,Tue", "*-*~3..1"]
)
def test_what_systemd_does_not_read_is_refused(event: str) -> None:
    assert theirs(event, BASES[0]) is None
    with pytest.raises((CannotConvert, BadValue)):
        ours(event, BASES[0])


def theirs(event: str, base: datetime) -> list[Instant] | None:
    words = ["systemd-analyze", "calendar", "--iterations=40", f"--base-time={base:%Y-%m-%d %H:%M:%S} UTC", event]
    done = subprocess.run(words, capture_output=True, text=True, env={"TZ": "UTC", "LC_ALL": "C"}, check=False)
    if done.returncode:
        return None
    found = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if "Next elapse:" in line or "Iter. #" in line]
    found = [each for each in found if each != "never"]
    return [from_datetime(datetime.strptime(each, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)) for each in found]


def ours(event: str, base: datetime) -> list[Instant]:
    spec = calendar_spec(event, "UTC")
    return upcoming(parse_schedule(spec, job_id="", created_at=NOW).schedule, from_datetime(base), 40)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("1:2:3.5", "fractions of a second"),
        ("10:00 Mars/Base", "zone Mars/Base is not known"),
        ("10:00 Mon", "give weekday, date, time and zone"),
        ("@1700000000", "give weekday, date, time and zone"),
        ("*-02-30", "never happens"),
    ],
)
def test_a_calendar_event_without_an_equal_is_refused_by_name(event: str, why: str) -> None:
    assert why in str(one(f"OnCalendar={event}\n").refused)


def test_spans_are_systemds() -> None:
    assert span_of("1h 30min", "x") == span_of("90m", "x") == span_of("5400", "x") == 5400 * 10**6
    assert span_of("2weeks 1.5 s", "x") == (14 * 86400 + 1.5) * 10**6
    for wrong in ("", "soon", "5 moons", "5s!"):
        with pytest.raises(CannotConvert):
            span_of(wrong, "x")


# Timers


def test_what_persists_is_made_up_for_and_a_random_delay_is_jitter() -> None:
    assert "misfire" not in body(one())
    made = body(one("OnCalendar=daily\nRandomizedDelaySec=1h\n"))
    assert (made["misfire"], made["jitter"]) == ({"policy": "skip"}, "1h")


def test_a_timer_that_counts_from_its_last_start_is_an_interval_and_the_rest_is_named() -> None:
    converted = one("OnBootSec=5min\nOnUnitActiveSec=1h 30min\nWakeSystem=true\n")
    assert body(converted)["schedule"] == {"kind": "interval", "every": "90m", "timezone": "Europe/Berlin"}
    assert "counts from its last start, which drifts" in converted.differences[0]
    assert "OnBootSec=5min, counted from the machine's boot, is not carried over" in converted.differences
    assert "the timer's WakeSystem: not carried over" in converted.differences


def test_several_times_are_a_job_each() -> None:
    first, second = read(text("OnCalendar=daily\nOnCalendar=Sat 12:00\n"))
    assert (body(first)["job_id"], body(second)["job_id"]) == ("backup", "backup-2")
    assert (first.name, second.name) == ("backup.timer OnCalendar 1", "backup.timer OnCalendar 2")
    assert "a job each" in first.differences[0]


def test_an_empty_value_forgets_those_above_it_and_drop_ins_come_last(tmp_path: Path) -> None:
    (tmp_path / "backup.timer").write_text("[Timer]\nOnCalendar=daily\nOnCalendar=\nOnCalendar=*-*-* \\\n  03:00\n")
    (tmp_path / "backup.service").write_text("# /note\n[Service]\n; no\nExecStart=old\n")
    (tmp_path / "backup.service.d").mkdir()
    (tmp_path / "backup.service.d" / "x.conf").write_text("[Service]\nExecStart=\nExecStart=new\n")
    (tmp_path / "off.timer").symlink_to("/dev/null")
    made, off = read_timers(units_in(tmp_path), task="ops.run", timezone="UTC", now=NOW)
    assert body(made)["kwargs"]["command"] == "new"
    assert body(made)["schedule"]["expr"] == "0 3 * * *"
    assert off.left_out == "it is masked there"
    (alone,) = read_timers(units_in(tmp_path / "backup.timer"), task="t", timezone="UTC", now=NOW, only="backup.timer")
    assert alone.name == "backup.timer"


@pytest.mark.parametrize(
    ("timer", "service", "why"),
    [
        ("OnBootSec=15min\n", SERVICE, "OnBootSec=15min counts from the machine's boot"),
        ("OnActiveSec=15min\n", SERVICE, "counts from the start of the timer"),
        ("OnUnitInactiveSec=5m\n", SERVICE, "counts from the end of the last run"),
        ("Persistent=true\n", SERVICE, "no OnCalendar and no OnUnitActiveSec"),
        ("OnUnitActiveSec=500ms\n", SERVICE, "whole seconds"),
        ("OnCalendar=daily\nUnit=gone.service\n", SERVICE, "starts gone.service, which is not beside it"),
        (TIMER, "Type=oneshot\n", "has no ExecStart"),
        (TIMER, f"{SERVICE}ExecCondition=x\n", "has ExecCondition"),
        (TIMER, "ExecStart=x\nExecStartPost=y\n", "which runs beside its command"),
        (TIMER, "ExecStart=+/bin/x\n", "prefix that only systemd knows: +"),
        (TIMER, "ExecStart=/bin/x %H\n", "ExecStart holds %H"),
        (TIMER, "ExecStart=/bin/x %i\n", "ExecStart holds %i"),
        (TIMER, "ExecStart=/bin/x 'a\n", "not understood"),
        (TIMER, "ExecStart=/bin/x a\\x20b\n", "backslash"),
        (TIMER, "ExecStart=/bin/x ; /bin/y\n", "several commands in one line"),
        (TIMER, f"{SERVICE}WorkingDirectory=~\n", "write the whole path"),
    ],
)
def test_what_has_no_equal_is_refused_by_its_name(timer: str, service: str, why: str) -> None:
    assert why in str(one(timer, service).refused)


def test_a_place_without_timers_is_an_error(tmp_path: Path) -> None:
    for held in (units_of(""), units_in(tmp_path)):
        with pytest.raises(BadValue, match="no timer is there"):
            read_timers(held, task="t", timezone="UTC", now=NOW)
    with pytest.raises(BadValue, match="no such file or folder"):
        units_in(tmp_path / "none.timer")


# Commands, each run by a real shell


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("printf '%%s,' a 'b c' \"d\"", "a,b c,d,"),
        ("printf %%s, $WORDS", "one,two,"),
        ("printf %%s, ${WORDS}", "one two,"),
        ("printf %%s, x${WORDS}y $$WORDS", "xone twoy,$WORDS,"),
        ("printf %%s, *.c a;b %n %p", "*.c,a;b,backup.service,backup,"),
        ("-/bin/false", ""),
    ],
)
def test_a_shell_runs_what_systemd_would(line: str, said: str, tmp_path: Path) -> None:
    environment = {"WORDS": "one two", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-c", command(line)], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert (done.stdout, done.returncode) == (said, 0)


def test_the_rest_of_a_service_is_carried_over_or_named() -> None:
    more = 'User=shop\nEnvironment=A=1 "B=two words"\nWorkingDirectory=/srv/my shop\nTimeoutStartSec=2min\nNice=5\n'
    converted = one(TIMER, f"{SERVICE}ExecStart=/bin/second\n{more}")
    kwargs = body(converted)["kwargs"]
    assert kwargs["command"] == "cd '/srv/my shop' && /usr/bin/backup --all && /bin/second"
    assert (kwargs["user"], kwargs["env"]) == ("shop", {"A": "1", "B": "two words"})
    assert body(converted)["timeout"] == "2m"
    assert "Nice of backup.service: not carried over, see to it where the worker runs" in converted.differences
    assert "timeout" not in body(one(TIMER, "ExecStart=x\nTimeoutStartSec=9\n"))
    notify = one(TIMER, "Type=notify\nExecStart=x\nRuntimeMaxSec=1h\n")
    assert body(notify)["timeout"] == "1h"
    assert "Type=notify" in notify.differences[0]


def test_what_runs_before_and_after_is_part_of_the_command() -> None:
    more = "ExecStartPre=-/bin/wait online\nExecStartPost=/bin/report\n"
    command_line = body(one(TIMER, f"{SERVICE}{more}"))["kwargs"]["command"]
    assert command_line == "{ /bin/wait online || true; } && /usr/bin/backup --all && /bin/report"


def test_an_instance_takes_the_service_of_its_template() -> None:
    converted = one(TIMER, "ExecStart=/bin/dump %i %I\n", name="dump@my-db")
    assert body(converted)["kwargs"]["command"] == "/bin/dump my-db my/db"
    assert "template" in str(read("# /x/a@.timer\n[Timer]\nOnCalendar=daily\n")[0].refused)
