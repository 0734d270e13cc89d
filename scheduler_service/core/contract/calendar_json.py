"""The calendars that a job names as JSON. Loads no schedules: the command line reads this."""

from typing import Any, Final, get_args

from itinerary.protocol.errors import BadValue
from itinerary.protocol.field_types import FieldType, read_list, read_object
from itinerary.protocol.limits import LIMIT, LIMIT_RULE
from scheduler_service.core.calendars.model import JobCalendars, WhenExcluded
from scheduler_service.core.memo import shared

MOST_CALENDARS: Final = 20
CALENDAR_ID: Final = LIMIT
WHEN_EXCLUDED: Final[tuple[str, ...]] = get_args(WhenExcluded)
FIELDS: Final = ("exclude", "only", "when_excluded", "workdays")


class Calendars(FieldType):
    """An object of `exclude`, `only`, `when_excluded` and `workdays`, of which one names a calendar."""

    def read(self, value: Any, field: str) -> JobCalendars:
        """Return what the job says of its calendars; equal ones are one object."""
        return _read(value, field)

    def write(self, value: JobCalendars) -> dict[str, Any]:
        """Return all four, in their order."""
        return {
            "exclude": list(value.exclude), "only": list(value.only), "when_excluded": value.when_excluded,
            "workdays": value.workdays,
        }  # fmt: skip


CALENDARS: Final = Calendars()


@shared
def _read(value: Any, field: str) -> JobCalendars:
    body = read_object(value, field)
    for name in sorted(body.keys() - set(FIELDS)):
        raise BadValue(f"{field}.{name}", body[name], f"this field is not known; known are {', '.join(FIELDS)}")
    exclude, only = (_ids(body.get(name), f"{field}.{name}") for name in ("exclude", "only"))
    for one in only:
        if one in exclude:
            raise BadValue(f"{field}.only", one, "name a calendar in exclude or in only, not in both")
    moved: Any = "skip" if body.get("when_excluded") is None else body["when_excluded"]
    if moved not in WHEN_EXCLUDED:
        raise BadValue(f"{field}.when_excluded", moved, f"choose one of {', '.join(WHEN_EXCLUDED)}")
    workdays = body.get("workdays")
    if workdays is not None:
        workdays = _id(workdays, f"{field}.workdays")
    if not (exclude or only):
        if moved != "skip":
            raise BadValue(f"{field}.when_excluded", moved, "give calendars in exclude or only, or leave it out")
        if workdays is None:
            raise BadValue(field, value, "name a calendar in exclude, only or workdays; null for none")
    return JobCalendars(exclude, only, moved, workdays)


def _ids(value: Any, field: str) -> tuple[str, ...]:
    given = [] if value is None else read_list(value, field)
    if len(given) > MOST_CALENDARS:
        raise BadValue(field, f"a list of {len(given)}", f"give at most {MOST_CALENDARS} calendars")
    return tuple(dict.fromkeys(_id(one, f"{field}.{place}") for place, one in enumerate(given)))


def _id(value: Any, field: str) -> str:
    if not isinstance(value, str) or not CALENDAR_ID.fullmatch(value):
        raise BadValue(field, value, f"give the id of a calendar; {LIMIT_RULE}")
    return value
