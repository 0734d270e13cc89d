"""Holidays by country: facts of a few, every country against the library, and codes that it does not have."""

import subprocess
import sys
from datetime import date, timedelta

import pytest

from itinerary.protocol.errors import BadValue
from scheduler_service.core.calendars.holiday_rules import holiday_years, holidays_of

EPOCH = date(1970, 1, 1)


def days_of(country, subdivision=None, years=range(2026, 2028)):
    return {EPOCH + timedelta(one.first): one.name for one in holidays_of(country, subdivision, years)}


def test_a_subdivision_has_the_country_s_days_and_its_own():
    germany, berlin = days_of("DE"), days_of("DE", "BE")
    assert germany[date(2026, 12, 25)] == "Christmas Day"
    assert date(2026, 3, 8) not in germany
    assert berlin == germany | {date(2026, 3, 8): "Women's Day", date(2027, 3, 8): "Women's Day"}


def test_names_do_not_follow_the_language_of_the_host(monkeypatch):
    before = days_of("FR")
    monkeypatch.setenv("LANGUAGE", "fr")
    monkeypatch.setenv("LANG", "fr_FR.UTF-8")
    assert days_of("FR") == before
    assert before[date(2026, 7, 14)] == "National Day"


def test_the_last_year_and_five_to_come_are_written_out():
    assert holiday_years((date(2026, 11, 29) - EPOCH).days) == range(2025, 2032)
    assert {day.year for day in days_of("US", None, range(2025, 2032))} == set(range(2025, 2032))


@pytest.mark.parametrize(
    ("country", "subdivision", "field", "says"),
    [
        ("DX", None, "holidays", "nearest: "),
        ("de", None, "holidays", "nearest: DE"),
        ("Germany", None, "holidays", "nearest: DE"),
        ("Q7", None, "holidays", "two letters"),
        (7, None, "holidays", "two letters"),
        ("x" * 100_000, None, "holidays", "two letters"),
        (["DE"], None, "holidays", "two letters"),
        ("DE", "BX", "subdivision", "BY, BW, BE, BB"),
        ("DE", "zzz", "subdivision", "DE has Augsburg, BB, BE"),
        ("DE", ["BE"], "subdivision", "DE has "),
        ("JP", "13", "subdivision", "JP has no subdivisions here: omit it"),
    ],
)
def test_an_unknown_code_names_its_field_and_the_nearest(country, subdivision, field, says):
    with pytest.raises(BadValue) as error:
        holidays_of(country, subdivision, range(2026, 2027))
    assert error.value.field == field
    assert says in error.value.allowed


def test_the_library_is_loaded_only_when_asked():
    code = "import sys, scheduler_service.core.calendars.holiday_rules; assert 'holidays' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_every_country_s_days_are_the_library_s():
    import holidays

    countries = holidays.list_supported_countries(include_aliases=False)
    assert len(countries) > 200
    for country, parts in countries.items():
        part = parts[-1] if parts else None
        for year in (2026, 2029):
            theirs = holidays.country_holidays(country, subdiv=part, years=year, language="en_US")
            expected = {day: name for day, name in theirs.items() if day.year == year}
            ours = days_of(country, part, range(2025, 2032))
            assert {day: name for day, name in ours.items() if day.year == year} == expected, country
