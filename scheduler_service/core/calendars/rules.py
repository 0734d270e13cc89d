"""Rules of a calendar as users write them: read, kept in one form, and compiled to the set of instants.

Promises that reading reports every wrong rule at once (BadValues), by its place: `rules.2.from`. Rules for holidays and
iCalendar files come written out from outside: this module asks no library and fetches nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.json_text import is_storable
from itinerary.protocol.run_request import refuse_unknown
from scheduler_service.core.calendars.holiday_rules import holiday_years
from scheduler_service.core.calendars.ics import IcsEvents, ics_window
from scheduler_service.core.calendars.model import Compiled, NamedDays, NamedSpan, Weekly
from scheduler_service.core.schedules.spec_reading import (
    day_number,
    moment,
    time_of_day,
    time_text,
    weekday_mask,
    weekdays,
    zone_name,
)

MOST_RULES: Final = 1_000
MOST_FEEDS: Final = 10
MOST_NAME: Final = 200
_MOST_TIMES: Final = 50
_LONGEST_URL: Final = 2_000
_LONGEST_TEXT: Final = 10_000
_EPOCH: Final = date(1970, 1, 1)
_DAY_LENGTH: Final = len("2026-12-24")
_LEADING: Final = ("date", "from", "holidays", "weekly", "ics")
_ONE_OF: Final = "a rule has one of date, from with until, holidays, weekly, ics"

Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CalendarDefinition:
    """A calendar as users wrote it; its rules in their canonical form."""

    timezone: str
    rules: tuple[Rule, ...]
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON from which `read_calendar` reads it."""
        return {
            "timezone": self.timezone,
            "rules": [dict(rule) for rule in self.rules],
            "description": self.description,
        }


def read_calendar(body: Mapping[str, Any]) -> CalendarDefinition:
    """Return the definition; BadValues with everything that is wrong."""
    errors: list[BadValue] = []
    refuse_unknown(body, {"timezone", "rules", "description"}, errors)
    timezone = _kept(errors, lambda: zone_name(body), "UTC")
    description = _kept(errors, lambda: _text(body, "description", _LONGEST_TEXT), "")
    given = body.get("rules")
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_RULES:
        errors.append(BadValue("rules", given, f"a list of 1 to {MOST_RULES:,} rules"))
        given = []
    rules = []
    for place, rule in enumerate(given):
        try:
            rules.append(_rule(rule, timezone))
        except BadValue as exc:
            errors.append(exc.under(f"rules.{place}"))
    if sum("ics" in rule for rule in rules) > MOST_FEEDS:
        errors.append(BadValue("rules", None, f"at most {MOST_FEEDS} rules may be of ics; join the files"))
    if errors:
        raise BadValues(errors)
    return CalendarDefinition(timezone, tuple(rules), description)


def written_out_elsewhere(definition: CalendarDefinition) -> dict[int, Rule]:
    """Return the rules for holidays and iCalendar files, by their place."""
    return {place: rule for place, rule in enumerate(definition.rules) if "holidays" in rule or "ics" in rule}


def compile_rules(definition: CalendarDefinition, today: int, written_out: Mapping[int, IcsEvents]) -> Compiled:
    """Return the set of instants; `written_out` has what `written_out_elsewhere` names."""
    days: set[NamedDays] = set()
    spans: set[NamedSpan] = set()
    weekly: set[Weekly] = set()
    for place, rule in enumerate(definition.rules):
        name = rule.get("name", "")
        if place in written_out:
            found = written_out[place]
            days |= {each._replace(name=name or each.name) for each in found.days}
            spans |= {each._replace(name=name or each.name) for each in found.spans}
        elif "date" in rule:
            day = day_number(rule["date"], "date")
            days.add(NamedDays(day, day, name))
        elif "weekly" in rule:
            weekly |= {_weekly(each, name) for each in rule["weekly"]}
        elif len(rule["from"]) == _DAY_LENGTH:
            days.add(NamedDays(day_number(rule["from"], "from"), day_number(rule["until"], "until"), name))
        else:
            start, end = (moment(rule[key], key, definition.timezone) for key in ("from", "until"))
            spans.add(NamedSpan(start, end, name))
    return Compiled(
        definition.timezone, tuple(sorted(days)), tuple(sorted(spans)), tuple(sorted(weekly)),
        known_until(definition, today),
    )  # fmt: skip


def known_until(definition: CalendarDefinition, today: int) -> int | None:
    """Return the last day up to which all of it is written out; None where no rule is."""
    last = {
        "holidays": (date(holiday_years(today)[-1], 12, 31) - _EPOCH).days,
        "ics": ics_window(today)[1] - 1,
    }
    return min((last[kind] for rule in definition.rules for kind in last if kind in rule), default=None)


def _rule(given: Any, timezone: str) -> Rule:
    if not isinstance(given, Mapping):
        raise BadValue("", given, f"an object; {_ONE_OF}")
    leading = [key for key in _LEADING if key in given]
    if len(leading) != 1:
        raise BadValue("", leading or None, _ONE_OF)
    (kind,) = leading
    read, known = _READERS[kind]
    _only(given, (*known, "name"))
    name = _text(given, "name", MOST_NAME)
    return {**read(given, timezone), **({"name": name} if name else {})}


def _date(given: Rule, timezone: str) -> Rule:
    day_number(given["date"], "date")
    return {"date": given["date"]}


def _range(given: Rule, timezone: str) -> Rule:
    if given.get("until") is None:
        raise BadValue("until", None, "give the last day, or the time of the end")
    texts = {key: given[key] for key in ("from", "until")}
    by_days = [isinstance(text, str) and len(text) == _DAY_LENGTH for text in texts.values()]
    if by_days[0] != by_days[1]:
        raise BadValue("until", texts["until"], "give two days, or two times")
    low, high = (day_number(text, key) if by_days[0] else moment(text, key, timezone) for key, text in texts.items())
    if high < low + (not by_days[0]):
        raise BadValue("until", texts["until"], "it must be after `from`; a day belongs to the rule, a time ends it")
    return texts


def _holidays(given: Rule, timezone: str) -> Rule:
    texts = {key: given[key] for key in ("holidays", "subdivision") if given.get(key) is not None}
    for key, text in texts.items():
        if not isinstance(text, str) or not is_storable(text) or not 1 <= len(text) <= MOST_NAME:
            raise BadValue(key, text, "give its code, such as DE, and BE of it")
    if "holidays" not in texts:
        raise BadValue("holidays", None, "give the two letters of a country by ISO 3166-1, such as DE")
    return texts


def _weekly_times(given: Rule, timezone: str) -> Rule:
    listed = given["weekly"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST_TIMES:
        raise BadValue("weekly", listed, f"a list of 1 to {_MOST_TIMES} times, such as {{'days': 'sat,sun'}}")
    times = []
    for place, each in enumerate(listed):
        try:
            times.append(_times(each))
        except BadValue as exc:
            raise exc.under(f"weekly.{place}") from None
    return {"weekly": times}


def _times(given: Any) -> Rule:
    if not isinstance(given, Mapping):
        raise BadValue("", given, "an object with days, from, until")
    _only(given, ("days", "from", "until"))
    if (given.get("from") is None) != (given.get("until") is None):
        raise BadValue("until" if given.get("until") is None else "from", None, "give both, or none for whole days")
    days = {"days": weekdays(given, "days")}
    if given.get("from") is None:
        return days
    texts = {key: time_text(time_of_day(given[key], key)) for key in ("from", "until")}
    return days if texts["from"] == texts["until"] == "00:00" else {**days, **texts}


def _weekly(times: Rule, name: str) -> Weekly:
    start, end = (time_of_day(times.get(key, "00:00"), key) for key in ("from", "until"))
    return Weekly(weekday_mask(times["days"]), start, end, name)


def _ics(given: Rule, timezone: str) -> Rule:
    source = given["ics"]
    if not isinstance(source, Mapping) or len(source) != 1 or not {*source} <= {"url", "text"}:
        raise BadValue("ics", source, "give {'url': ...} to subscribe to it, or {'text': ...} with the file itself")
    ((kind, text),) = source.items()
    if not isinstance(text, str) or not text or not is_storable(text):
        raise BadValue(f"ics.{kind}", text, "give it as text")
    if kind == "url" and len(text) > _LONGEST_URL:
        raise BadValue("ics.url", text, f"at most {_LONGEST_URL:,} letters")
    return {"ics": {kind: text}}


_READERS: Final[Mapping[str, tuple[Callable[[Rule, str], Rule], tuple[str, ...]]]] = {
    "date": (_date, ("date",)),
    "from": (_range, ("from", "until")),
    "holidays": (_holidays, ("holidays", "subdivision")),
    "weekly": (_weekly_times, ("weekly",)),
    "ics": (_ics, ("ics",)),
}


def _only(given: Rule, known: tuple[str, ...]) -> None:
    errors: list[BadValue] = []
    refuse_unknown(given, {*known}, errors)
    if errors:
        raise errors[0]


def _text(body: Mapping[str, Any], key: str, longest: int) -> str:
    value = body.get(key)
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > longest or not is_storable(value):
        raise BadValue(key, value, f"text of at most {longest:,} letters")
    return value


def _kept(errors: list[BadValue], read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except BadValue as exc:
        errors.append(exc)
        return otherwise
