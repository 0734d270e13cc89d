"""The days that a schedule's sentence claims, read back from its words alone, as a person with a calendar would."""

import calendar
import re
from collections.abc import Callable
from datetime import date, timedelta

Claim = Callable[[date], bool]
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_WD, _MON = "|".join(WEEKDAYS), "|".join(calendar.month_name[1:])
_AND = r"(?:, and |, | and | or )"
_NUMBERS = rf"\d+(?: to \d+)?(?:{_AND}\d+(?: to \d+)?)*"
_DAYS = rf"(?:{_WD})(?:(?:{_AND}| through )(?:{_WD}))*"
_MONTHS = rf"(?:{_MON})(?:(?:{_AND}| through )(?:{_MON}))*"
_TERM = (
    rf"{_DAYS}|the (?:\w+) (?:{_WD}) of the month|days? {_NUMBERS} of the month|the last day of the month"
    r"|between day \d+ and \d+ of the month"
    r"|the (?:first|last) weekday of the month|\d+ days? before the last day of the month"
    r"|the weekday nearest (?:day \d+|\d+ days? before the last day) of the month"
)
_DAY_PART = re.compile(
    rf"(?:every day|(?:only )?on (.+?)|(between day .+?|(?:{_WD}) through (?:{_WD})))?"
    rf"((?:(?:, |^)(?:(?:only )?in )?(?:{_MONTHS}|{_NUMBERS}))*)$"
)


def claimed_days(words: str) -> Claim:
    """What the part of a sentence behind its times claims; AssertionError where it is of no known form."""
    found = _DAY_PART.match(words)
    assert found is not None, f"nobody can read {words!r}"
    claims = [_days(found[1] or found[2])] if found[1] or found[2] else []
    parts = re.findall(rf"(?:^|, )(?:(?:only )?in )?({_MONTHS}|{_NUMBERS})(?=, (?:only )?in |$)", found[3])
    claims += [_months_or_years(part) for part in parts]
    return lambda day: all(claim(day) for claim in claims)


def _months_or_years(words: str) -> Claim:
    if words[0].isdigit():
        return lambda day: day.year in numbers(words)
    months = _named(words, calendar.month_name[1:])
    return lambda day: day.month - 1 in months


def _days(words: str) -> Claim:
    either = re.split(r",? (?:or|and) on ", words)
    sides = [[_terms(part) for part in side.split(" that is also ")] for side in either]
    return lambda day: any(all(part(day) for part in side) for side in sides)


def _terms(words: str) -> Claim:
    terms = re.findall(rf"(?:^|,? or )({_TERM})(?=,? or |$)", words)
    assert " or ".join(terms) == words, f"nobody can read {words!r} but {terms}"
    claims = [_term(term) for term in terms]
    return lambda day: any(claim(day) for claim in claims)


def _term(term: str) -> Claim:
    if found := re.fullmatch(r"between day (\d+) and (\d+) of the month", term):
        return lambda day: int(found[1]) <= day.day <= int(found[2])
    if term == "the first weekday of the month":
        return lambda day: day == _nearest_weekday(day.replace(day=1))
    if found := re.fullmatch(rf"the (\w+) ({_WD}) of the month", term):
        return _nth(found[1], WEEKDAYS.index(found[2]))
    if found := re.fullmatch(rf"days? ({_NUMBERS}) of the month", term):
        named = numbers(found[1])
        return lambda day: day.day in named
    if term == "the last day of the month":
        return lambda day: day.day == _length(day)
    if term == "the last weekday of the month":
        return lambda day: day == _nearest_weekday(day.replace(day=_length(day)))
    if found := re.fullmatch(r"(\d+) days? before the last day of the month", term):
        return lambda day: day.day == _length(day) - int(found[1])
    if found := re.fullmatch(r"the weekday nearest day (\d+) of the month", term):
        return lambda day: day == _nearest_weekday(day.replace(day=min(int(found[1]), _length(day))))
    if found := re.fullmatch(r"the weekday nearest (\d+) days? before the last day of the month", term):
        back = int(found[1])
        return lambda day: _length(day) > back and day == _nearest_weekday(day.replace(day=_length(day) - back))
    weekdays = _named(term, list(WEEKDAYS))
    return lambda day: day.weekday() in weekdays


def _nth(word: str, weekday: int) -> Claim:
    if word == "last":
        return lambda day: day.weekday() == weekday and day.day > _length(day) - 7
    return lambda day: day.weekday() == weekday and (day.day + 6) // 7 == _ORDINALS[word]


def _named(words: str, names: list[str]) -> set[int]:
    found: set[int] = set()
    for part in re.split(_AND, words):
        first, *last = (names.index(name) for name in part.split(" through "))
        found |= {(first + n) % len(names) for n in range(((last or [first])[0] - first) % len(names) + 1)}
    return found


def numbers(words: str) -> set[int]:
    """The numbers of a list such as `1 to 5, 9 and 12`."""
    bounds = [[int(number) for number in part.split(" to ")] for part in re.split(_AND, words)]
    return {number for low, *high in bounds for number in range(low, (high or [low])[0] + 1)}


def _length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _nearest_weekday(day: date) -> date:
    """The nearest day from Monday to Friday in the same month."""
    by = {5: -1, 6: 1}.get(day.weekday(), 0)
    if by == -1 and day.day == 1:
        by = 2
    if by == 1 and day.day == _length(day):
        by = -2
    return day + timedelta(days=by)
