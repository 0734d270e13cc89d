"""The sentences of all kinds, read back without the product's own words, beside the days and times that fire."""

import random
import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import Schedule, occurrences, parse_schedule
from scheduler_service.core.schedules.zones import zone
from tests.support.cron_lines import random_line, random_line_of
from tests.support.moments import at
from tests.support.sentence_days import WEEKDAYS, Claim, claimed_days

pytestmark = pytest.mark.slow
START = at("2026-11-01T00:00:00Z")
FIRST = date(2026, 11, 1)
# Clocks that skip hours in the night, and in Santiago the midnight of a day.
ZONES = ("UTC", "Europe/Berlin", "America/Santiago", "Asia/Kathmandu")
SHORT = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CALENDAR = re.compile(
    r"Every (?:(\d+) )?(day|week|month)s?(?: on (.+?))? at ([\d:, and]+?)"
    r"(?:, (?:counted )?from (\d{4}-\d\d-\d\d)( [\d:]+)?)?"
)  # fmt: skip
_UNITS = {"week": 7 * 86_400, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
_WINDOW = re.compile(
    r"Every (.+?) from (\d\d):(\d\d) until before (\d\d):(\d\d)( of the next day)?(?:, beginning (.+?) after it opens)?"
    r", (every day|on .+)"
)


def read(spec: dict[str, object]) -> Schedule | None:
    try:
        return parse_schedule(spec, job_id="a", created_at=START).schedule
    except BadValue:
        return None


def fired_in(schedule: Schedule, info: ZoneInfo, days: int) -> list[datetime]:
    found = occurrences(schedule, START, START + days * DAY)
    return [datetime.fromtimestamp(instant / SECOND, UTC).astimezone(info) for instant in found]


def hold(spec: dict[str, object], claim: Claim, days: int, sentence: str) -> None:
    """Each day that the sentence claims has a run, and no other has; the last two are not whole here."""
    schedule = read(spec)
    assert schedule is not None
    fired = {moment.date() for moment in fired_in(schedule, zone(str(spec["timezone"])), days)}
    named = (FIRST + timedelta(days=n) for n in range(1, days - 2))
    wrong = next((day for day in named if claim(day) != (day in fired)), None)
    assert wrong is None, (spec, sentence, wrong)


def cron_spec(dice: random.Random) -> dict[str, object]:
    dialect = dice.choice((None, None, None, "quartz", "spring"))
    if dialect is None:
        line = " ".join(["7 0", *random_line(dice, with_seconds=False).text.split()[2:]])
        line += dice.choice(("", "", "", " 0 2026-2027,2029"))
        more: dict[str, object] = {"day_match": dice.choice(("or", "and"))}
    else:
        line = " ".join(["0 7 0", *random_line_of(dialect, dice).text.split()[3:]])
        more = {"dialect": dialect}
    return {"kind": "cron", "expr": line, "timezone": dice.choice(ZONES), **more}


def test_a_cron_line_s_sentence_claims_the_days_that_fire() -> None:
    seen = 0
    for seed in range(120):
        spec = cron_spec(random.Random(seed))
        schedule = read(spec)
        if schedule is None:
            continue
        sentence = describe(schedule).removesuffix(f" ({spec['timezone']})")
        assert sentence.startswith("At 00:07"), sentence
        hold(spec, claimed_days(sentence.removeprefix("At 00:07").removeprefix(", ")), 1_000, sentence)
        seen += 1
    assert seen > 90


def calendar_spec(dice: random.Random) -> dict[str, object]:
    unit = dice.choice(("day", "week", "month"))
    spec: dict[str, object] = {
        "kind": "calendar", "every": dice.choice((1, 1, 2, 3)), "unit": unit, "timezone": dice.choice(ZONES),
        "at": dice.sample(("00:30", "09:00", "14:05", "23:59"), dice.choice((1, 1, 2))),
    }  # fmt: skip
    if unit == "week":
        spec["weekdays"] = dice.sample(SHORT, dice.choice((1, 2, 3)))
    if unit == "month" and dice.random() < 0.5:
        spec["weekdays"] = dice.choice((["workday"], dice.sample(SHORT, 1), dice.sample(SHORT, 2)))
        spec["nth"] = dice.sample((1, 2, 3, -1, -2), dice.choice((1, 2)))
    elif unit == "month":
        spec["days"] = dice.sample((1, 2, 15, 30, 31, -1, -2, -31), dice.choice((1, 2)))
    if dice.random() < 0.5:
        spec["start"] = dice.choice(("2026-12-05", "2026-11-20", "2026-12-31"))
    return spec


def calendar_claim(sentence: str) -> Claim:
    found = _CALENDAR.fullmatch(sentence)
    assert found is not None, f"nobody can read {sentence!r}"
    every, unit, on, start = int(found[1] or 1), found[2], found[3], found[5]
    first = date.fromisoformat(start) if start else FIRST
    named = _calendar_days(unit, on)
    return lambda day: day >= first and _units(unit, first, day) % every == 0 and named(day)


def _units(unit: str, first: date, day: date) -> int:
    if unit == "day":
        return (day - first).days
    if unit == "month":
        return 12 * (day.year - first.year) + day.month - first.month
    return (day - first + timedelta(days=first.weekday())).days // 7


def _calendar_days(unit: str, on: str | None) -> Claim:
    if unit == "day":
        return lambda day: True
    assert on is not None
    parts = re.split(r", | and ", on)
    if unit == "week":
        return lambda day: WEEKDAYS[day.weekday()] in parts
    claims = [_month_claim(part) for part in parts]
    return lambda day: any(claim(day) for claim in claims)


def _month_claim(part: str) -> Claim:
    def month_of(day: date) -> list[date]:
        days = (day.replace(day=1) + timedelta(days=n) for n in range(31))
        return [each for each in days if each.month == day.month]

    if found := re.fullmatch(r"day (\d+)( from the end)?", part):
        back, number = found[2] is not None, int(found[1])
        return lambda day: number <= len(month_of(day)) and day == month_of(day)[-number if back else number - 1]
    if part == "the last day":
        return lambda day: day == month_of(day)[-1]
    found = re.fullmatch(r"the (?:(\d)(?:st|nd|rd)|(last))( to last)? (.+)", part)
    assert found is not None, f"nobody can read {part!r}"
    number, to_last, name = int(found[1] or 1), found[2] or found[3], found[4]

    def named(day: date) -> bool:
        return day.weekday() < 5 if name == "working day (Monday to Friday)" else WEEKDAYS[day.weekday()] == name

    def claim(day: date) -> bool:
        days = [each for each in month_of(day) if named(each)]
        return number <= len(days) and day == days[-number if to_last else number - 1]

    return claim


def test_a_calendar_s_sentence_claims_the_days_and_the_times_that_fire() -> None:
    for seed in range(60):
        spec = calendar_spec(random.Random(seed))
        schedule = read(spec)
        if schedule is None:
            continue
        sentence = describe(schedule).removesuffix(f" ({spec['timezone']})")
        hold(spec, calendar_claim(sentence), 500, sentence)
        # What a clock skips runs when it has passed: the other days show the times themselves.
        if spec["timezone"] == "UTC" and "from" not in sentence:
            fired = {moment.strftime("%H:%M") for moment in fired_in(schedule, zone("UTC"), 400)}
            assert fired == set(re.findall(r"\d\d:\d\d", sentence)), sentence


def seconds(words: str) -> int:
    parts = re.findall(r"(?:(\d+) )?(week|day|hour|minute|second)s?", words)
    return sum(int(number or 1) * _UNITS[unit] for number, unit in parts)


def test_an_interval_s_sentence_claims_its_times_and_a_window_s_too() -> None:
    for every in ("1s", "90s", "1h", "36h", "7d", "8d1h1m1s"):
        schedule = read({"kind": "interval", "every": every})
        assert schedule is not None
        rhythm, first = re.fullmatch(r"Every (.+), counted from (.+)", describe(schedule)).groups()  # type: ignore[union-attr]
        begins, step = at(first), seconds(rhythm) * SECOND
        times = occurrences(schedule, begins, begins + 3 * step)
        assert times == [begins, begins + step, begins + 2 * step]
    dice = random.Random(5)
    for _ in range(60):
        window = {"from": f"{dice.randrange(24):02}:{dice.choice((0, 30)):02}", "until": f"{dice.randrange(24):02}:00"}
        days = dice.sample(SHORT, dice.choice((1, 3, 7)))
        spec = {"kind": "interval", "every": dice.choice(("25m", "1h", "90m")), "window": {**window, "days": days}}
        schedule = read({**spec, "offset": dice.choice(("0s", "10m"))})
        if schedule is not None:
            assert occurrences(schedule, START, START + 15 * DAY) == window_times(describe(schedule)), describe(
                schedule
            )


def window_times(sentence: str) -> list[int]:
    found = _WINDOW.fullmatch(sentence.removesuffix(" (UTC)"))
    assert found is not None, f"nobody can read {sentence!r}"
    step, opens, closes = seconds(found[1]), _of_day(found[2], found[3]), _of_day(found[4], found[5])
    length = closes + (86_400 if found[6] else 0) - opens
    days = claimed_days(found[8])
    starts = [START // SECOND + 86_400 * n + opens for n in range(-1, 15) if days(FIRST + timedelta(days=n))]
    times = {start + t for start in starts for t in range(seconds(found[7]) if found[7] else 0, length, step)}
    low, high = START // SECOND, START // SECOND + 15 * 86_400
    return [time * SECOND for time in sorted(times) if low <= time < high]


def _of_day(hour: str, minute: str) -> int:
    return 3_600 * int(hour) + 60 * int(minute)


def test_a_union_s_sentence_is_those_of_its_members_and_an_hourly_job_s_names_its_minute() -> None:
    of = [{"kind": "cron", "expr": "0 9 * * 1"}, {"kind": "hourly", "minute": 7}]
    schedule = read({"kind": "any", "of": of})
    assert schedule is not None
    members = [read(member) for member in of]
    texts = [describe(member) for member in members if member is not None]
    assert describe(schedule).casefold() == "; or ".join(texts).casefold()
    assert texts[1] == "At 7 minutes past every hour (UTC)"
