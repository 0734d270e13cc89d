"""Lines of other programs: six or seven fields with the seconds first, and RRULE text.

Quartz, Spring, node-cron, Cronos and others put the seconds first; here they are last. Such a line is often valid here
too, with another meaning. Only text: the caller judges whether a reading is a valid line.
"""

import re
from collections.abc import Sequence
from typing import Final

_RRULE: Final = re.compile(r"(^|[:;\s])(rrule|freq|dtstart|byday|interval|exdate|rdate)\s*[:=]", re.ASCII)
RRULE_ADVICE: Final = (
    "RRULE text is not read here; give a cron line, an interval, or a calendar schedule such as "
    '{"kind": "calendar", "every": 2, "unit": "week", "weekdays": ["mon"], "at": ["09:00"]}'
)
_DAY: Final = r"(?:[0-7]|sun|mon|tue|wed|thu|fri|sat)"
_WEEKDAY_LIKE: Final = re.compile(rf"\*|\?|{_DAY}(?:[-,#]{_DAY})*|l{_DAY}|{_DAY}l", re.ASCII)
_NUMBERED: Final = re.compile(r"(?<![\d#])[1-7]", re.ASCII)


def is_rrule(text: str) -> bool:
    """Whether a lower-case text follows RFC 5545."""
    return _RRULE.search(text) is not None


def seconds_first(text: str) -> str | None:
    """Return the line in this dialect if its fields may have been written with the seconds first; else None."""
    parts = text.split(" ")
    if len(parts) not in (6, 7) or not _WEEKDAY_LIKE.fullmatch(parts[5]):
        return None
    first, rest, year = parts[0], parts[1:6], parts[6:]
    rest = ["*" if part == "?" else part for part in rest]
    if year in ([], ["*"], ["?"]):
        return " ".join(rest if first == "0" else [*rest, first])
    return " ".join([*rest, first, *year])


def means_more_than_a_second(text: str) -> bool:
    """Whether a valid line's last field, the seconds here, looks like a day of week; `0` is common here."""
    parts = text.split(" ")
    # Each second of each minute is the same in both readings.
    return parts[5] != "0" and not (parts[0] == "*" and parts[5] == "*")


def advice(text: str, reading: str | None, dialects: Sequence[str]) -> str:
    """Return the advice for a line that may have been meant in the other order, or in one of `dialects`."""
    parts = "seconds are last here"
    if reading is not None:
        parts += f"; did you mean {reading!r}?"
        if _NUMBERED.search(text.split(" ")[5]):
            parts += " (in Quartz 1 is Sunday, here it is Monday)"
    if dialects:
        named = " or ".join(f'"{dialect}"' for dialect in dialects)
        parts += f"{'' if reading else '.'} For a line of another program give the field dialect: {named}"
    return parts
