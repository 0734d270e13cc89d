"""APScheduler 3's cron trigger in our words. Pure.

Its weekdays count from Monday (0), all of its fields are joined by *and*. A time that the clocks skip is as much later,
and a repeated one counts twice.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from scheduler_service.core.schedules.cron_fields import DAY, HOUR, MINUTE, MONTH, SECOND, YEAR, FieldKind
from scheduler_service.core.schedules.special_days import WEEKDAYS
from scheduler_service.migrating.converted import CannotConvert
from scheduler_service.migrating.explicit_fields import explicit

_NTH: Final = re.compile(r"(1st|2nd|3rd|4th|5th|last) (\w{3})", re.ASCII)
_ORDINALS: Final = {"1st": "1", "2nd": "2", "3rd": "3", "4th": "4", "5th": "5"}
_SPAN: Final = re.compile(r"(\w+)(?:-(\w+))?(?:/(\d+))?", re.ASCII)
_EVERY: Final = re.compile(r"\*/(\d+)", re.ASCII)
_FROM_MONDAY: Final = (*WEEKDAYS[1:], WEEKDAYS[0])


def cron_spec(fields: Mapping[str, str], timezone: str) -> dict[str, Any]:
    """Our schedule of the trigger's fields; CannotConvert for ISO weeks and for days that no field of ours can say."""
    if fields["week"] != "*":
        raise CannotConvert(f"its week {fields['week']} counts ISO weeks: no cron line does")
    day, nth = _days(fields["day"])
    weekday = _weekdays(fields["day_of_week"])
    if nth and (day or weekday != "*"):
        raise CannotConvert(f"its day {fields['day']} joins weekdays with other days: write a job for each")
    texts = {MINUTE: fields["minute"], HOUR: fields["hour"], DAY: day or "*", MONTH: fields["month"]}
    expr = [explicit(kind, text, timezone) for kind, text in texts.items()]
    expr.append(nth or weekday)
    second, year = _plain(SECOND, fields["second"]), _plain(YEAR, fields["year"])
    expr += [second, year] if year != "*" else [second] if second != "0" else []
    rules = {} if "*" in (expr[2], expr[4]) else {"day_match": "and"}
    rules |= {"dst_gap": "shift", "dst_fold": "both"} if timezone != "UTC" else {}
    return {"kind": "cron", "expr": " ".join(expr), "timezone": timezone, **rules}


def _plain(kind: FieldKind, text: str) -> str:
    return text if text == "*" else explicit(kind, text, "")


def _days(text: str) -> tuple[str, str]:
    """The days of the month, and the nth weekdays, either of which may be empty."""
    days, nth = [], []
    for item in text.lower().split(","):
        found = _NTH.fullmatch(item.strip())
        if found and found[2] in WEEKDAYS:
            number = WEEKDAYS.index(found[2])
            nth.append(f"L{number}" if found[1] == "last" else f"{number}#{_ORDINALS[found[1]]}")
        elif item.strip() == "last":
            days.append("L")
        else:
            days.append(item.strip())
    return ("" if days == ["*"] and nth else ",".join(days)), ",".join(nth)


def _weekdays(text: str) -> str:
    """Weekdays that count from Monday as those that count from Sunday."""
    if text == "*":
        return "*"
    found: set[int] = set()
    for item in text.lower().split(","):
        if every := _EVERY.fullmatch(item):
            found |= set(range(0, 7, int(every[1])))
            continue
        span = _SPAN.fullmatch(item)
        if span is None:
            raise CannotConvert(f"its day_of_week {item!r} is not understood")
        low = _weekday(span[1])
        high = _weekday(span[2]) if span[2] else 6 if span[3] else low
        found |= set(range(low, high + 1, int(span[3] or 1)))
    return "*" if len(found) == 7 else ",".join(str(number) for number in sorted((day + 1) % 7 for day in found))


def _weekday(text: str) -> int:
    if text in _FROM_MONDAY:
        return _FROM_MONDAY.index(text)
    if text in ("0", "1", "2", "3", "4", "5", "6"):
        return int(text)
    raise CannotConvert(f"its day_of_week {text!r} is not understood: 0 is Monday, 6 is Sunday")
