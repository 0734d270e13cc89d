"""Crontab files moved in: each kind of line."""

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import parse_instant
from scheduler_service.migrating.converted import Converted
from scheduler_service.migrating.crontab_file import read_crontab
from scheduler_service.migrating.local_zone import local_zone

NOW = parse_instant("2026-11-27T10:00:00Z")


def read(text: str, *, system: bool = False) -> list[Converted]:
    return read_crontab(text, task="ops.run", timezone="Europe/Berlin", now=NOW, system=system, queue="ops")


def one(text: str, *, system: bool = False) -> Converted:
    (converted,) = read(text, system=system)
    return converted


def test_a_line_becomes_a_job_of_the_task_that_was_named() -> None:
    converted = one("# Nightly backup\n30 2 * * 1-5  /usr/bin/backup --all\n")
    assert converted.body == {
        "job_id": "usr-bin-backup-all",
        "title": "Nightly backup",
        "task": "ops.run",
        "queue": "ops",
        "kwargs": {"command": "/usr/bin/backup --all", "stdin": ""},
        "schedule": {"kind": "cron", "expr": "30 2 * * 1-5", "timezone": "Europe/Berlin"},
        "overlap": "allow",
    }


def test_a_file_of_too_many_lines_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadValue, match=r"FILE: '5,001 lines' is not accepted; give at most 5,000 lines"):
        read("A=1\n" * 5_001)
    assert len(read("0 1 * * * true\n" * 100)) == 100


def test_environment_lines_hold_for_the_lines_below_and_are_handed_to_the_task() -> None:
    text = 'MAILTO=""\n0 1 * * * first\n SHELL = /bin/bash \nPATH="/a b:/c"\n0 2 * * * second\n'
    first, second = read(text)
    assert first.body is not None
    assert second.body is not None
    assert first.body["kwargs"]["env"] == {"MAILTO": ""}
    assert second.body["kwargs"]["env"] == {"MAILTO": "", "SHELL": "/bin/bash", "PATH": "/a b:/c"}
    assert "cron sets MAILTO, SHELL, PATH" in second.differences[0]


def test_the_zone_of_the_lines_below_can_be_named() -> None:
    before, after = read("0 1 * * * a\nCRON_TZ=Asia/Tokyo\n0 1 * * * b\n")
    assert before.body is not None
    assert after.body is not None
    assert before.body["schedule"]["timezone"] == "Europe/Berlin"
    assert after.body["schedule"]["timezone"] == "Asia/Tokyo"
    assert "env" not in after.body["kwargs"]
    assert "Mars" in str(one("CRON_TZ=Mars/Base\n0 1 * * * b\n").refused)


@pytest.mark.parametrize(
    ("line", "command", "stdin"),
    [
        (r"mail me%Hello%%Bye", "mail me", "Hello\n\nBye\n"),
        (r"date +\%F", "date +%F", ""),
        (r"a%one\%two", "a", "one%two\n"),
        (r"a%", "a", ""),
        (r"a%b%", "a", "b\n"),
        (r"a\\%b", r"a\\", "b\n"),
        (r"grep '\.txt$'", r"grep '\.txt$'", ""),
    ],
)
def test_a_percent_sign_ends_the_command_and_begins_its_input(line: str, command: str, stdin: str) -> None:
    converted = one(f"0 1 * * * {line}\n")
    assert converted.body is not None
    assert converted.body["kwargs"] == {"command": command, "stdin": stdin}
    assert any("stdin" in told for told in converted.differences) == bool(stdin)


@pytest.mark.parametrize("alias", ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"])
def test_aliases_are_times(alias: str) -> None:
    converted = one(f"{alias} cmd\n")
    assert converted.body is not None
    assert converted.body["schedule"]["expr"] == alias


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot cmd", "@reboot names no time"),
        ("@every_minute cmd", "known are @hourly"),
        ("61 * * * * cmd", "minute"),
        ("* * * * *", "then a command"),
        ("@daily", "then a command"),
        ("0 0 31 2 * cmd", "never happens"),
        ("-*/5 * * * * cmd", "minute"),
    ],
)
def test_what_cannot_be_moved_is_refused_by_its_line(line: str, why: str) -> None:
    converted = one(f"\n# c\n{line}\n")
    assert (converted.name, converted.body) == ("line 3", None)
    assert why in str(converted.refused)


def test_the_systems_files_name_a_user() -> None:
    converted = one("17 * * * *\troot\tcd / && run-parts /etc/cron.hourly\n", system=True)
    assert converted.body is not None
    assert converted.body["kwargs"] == {"command": "cd / && run-parts /etc/cron.hourly", "stdin": "", "user": "root"}
    assert "as root" in converted.differences[0]
    assert "a user and a command" in str(one("17 * * * * root\n", system=True).refused)


def test_ids_are_distinct_and_blank_lines_end_a_comment() -> None:
    text = "# A title\n\n0 1 * * * same\n0 2 * * * same\n0 3 * * * '%'\n"
    found = read(text)
    ids = [converted.body["job_id"] for converted in found if converted.body]
    assert ids == ["same", "same-2", "line-5"]
    assert [converted.body["title"] for converted in found if converted.body][:2] == ["same", "same"]


def test_the_machines_zone_is_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Asia/Tokyo")
    assert local_zone() == "Asia/Tokyo"
    assert local_zone("Europe/Berlin") == "Europe/Berlin"
