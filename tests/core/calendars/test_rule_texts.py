"""Rules as lines: each line reads as its rule, and back; what is no line is not forced into one."""

from typing import Any

import pytest

from itinerary.protocol.errors import BadValue
from scheduler_service.core.calendars.rule_texts import lines_of, read_line
from scheduler_service.core.calendars.rules import read_calendar

LINES: list[tuple[str, dict[str, Any]]] = [
    ("2026-12-24", {"date": "2026-12-24"}),
    ("2026-12-24 Christmas Eve", {"date": "2026-12-24", "name": "Christmas Eve"}),
    ("2026-12-24..2027-01-02 Closed", {"from": "2026-12-24", "until": "2027-01-02", "name": "Closed"}),
    (
        "2026-03-01T02:00..2026-03-01T06:00 Moving",
        {"from": "2026-03-01T02:00", "until": "2026-03-01T06:00", "name": "Moving"},
    ),
    ("holidays DE-BE", {"holidays": "DE", "subdivision": "BE"}),
    ("holidays DE Public", {"holidays": "DE", "name": "Public"}),
    ("weekly sun,sat", {"weekly": [{"days": ["sun", "sat"]}]}),
    ("weekly sun 02:00-04:00", {"weekly": [{"days": ["sun"], "from": "02:00", "until": "04:00"}]}),
    (
        "weekly sun 02:00-04:00 Maintenance 2",
        {"weekly": [{"days": ["sun"], "from": "02:00", "until": "04:00"}], "name": "Maintenance 2"},
    ),
    (
        "weekly sun 02:00:30-04:00",
        {"weekly": [{"days": ["sun"], "from": "02:00:30", "until": "04:00"}]},
    ),
    ("weekly sat Monthly check", {"weekly": [{"days": ["sat"]}], "name": "Monthly check"}),
    ("2026-05-01 1. Mai", {"date": "2026-05-01", "name": "1. Mai"}),
    ("2026-05-01 24-hour sale", {"date": "2026-05-01", "name": "24-hour sale"}),
    ("ics https://example.com/a.ics", {"ics": {"url": "https://example.com/a.ics"}}),
]


@pytest.mark.parametrize(("line", "rule"), LINES)
def test_a_line_reads_as_its_rule_and_back(line: str, rule: dict[str, Any]) -> None:
    (canonical,) = read_calendar({"rules": [read_line(line)]}).rules
    assert canonical == rule
    assert lines_of([canonical]) == [line]


@pytest.mark.parametrize("line", ["", "tomorrow", "holidays", "weekly", "ics", "2026-12-24..", "24.12.2026", ".."])
def test_a_line_of_no_form_is_refused_with_the_forms(line: str) -> None:
    with pytest.raises(BadValue, match="weekly sat,sun"):
        read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "weekly sun 2-4", "weekly sun 02:00 - 04:00", "weekly sun 02:00\u201304:00", "weekly sun 02.00-04.00",
        "weekly sat sun", "weekly mon to fri", "2026-05-01 .. 2026-05-03", "2026-05-01 - 2026-05-03",
        "2026-05-01 2026-05-03", "2026-05-01 02:00..2026-05-01 06:00", "holidays DE BE",
    ],
)  # fmt: skip
def test_a_time_written_another_way_is_no_name(line: str) -> None:
    with pytest.raises(BadValue, match="write"):
        read_line(line)


def test_several_weekly_times_are_several_lines() -> None:
    rules = read_calendar(
        {"rules": [{"weekly": [{"days": "sat"}, {"days": "sun", "from": "22:00", "until": "02:00"}], "name": "Rest"}]}
    ).rules
    assert lines_of(rules) == ["weekly sat Rest", "weekly sun 22:00-02:00 Rest"]


@pytest.mark.parametrize(
    "rule",
    [
        {"ics": {"text": "BEGIN:VCALENDAR"}},
        {"date": "2026-12-24", "name": "two\nlines"},
        {"date": "2026-12-24", "name": " padded"},
        {"weekly": [{"days": ["sun"]}], "name": "02:00-04:00 or so"},
        {"holidays": "DE", "subdivision": "with space"},
    ],
)
def test_what_would_read_as_another_rule_is_no_line(rule: dict[str, Any]) -> None:
    assert lines_of([rule]) is None
