"""Rules of calendars: read from JSON, kept in one form, compiled to the set of instants."""

from datetime import date

import pytest

from itinerary.protocol.errors import BadValues
from itinerary.protocol.instants import format_instant
from scheduler_service.core.calendars.ics import IcsEvents
from scheduler_service.core.calendars.model import NamedDays, NamedSpan, Weekly
from scheduler_service.core.calendars.rules import compile_rules, known_until, read_calendar, written_out_elsewhere


def day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


TODAY = day("2026-11-29")
FULL = {
    "timezone": "Europe/Berlin",
    "rules": [
        {"date": "2026-12-24", "name": "Christmas Eve"},
        {"from": "2026-12-27", "until": "2026-12-31"},
        {"from": "2026-07-01T18:00", "until": "2026-07-02T04:00:00Z", "name": "Move"},
        {"holidays": "DE", "subdivision": "BE"},
        {"weekly": [{"days": "sat,sun"}, {"days": ["fri"], "from": "18:00", "until": "06:00"}], "name": "Closed"},
        {"ics": {"url": "https://example.org/a.ics"}},
        {"ics": {"text": "BEGIN:VCALENDAR"}, "name": "School"},
    ],
    "description": "Berlin",
}
WRITTEN_OUT = {
    3: IcsEvents((NamedDays(20_900, 20_900, "Easter"),), ()),
    5: IcsEvents((), (NamedSpan(10, 20, "Works meeting"),)),
    6: IcsEvents((NamedDays(21_000, 21_010, "Summer"),), ()),
}


def test_every_rule_is_compiled_in_order() -> None:
    definition = read_calendar(FULL)
    assert written_out_elsewhere(definition).keys() == WRITTEN_OUT.keys()
    compiled = compile_rules(definition, TODAY, WRITTEN_OUT)
    assert compiled.timezone == "Europe/Berlin"
    assert compiled.days == (
        NamedDays(day("2026-12-24"), day("2026-12-24"), "Christmas Eve"),
        NamedDays(day("2026-12-27"), day("2026-12-31")),
        NamedDays(20_900, 20_900, "Easter"),
        NamedDays(21_000, 21_010, "School"),
    )
    assert [(format_instant(s.start), format_instant(s.end), s.name) for s in compiled.spans[1:]] == [
        ("2026-07-01T16:00:00Z", "2026-07-02T04:00:00Z", "Move")
    ]
    assert compiled.weekly == (Weekly(0b0100000, 64_800, 21_600, "Closed"), Weekly(0b1000001, 0, 0, "Closed"))
    assert compiled.known_until == day("2028-12-31")


def test_what_is_kept_is_read_as_the_same() -> None:
    definition = read_calendar(FULL)
    assert read_calendar(definition.to_json()) == definition
    assert definition.to_json()["rules"][4]["weekly"] == [
        {"days": ["sun", "sat"]}, {"days": ["fri"], "from": "18:00", "until": "06:00"}
    ]  # fmt: skip


def test_what_is_known_ends_with_the_rule_that_ends_first() -> None:
    rules = FULL["rules"]
    assert known_until(read_calendar({**FULL, "rules": [rules[0]]}), TODAY) is None
    assert known_until(read_calendar({**FULL, "rules": [rules[3]]}), TODAY) == day("2031-12-31")


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        ({}, "rules.0"),
        ("2026-12-24", "rules.0"),
        ({"date": "2026-12-24", "holidays": "DE"}, "rules.0"),
        ({"name": "nothing"}, "rules.0"),
        ({"date": "2026-02-30"}, "rules.0.date"),
        ({"date": 7}, "rules.0.date"),
        ({"date": "2026-12-24", "until": "2026-12-25"}, "rules.0.until"),
        ({"date": "2026-12-24", "name": "x" * 201}, "rules.0.name"),
        ({"from": "2026-12-24"}, "rules.0.until"),
        ({"from": "2026-12-24", "until": "2026-12-23"}, "rules.0.until"),
        ({"from": "2026-12-24", "until": "2026-12-25T10:00"}, "rules.0.until"),
        ({"from": "2026-12-24T10:00", "until": "2026-12-24T10:00"}, "rules.0.until"),
        ({"from": "2026-03-29T02:30", "until": "2026-03-29T04:00"}, "rules.0.from"),
        ({"from": ["2026-12-24"], "until": "2026-12-25"}, "rules.0.until"),
        ({"holidays": ["DE"]}, "rules.0.holidays"),
        ({"holidays": None}, "rules.0.holidays"),
        ({"holidays": "DE", "subdivision": 7}, "rules.0.subdivision"),
        ({"holidays": "DE", "state": "BE"}, "rules.0.state"),
        ({"weekly": {"days": "sat"}}, "rules.0.weekly"),
        ({"weekly": []}, "rules.0.weekly"),
        ({"weekly": [{"days": "sat"}, {"days": "noday"}]}, "rules.0.weekly.1.days"),
        ({"weekly": ["sat"]}, "rules.0.weekly.0"),
        ({"weekly": [{"from": "18:00"}]}, "rules.0.weekly.0.until"),
        ({"weekly": [{"from": "18:00", "until": "25:00"}]}, "rules.0.weekly.0.until"),
        ({"weekly": [{"from": "18:00", "until": "19:00", "day": "sat"}]}, "rules.0.weekly.0.day"),
        ({"ics": "https://example.org/a.ics"}, "rules.0.ics"),
        ({"ics": {}}, "rules.0.ics"),
        ({"ics": {"url": "https://a/", "text": "x"}}, "rules.0.ics"),
        ({"ics": {"url": "https://example.org/" + "x" * 2_000}}, "rules.0.ics.url"),
        ({"ics": {"text": "a\x00b"}}, "rules.0.ics.text"),
    ],
)
def test_a_wrong_rule_is_named_by_its_place(rule: object, field: str) -> None:
    with pytest.raises(BadValues) as error:
        read_calendar({"timezone": "Europe/Berlin", "rules": [rule]})
    assert [each.field for each in error.value.errors] == [field]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["rules"]),
        ({"rules": []}, ["rules"]),
        ({"rules": {}}, ["rules"]),
        ({"rules": [{"date": "2026-12-24"}] * 1_001}, ["rules"]),
        ({"rules": [{"ics": {"text": "x"}}] * 11}, ["rules"]),
        ({"timezone": "Berlin", "rules": [{"date": "x"}, {"date": "y"}]}, ["timezone", "rules.0.date", "rules.1.date"]),
        ({"timezone": 7, "rule": [], "rules": [{"date": "2026-12-24"}], "description": 7}, None),
    ],
)
def test_all_that_is_wrong_is_reported_at_once(body: dict[str, object], fields: list[str] | None) -> None:
    with pytest.raises(BadValues) as error:
        read_calendar(body)
    found = [each.field for each in error.value.errors]
    assert found == fields if fields is not None else set(found) == {"timezone", "rule", "description"}
