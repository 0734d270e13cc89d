"""Rules of a calendar as lines of text, one a rule, for the command line and the dashboard's form. Pure.

`2026-12-24 Christmas Eve`, `2026-12-24..2027-01-02 Closed`, `2026-03-01T02:00..2026-03-01T06:00 Moving`,
`holidays DE-BE`, `weekly sat,sun`, `weekly sun 02:00-04:00 Maintenance`, `ics https://example.com/closed.ics`.
The words behind a rule are its name.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from itinerary.protocol.errors import BadValue

Rule = Mapping[str, Any]

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_HOURS: Final = re.compile(r"(\d\d?:\d\d(?::\d\d)?)-(\d\d?:\d\d(?::\d\d)?)")
# What begins like this is a part of the rule that is written another way, not a name: a whole day would be closed.
_NO_NAME: Final = re.compile(r"\d\d?\s*[-\u2013\u2014]\s*\d|\d\d?[:.]\d\d|\d{4}-\d\d|\.\.|[-\u2013\u2014]\s*\d")
_WEEKDAYS: Final = re.compile(r"((to|and)\s+)?(sun|mon|tue|wed|thu|fri|sat)\b", re.IGNORECASE)
_SUBDIVISION: Final = re.compile(r"[A-Z0-9]{1,3}")
FORMS: Final = (
    "one of: a date, two dates or times with .. between, holidays DE or DE-BE, weekly sat,sun, "
    "weekly sun 02:00-04:00, ics https://..."
)


def read_line(line: str) -> Rule:
    """Return the rule as JSON; BadValue for a line of no form. `read_calendar` judges the values."""
    head, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if head in ("holidays", "weekly", "ics"):
        what, _, name = rest.partition(" ")
        if not what:
            raise BadValue("", line, FORMS)
        if head == "holidays" and _SUBDIVISION.fullmatch(name.strip()):
            raise BadValue("", line, f"write a subdivision as {what}-{name.strip()}")
        return _named(name, _of_word(head, what)) if head != "weekly" else _weekly(what, name.strip())
    first, dots, last = head.partition("..")
    if dots and last:
        return _named(rest, {"from": first, "until": last})
    if _DAY.fullmatch(first) and not dots:
        return _named(rest, {"date": first})
    raise BadValue("", line, FORMS)


def lines_of(rules: Iterable[Rule]) -> list[str] | None:
    """Return the lines that read as these rules; None if one of them, such as the text of a file, is no line."""
    lines = [line for rule in rules for line in _lines(rule)]
    return lines if _reads_as(lines, rules) else None


def _of_word(head: str, what: str) -> Rule:
    if head == "ics":
        return {"ics": {"url": what}}
    country, _, subdivision = what.partition("-")
    return {"holidays": country, **({"subdivision": subdivision} if subdivision else {})}


def _weekly(days: str, rest: str) -> Rule:
    hours, _, name = rest.partition(" ")
    found = _HOURS.fullmatch(hours)
    if found is None:
        if _WEEKDAYS.match(rest):
            raise BadValue("", rest, "write several days without a space, as sat,sun or mon-fri")
        return _named(rest, {"weekly": [{"days": days}]})
    return _named(name, {"weekly": [{"days": days, "from": found[1], "until": found[2]}]})


def _named(name: str, rule: Rule) -> Rule:
    if _NO_NAME.match(name.strip()):
        raise BadValue("", name.strip(), f"begin a name with a word, and write a time as {FORMS}")
    return {**rule, **({"name": name.strip()} if name.strip() else {})}


def _lines(rule: Rule) -> list[str]:
    name = f" {rule['name']}" if rule.get("name") else ""
    if "weekly" in rule:
        return [f"weekly {_times(each)}{name}" for each in rule["weekly"]]
    if "holidays" in rule:
        within = f"-{rule['subdivision']}" if rule.get("subdivision") else ""
        return [f"holidays {rule['holidays']}{within}{name}"]
    if "ics" in rule:
        return [f"ics {rule['ics'].get('url', '')}{name}"]
    return [f"{rule['date']}{name}" if "date" in rule else f"{rule['from']}..{rule['until']}{name}"]


def _times(each: Mapping[str, Any]) -> str:
    days = each["days"] if isinstance(each["days"], str) else ",".join(each["days"])
    return f"{days} {each['from']}-{each['until']}" if "from" in each else days


def _reads_as(lines: list[str], rules: Iterable[Rule]) -> bool:
    try:
        read = [rule for line in lines for rule in _each_time(read_line(line))]
    except BadValue:
        return False
    return not any("\n" in line for line in lines) and read == [one for rule in rules for one in _each_time(rule)]


def _each_time(rule: Rule) -> list[Rule]:
    """Return a rule of several weekly times as one rule for each, with the days as a list."""
    if "weekly" not in rule:
        return [rule]
    return [{**rule, "weekly": [{**each, "days": _day_list(each["days"])}]} for each in rule["weekly"]]


def _day_list(days: Any) -> list[str]:
    return days.split(",") if isinstance(days, str) else list(days)
