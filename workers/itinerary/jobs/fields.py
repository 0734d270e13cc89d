"""The fields of a job as Python programs give them, typed for editors and type checkers."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

Duration = str | timedelta
Moment = str | datetime
Overlap = Literal["skip", "allow", "queue", "queue_all", "cancel_running"]
MisfirePolicy = Literal["fire_once", "fire_all", "skip"]
Priority = Literal[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
CronDialect = Literal["quartz", "spring"]
DayMatch = Literal["or", "and"]
GapRule = Literal["next_valid", "shift", "skip"]
FoldRule = Literal["first", "last", "both"]
Unit = Literal["day", "week", "month", "year"]
Weekday = Literal["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
MonthWeekday = Weekday | Literal["workday"]

WindowDays = TypedDict("WindowDays", {"from": str, "until": str})


class Window(WindowDays, total=False):
    """Hours of a day, such as 09:00 to 17:00, and the weekdays on which they begin: `mon-fri`."""

    days: str | Sequence[Weekday]


SolarEvent = Literal[
    "dawn_astronomical",
    "dawn_nautical",
    "dawn_civil",
    "sunrise",
    "solar_noon",
    "sunset",
    "dusk_civil",
    "dusk_nautical",
    "dusk_astronomical",
]


class Retry(TypedDict, total=False):
    """Retries of a failed attempt, with pauses that grow by `factor` from `initial` to `max`."""

    max_attempts: int
    initial: Duration
    factor: float
    max: Duration
    jitter: bool


class Misfire(TypedDict, total=False):
    """The rule for occurrences that could not be dispatched within `grace`."""

    policy: MisfirePolicy
    grace: Duration
    max_catch_up: int


KeyFrom = TypedDict("KeyFrom", {"from": str})
"""The argument that the key of each run is taken from, such as `kwargs.tenant`."""


class Limit(TypedDict):
    """A limit with keys, and the key for which it counts the runs."""

    name: str
    key: str | KeyFrom


class Calendars(TypedDict, total=False):
    """The calendars that leave out or move a job's occurrences, by id."""

    exclude: Sequence[str]
    only: Sequence[str]
    when_excluded: Literal["skip", "next_day", "previous_day"]
    workdays: str


class PingAddress(TypedDict):
    """The address of a job's pings."""

    url: str


class Ping(PingAddress, total=False):
    """The address that hears of a job's events."""

    on: Sequence[Literal["start", "success", "failure"]]
    style: Literal["plain", "healthchecks", "sentry"]


class JobFields(TypedDict, total=False):
    """The fields of a job beside its id, its task and its schedule; the service has a default for each."""

    title: str
    description: str
    tags: Sequence[str]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    headers: Mapping[str, Any]
    queue: str
    priority: Priority
    start_at: Moment
    end_at: Moment
    jitter: Duration
    misfire: Misfire
    overlap: Overlap
    retry: Retry
    timeout: Duration
    start_within: Duration
    must_end_within: Duration
    limits: Sequence[str | Limit]
    fair_key: str | KeyFrom
    calendars: Calendars
    ping: Ping
    keep_logs: Literal["failures", "all", "none"]
