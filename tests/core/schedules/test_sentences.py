"""What a cron line's sentence claims, read back without the product's own words, beside the times that fire."""

import random
import re
from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.schedules.describe import describe
from scheduler_service.core.schedules.schedule import occurrences, parse_schedule
from tests.support.cron_lines import random_line, random_line_of
from tests.support.examples import examples
from tests.support.moments import at

START = at("2026-11-01T00:00:00Z")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = r"\d\d:\d\d(?::\d\d)?"
_CLOCKS = re.compile(rf"at ({_TIME}(?:(?:, | and |, and ){_TIME})*)(?:,|$)", re.IGNORECASE)
_FIELDS = re.compile(
    r"At (?:(every second|second [\d, a-z]+?) of )?(every minute|minute [\d, a-z]+?) of (every hour|hour [\d, a-z]+?)"
    r", (?=every day|on )"
)
_SECONDS = re.compile(r"At (\d+) seconds past the minute(?:, |$)")
_BETWEEN = re.compile(r"between (\d\d):00 and (\d\d):59(?:,|$)")
_MINUTES = re.compile(r"every (?:(\d+) )?minutes?(?:, between (\d\d):00 and (\d\d):59)?(?:,|$)", re.IGNORECASE)
_HOURS = re.compile(r"(?:at (\d+) minutes past the hour, )?every (?:(\d+) )?hours?(?:,|$)", re.IGNORECASE)
_PAST = re.compile(r"at (\d+) minutes past the hour(?:,|$)", re.IGNORECASE)
Clock = tuple[int, int, int]


def clocks_of(sentence: str) -> set[Clock]:
    """The times of day that a sentence names; AssertionError where it is of no known form."""
    if found := _FIELDS.match(sentence):
        seconds = numbers(found[1], "second", 60) if found[1] else {0}
        minutes, hours = numbers(found[2], "minute", 60), numbers(found[3], "hour", 24)
        return {(h, m, s) for h in hours for m in minutes for s in seconds}
    second = 0
    if found := _SECONDS.match(sentence):
        second, sentence = int(found[1]), sentence[found.end() :]
    if found := _CLOCKS.match(sentence):
        texts = [text.split(":") for text in re.findall(_TIME, found[1])]
        return {(int(h), int(m), int(rest[0]) if rest else second) for h, m, *rest in texts}
    if found := _MINUTES.match(sentence):
        hours = set(range(24)) if found[2] is None else set(range(int(found[2]), int(found[3]) + 1))
        return {(h, m, second) for h in hours for m in range(0, 60, int(found[1] or 1))}
    if found := _HOURS.match(sentence):
        return {(h, int(found[1] or 0), second) for h in range(0, 24, int(found[2] or 1))}
    found = _PAST.match(sentence)
    if found is None and second:  # each minute of the hours that are named, or of all
        hours = _BETWEEN.match(sentence)
        low, high = (int(hours[1]), int(hours[2])) if hours else (0, 23)
        return {(h, m, second) for h in range(low, high + 1) for m in range(60)}
    assert found is not None, f"nobody can read {sentence!r}"
    return {(h, int(found[1]), second) for h in range(24)}


def numbers(words: str, unit: str, count: int) -> set[int]:
    if words == f"every {unit}":
        return set(range(count))
    parts = re.split(r", | and ", words.removeprefix(f"{unit} "))
    bounds = [[int(number) for number in part.split(" to ")] for part in parts]
    return {number for low, *high in bounds for number in range(low, (high or [low])[0] + 1)}


def weekdays_of(sentence: str) -> set[int]:
    """The weekdays that a sentence names, ordinals left out; all where it names none."""
    if found := re.search(rf"({'|'.join(WEEKDAYS)}) through ({'|'.join(WEEKDAYS)})", sentence):
        low, high = WEEKDAYS.index(found[1]), WEEKDAYS.index(found[2])
        named = {(low + n) % 7 for n in range((high - low) % 7 + 1)}
        sentence = sentence.replace(found[0], "")
    else:
        named = set()
    named |= {number for number, name in enumerate(WEEKDAYS) if name in sentence}
    return named or set(range(7))


def random_spec(dice: random.Random) -> tuple[dict[str, str], bool]:
    """A cron line of any dialect, and whether the weekday alone decides on its days, by more than an ordinal."""
    dialect = dice.choice((None, None, None, "quartz", "spring"))
    open_days = dice.random() < 0.7
    if dialect is None:
        line = random_line(dice, with_seconds=dice.random() < 0.3).text
        minute, hour, day, month, weekday, *more = line.split()
        day, month = ("*", "*") if open_days else (day, month)
        spec = {"kind": "cron", "expr": " ".join([minute, hour, day, month, weekday, *more])}
        return spec, (day, month) == ("*", "*") and "#" not in weekday
    line = random_line_of(dialect, dice).text
    second, minute, hour, day, month, weekday, *more = line.split()
    if open_days and weekday != "?":
        day, month, more = "?", "*", []
    spec = {"kind": "cron", "expr": " ".join([second, minute, hour, day, month, weekday, *more]), "dialect": dialect}
    return spec, day in ("*", "?") and month == "*" and not more and "#" not in weekday


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_a_sentence_claims_the_times_of_day_and_the_weekdays_that_fire(seed: int) -> None:
    line, by_weekday = random_spec(random.Random(seed))
    try:
        schedule = parse_schedule(line, job_id="a", created_at=START).schedule
    except BadValue:
        return
    sentence = describe(schedule).removesuffix(" (UTC)")
    first = next((d for d in range(800) if occurrences(schedule, START + d * DAY, START + (d + 1) * DAY)), None)
    if first is None:
        return
    fired = [datetime.fromtimestamp(t // SECOND, UTC) for t in
             occurrences(schedule, START + first * DAY, START + (first + 1) * DAY)]  # fmt: skip
    assert {(t.hour, t.minute, t.second) for t in fired} == clocks_of(sentence), (line, sentence)
    if not by_weekday:
        return
    days = {d % 7 for d in range(35) if occurrences(schedule, START + d * DAY, START + (d + 1) * DAY)}
    start = datetime.fromtimestamp(START // SECOND, UTC).weekday()
    assert {(start + d) % 7 for d in days} == weekdays_of(sentence), (line, sentence)
