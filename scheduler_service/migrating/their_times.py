"""When another scheduler would fire: asked of its own program or library, or of a plain model of what that does.

A crontab is asked of cronsim, which has the rules of Debian's cron; a calendar event of systemd-analyze. Where either
is missing, the error says how to get it. Intervals count from the start of the span, as if the scheduler began there.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import SECOND, Instant, from_datetime, parse_duration, to_datetime
from scheduler_service.core.schedules.cron import ALIASES
from scheduler_service.core.schedules.zones import offset_at, zone

Fires = Callable[[Instant, Instant], Sequence[Instant]]
"""The instants between two instants, the first of which is left out and the last."""

_MINUTE: Final = 60
_AT_ONCE: Final = 100
_PATIENCE: Final = 60.0
_ELAPSES: Final = re.compile(r"(?:Next elapse|Iter(?:ation|\.) #\d+): \w+ (\S+ \S+) UTC")


def interval_fires(spec: Mapping[str, Any]) -> Fires:
    """An interval of ours, counted from the start of the span."""
    every = parse_duration(spec["every"], "every")
    return lambda start, end: range(start + every, end, every)


def matching_minutes(timezone: str, start: Instant, end: Instant) -> Iterator[tuple[Instant, datetime]]:
    """Every whole minute of a span, with what the clocks of the zone show then."""
    for second in range(start // SECOND // _MINUTE * _MINUTE + _MINUTE, -(-end // SECOND), _MINUTE):
        shown = second + offset_at(timezone, second)
        yield second * SECOND, to_datetime(shown * SECOND).replace(tzinfo=None)


def cron_fires(expr: str, timezone: str) -> Fires:
    """A line of a crontab, as Debian's cron runs it; ItineraryError without cronsim."""

    def of(start: Instant, end: Instant) -> Sequence[Instant]:
        try:
            from cronsim import CronSim, CronSimError
        except ImportError as exc:
            install = f"install it for this service by {sys.executable} -m pip install cronsim"
            raise ItineraryError(f"a crontab is compared with cronsim, which is not installed: {install}") from exc
        found: list[Instant] = []
        try:
            for moment in CronSim(ALIASES.get(expr.lower(), expr), to_datetime(start).astimezone(zone(timezone))):
                if (at := from_datetime(moment)) >= end:
                    break
                found.append(at)
        except CronSimError as exc:
            raise NotTheirs(f"cron does not read {expr}: {exc}") from exc
        return found

    return of


class NotTheirs(Exception):
    """The other scheduler does not understand this entry itself; the text says what it says."""


def calendar_fires(event: str, timezone: str, has_zone: bool) -> Fires:
    """A calendar event of systemd's, meant in `timezone` unless it has its own; ItineraryError without its program."""
    named = event if has_zone else f"{event} {timezone}"

    def of(start: Instant, end: Instant) -> Sequence[Instant]:
        found: list[Instant] = []
        begin = start
        while some := _elapses(named, begin):
            found += some
            begin = some[-1]
            if begin >= end or len(some) < _AT_ONCE:
                break
        return [at for at in found if start < at < end]

    return of


def _elapses(event: str, after: Instant) -> list[Instant]:
    program = shutil.which("systemd-analyze")
    if program is None:
        where = "run this on a machine with systemd, such as the one of the timers"
        raise ItineraryError(f"timers are compared with systemd-analyze, which is not on PATH: {where}")
    base = f"--base-time={to_datetime(after):%Y-%m-%d %H:%M:%S} UTC"
    words = [program, "calendar", f"--iterations={_AT_ONCE}", base, event]
    ended = subprocess.run(
        words, capture_output=True, text=True, env={"TZ": "UTC", "LC_ALL": "C"}, timeout=_PATIENCE, check=False
    )
    if ended.returncode:
        raise NotTheirs(f"systemd does not read OnCalendar={event}: {' '.join(ended.stderr.split())[:200]}")
    times = [
        datetime.strptime(each, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) for each in _ELAPSES.findall(ended.stdout)
    ]
    return [at for at in map(from_datetime, times) if at > after]


def chained(due: Instant, following: Callable[[Instant], Instant | None], count: int | None) -> Fires:
    """The time `due`, then each that follows from the one before it, at most `count` in all."""

    def of(start: Instant, end: Instant) -> Sequence[Instant]:
        found: list[Instant] = []
        at: Instant | None = due
        left = -1 if count is None else count
        while at is not None and at < end and left:
            found += [at] if at > start else []
            at, left = following(at), left - 1
        return found

    return of


def naive_cron(masks: Sequence[int], timezone: str) -> Callable[[Instant], Instant]:
    """The next time of five fields, all of which match, on a clock that knows no zone, read in the zone thereafter.

    So rq-scheduler and the library `crontab` count: a time that the clocks skip is as much later, a repeated one is
    the first.
    """
    minutes, hours, days, months, weekdays = masks

    def on(wall: datetime) -> bool:
        return bool(days >> wall.day & 1 and months >> wall.month & 1 and weekdays >> wall.isoweekday() % 7 & 1)

    def following(at: Instant) -> Instant:
        wall = to_datetime(at).astimezone(zone(timezone)).replace(tzinfo=None, second=0, microsecond=0, fold=0)
        wall += timedelta(minutes=1)
        while True:
            if not on(wall):
                wall = wall.replace(hour=0, minute=0) + timedelta(days=1)
            elif not hours >> wall.hour & 1:
                wall = wall.replace(minute=0) + timedelta(hours=1)
            elif not minutes >> wall.minute & 1:
                wall += timedelta(minutes=1)
            else:
                return max(from_datetime(wall.replace(tzinfo=zone(timezone))), at + SECOND)

    return following
