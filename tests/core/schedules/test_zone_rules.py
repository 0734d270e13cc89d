"""Zone rules: the newer of host and package, and names that mean no place."""

import zoneinfo
from pathlib import Path

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import SECOND, format_instant, parse_instant
from scheduler_service.core.schedules import zone_rules
from scheduler_service.core.schedules.schedule import next_after, parse_schedule
from scheduler_service.core.schedules.zone_rules import ZoneRules, installed_rules, newest, zone_names
from scheduler_service.core.schedules.zones import offset_at, zone

CHANGED = [
    ("Africa/Casablanca", "2026-09-20T01:00:00Z", 0),
    ("Africa/El_Aaiun", "2026-09-20T01:00:00Z", 0),
    ("America/Edmonton", "2026-11-28T16:00:00Z", -6),
    ("America/Havana", "2026-11-28T16:00:00Z", -4),
    ("America/Inuvik", "2026-11-28T16:00:00Z", -6),
    ("America/Rainy_River", "2026-11-28T16:00:00Z", -5),
    ("America/Vancouver", "2026-11-28T16:00:00Z", -7),
    ("America/Winnipeg", "2026-11-28T16:00:00Z", -5),
    ("America/Yellowknife", "2026-11-28T16:00:00Z", -6),
    ("Canada/Central", "2026-11-28T16:00:00Z", -5),
    ("Canada/Mountain", "2026-11-28T16:00:00Z", -6),
    ("Canada/Pacific", "2026-11-28T16:00:00Z", -7),
    ("Cuba", "2026-11-28T16:00:00Z", -4),
    ("Europe/Chisinau", "2026-03-29T00:30:00Z", 2),
    ("Europe/Tiraspol", "2026-03-29T00:30:00Z", 2),
]
"""Fifteen zones that Debian's 2025b has an hour wrong: the offset in hours by IANA's 2026f."""


@pytest.mark.parametrize(("name", "at", "hours"), CHANGED)
def test_a_zone_whose_rules_changed_is_told_by_the_newer_rules(name: str, at: str, hours: int) -> None:
    assert offset_at(name, parse_instant(at) // SECOND) == hours * 3600


def test_a_job_in_winnipeg_runs_at_nine_by_the_rules_of_2026() -> None:
    spec = {"kind": "cron", "expr": "0 9 * * *", "timezone": "America/Winnipeg"}
    now = parse_instant("2026-11-28T16:00:00Z")
    found = next_after(parse_schedule(spec, job_id="a", created_at=now).schedule, now)
    assert found is not None
    assert format_instant(found) == "2026-11-29T14:00:00Z"


@pytest.mark.parametrize(
    ("package", "host", "source"),
    [
        ("2026f", "2025b", "package"), ("2025b", "2026f", "host"), ("2026b", "2026a", "package"),
        ("2026z", "2026aa", "host"), ("2026f", "2026f", "package"), ("2026f", "unknown", "package"),
        ("2026f", "2026f-rearguard", "package"),
    ],
)  # fmt: skip
def test_the_newer_of_host_and_package_is_used(package: str, host: str, source: str) -> None:
    assert newest(ZoneRules(package, "package"), ZoneRules(host, "host", "/zones")).source == source


def test_what_there_is_is_used_where_one_is_missing() -> None:
    package, host = ZoneRules("2026f", "package"), ZoneRules("unknown", "host", "/zones")
    assert newest(package, None) == package
    assert newest(None, host) == host
    with pytest.raises(RuntimeError, match="tzdata"):
        newest(None, None)


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("tzdata.zi", "# version 2025b\n# ddeps backzone\n", "2025b"), ("+VERSION", "2024a\n", "2024a"),
        ("version", "2023c", "2023c"), ("unrelated", "2023c", "unknown"),
    ],
)  # fmt: skip
def test_the_host_says_its_version_in_one_of_three_files(tmp_path: Path, name: str, text: str, version: str) -> None:
    (tmp_path / "UTC").write_bytes(b"TZif")
    (tmp_path / name).write_text(text)
    found = zone_rules._host((str(tmp_path / "nowhere"), str(tmp_path)))
    assert found == ZoneRules(version, "host", str(tmp_path))


def test_the_zones_of_a_newer_host_are_read_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").write_bytes(zone_rules.zone_file("Asia/Tokyo"))
    monkeypatch.setattr(zone_rules, "installed_rules", lambda: ZoneRules("2099a", "host", str(tmp_path)))
    assert zone_rules.zone_file("Europe/Berlin") == zone_rules.zone_file("Asia/Tokyo")
    assert zone_rules.zone_file("Europe/Paris"), "a name that the host lacks is the package's"


def test_zoneinfo_of_the_process_is_not_changed() -> None:
    before = zoneinfo.TZPATH
    assert zone("Europe/Berlin") is not zoneinfo.ZoneInfo("Europe/Berlin")
    assert before == zoneinfo.TZPATH
    assert installed_rules().version in installed_rules().text


@pytest.mark.parametrize(
    "name",
    [
        "right/Europe/Berlin", "posix/Europe/Berlin", "localtime", "Factory", "factory", "posixrules", "right/UTC",
        "RIGHT/Europe/Berlin", "europe/berlin", "../UTC", "Europe/../UTC", "/etc/localtime", "UTC\n", "", "right/",
    ],
)  # fmt: skip
def test_what_is_no_zone_is_refused_and_not_suggested(name: str) -> None:
    with pytest.raises(BadValue) as refused:
        zone(name)
    suggested = refused.value.allowed.partition("did you mean ")[2].rstrip("?)").split(" or ")
    assert not name or name not in suggested
    assert all(not one or one in zone_names() for one in suggested)


def test_a_zone_with_leap_seconds_is_answered_with_the_one_without() -> None:
    with pytest.raises(BadValue, match=r"did you mean Europe/Berlin\?"):
        zone("right/Europe/Berlin")
