"""The kinds of schedules in requests, for the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from scheduler_service.api.openapi.patterns import CLOCK, DATE, WALL, Duration, WallOrTime, Zone


class Strict(BaseModel):
    """No unknown fields, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class Cron(Strict):
    """A cron expression: five fields, or six with seconds last; or a line of the `dialect`."""

    kind: Literal["cron"]
    expr: str = Field(max_length=256, pattern=r"^[ -~\t]+$", examples=["0 2 1 * *"])
    dialect: Literal["quartz", "spring"] | None = Field(
        None, description="The program whose line it is: seconds first, weekdays as that program counts them"
    )
    timezone: Zone = "UTC"
    day_match: Literal["or", "and"] = Field(
        "or", description="Default: or; and where the dialect is spring",
        json_schema_extra=_without_default,
    )  # fmt: skip
    dst_gap: Literal["next_valid", "shift", "skip"] = "next_valid"
    dst_fold: Literal["first", "last", "both"] = Field(
        "first", description="Default: first, or both if the line has seconds",
        json_schema_extra=_without_default,
    )  # fmt: skip


class Hourly(Strict):
    """Every hour at a minute."""

    kind: Literal["hourly"]
    minute: int = Field(ge=0, le=59)
    timezone: Zone = "UTC"


class Window(Strict):
    """Hours of a day, `[from, until)`; an `until` that is not later than `from` is on the next day."""

    opens: str = Field(alias="from", pattern=f"^{CLOCK}$", examples=["09:00"])
    until: str = Field(pattern=f"^{CLOCK}$", examples=["17:00"])
    days: Annotated[str, Field(max_length=100)] | list[Annotated[str, Field(max_length=20)]] | None = Field(
        None, examples=["mon-fri"], description="Weekdays on which it opens; default: every day"
    )


class Interval(Strict):
    """A rhythm in elapsed time."""

    kind: Literal["interval"]
    every: Duration
    offset: Duration | None = None
    anchor: WallOrTime | None = None
    timezone: Zone = "UTC"
    balanced: bool = False
    pinned: bool = False
    window: Window | None = Field(None, description="The count begins anew at each opening")


class Calendar(Strict):
    """Every N days, weeks or months, at wall times."""

    kind: Literal["calendar"]
    every: int = Field(1, ge=1, le=3660, description="At most 3,660 days, 520 weeks or 120 months")
    unit: Literal["day", "week", "month"]
    at: list[Annotated[str, Field(pattern=f"^{CLOCK}$")]] | None = Field(
        None, max_length=288, examples=[["05:30"]], description="Wall times; without one 00:00, or that of `start`"
    )
    days: list[Annotated[int, Field(ge=-31, le=31, json_schema_extra={"not": {"const": 0}})]] | None = Field(
        None, max_length=62, description="Days of the month; -1 is the last. For the unit month only"
    )
    weekdays: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun", "workday"]] | None = Field(
        None, max_length=14, examples=[["mon"]],
        description="For the unit week; for the unit month with `nth`, where workday alone is Monday to Friday",
    )  # fmt: skip
    nth: list[Annotated[int, Field(ge=-23, le=23, json_schema_extra={"not": {"const": 0}})]] | None = Field(
        None, max_length=62, examples=[[2]],
        description="For the unit month: which of each weekday, or of the workdays; -1 is the last",
    )  # fmt: skip
    start: Annotated[str, Field(pattern=f"^({DATE}|{WALL})$")] | None = Field(
        None, description="The date, or wall time, to count from"
    )
    timezone: Zone = "UTC"


class Once(Strict):
    """One instant."""

    kind: Literal["once"]
    at: WallOrTime
    timezone: Zone | None = Field(None, description="The zone of an `at` without an offset; the answer is in UTC")


class Solar(Strict):
    """An event of the sun at a place, on each day that has it."""

    kind: Literal["solar"]
    event: Literal[
        "dawn_astronomical", "dawn_nautical", "dawn_civil", "sunrise", "solar_noon", "sunset", "dusk_civil",
        "dusk_nautical", "dusk_astronomical",
    ]  # fmt: skip
    latitude: float = Field(ge=-90, le=90, description="Degrees, north is positive", examples=[52.52])
    longitude: float = Field(ge=-180, le=180, description="Degrees, east is positive", examples=[13.405])
    timezone: Zone = "UTC"


class Recurrence(Strict):
    """A recurrence rule of RFC 5545, DAILY or coarser, in wall times of the zone."""

    kind: Literal["rrule"]
    rrule: str = Field(min_length=10, max_length=1_000, pattern=r"^[ -~]+$", examples=["FREQ=MONTHLY;BYDAY=2FR"])
    dtstart: str = Field(
        pattern=f"^{WALL}$", examples=["2026-01-09T09:00"],
        description="The wall time from which it counts; an occurrence only where the rule matches it",
    )  # fmt: skip
    exdate: list[Annotated[str, Field(pattern=f"^({DATE}|{WALL})$")]] | None = Field(
        None, max_length=1_000, examples=[["2026-12-25"]], description="Wall times, or whole days, that are left out"
    )
    timezone: Zone = "UTC"


_OneOf = Cron | Hourly | Interval | Calendar | Once | Solar | Recurrence


class AnyOf(Strict):
    """Every time of its members, each time once; each member may have a time zone of its own."""

    kind: Literal["any"]
    of: list[Annotated[_OneOf, Field(discriminator="kind")]] = Field(min_length=1, max_length=20)


class Schedule(RootModel[Annotated[_OneOf | AnyOf, Field(discriminator="kind")]]):
    """A schedule of one of the kinds."""
