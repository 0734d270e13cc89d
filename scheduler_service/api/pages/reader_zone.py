"""The zone in which a page writes its times and reads typed ones: UTC, the reader's own, the job's, or the address's.

A cookie keeps the reader's choice, another the zone of the browser, which its script knows. The choice holds for the
request in whose context it was begun. Promises: one page shows one zone, and names it.
"""

from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import unquote, urlencode

from fastapi import Query, Request

from itinerary.protocol.errors import BadValue, NotFound
from itinerary.protocol.instants import SECOND, Instant, format_instant, parse_instant
from scheduler_service.core.schedules.schedule import zone_of
from scheduler_service.core.schedules.zones import first_instant_from, offset_at, passes_of, zone
from scheduler_service.ports.stores import JobStore

PARAMETER: Final = "tz"
CHOSEN: Final = "itinerary_tz"
BROWSERS: Final = "itinerary_zone"
UTC: Final = "UTC"
CHOICES: Final = ("utc", "local", "job")
_FIRST: Final = -62_135_596_800
_LAST: Final = 253_402_300_799
"""The seconds of the years 1 to 9999, which have a text."""
TIMES: Final = frozenset({"from", "to", "since", "until", "at"})


@dataclass(frozen=True, slots=True)
class ReaderZone:
    """The zone shown, the choice behind it, and the browser's zone as far as it is known.

    `typed` is the zone of times without one: what the address names, else UTC, so that an address means the same to
    everybody.
    """

    name: str = UTC
    choice: str = "utc"
    own: str | None = None
    typed: str = UTC
    of_job: bool = False

    @property
    def named(self) -> bool:
        """Whether the address names the zone."""
        return self.choice not in CHOICES

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Return the choices with their names."""
        own = f"Your own: {self.own}" if self.own else "Your own"
        job = f"The job's: {self.name}" if self.of_job else "The job's, on its pages; elsewhere UTC"
        return list(zip(CHOICES, ("UTC", own, job), strict=True))


_IN_UTC: Final = ReaderZone()
_SHOWN: Final[ContextVar[ReaderZone]] = ContextVar("reader_zone", default=_IN_UTC)


def reader_zone() -> ReaderZone:
    """Return the zone of the present request."""
    return _SHOWN.get()


def begin(request: Request) -> None:
    """Take the zone from the address, else from the cookies; BadValue for an address that names none."""
    own = _known(unquote(request.cookies.get(BROWSERS, "")))
    asked = request.query_params.get(PARAMETER, "")
    choice = asked or _chosen(request)
    if choice not in CHOICES and _known(choice) is None:
        allowed = f"give one of {', '.join(CHOICES)}, or an IANA time zone such as Europe/Berlin"
        raise BadValue(PARAMETER, asked, allowed)
    name = _name(choice, own)
    _SHOWN.set(ReaderZone(name, choice, own, name if asked else UTC))


def without_zone(request: Request) -> str | None:
    """Return the address with its typed times made absolute, which then needs no zone; None if it has none."""
    shown, query = _SHOWN.get(), request.query_params.multi_items()
    times = {text: absolute(text, shown.typed) for name, text in query if name in TIMES}
    if PARAMETER not in request.query_params or all(text == done for text, done in times.items()):
        return None
    chosen = _chosen(request)
    needless = chosen == "job" or _name(chosen, shown.own) == shown.name
    kept = [
        (name, times[text] if name in TIMES else text)
        for name, text in query
        if text and not (needless and name == PARAMETER)
    ]
    return f"{request.url.path}?{urlencode(kept)}"


def _chosen(request: Request) -> str:
    cookie = request.cookies.get(CHOSEN, "")
    return cookie if cookie in CHOICES else "utc"


def _name(choice: str, own: str | None) -> str:
    return choice if choice not in CHOICES else (own or UTC) if choice == "local" else UTC


def follow_job(timezone: str) -> None:
    """Show the zone of the page's job from here on, if that is the reader's choice."""
    shown = _SHOWN.get()
    if shown.choice == "job":
        _SHOWN.set(replace(shown, name=timezone, of_job=True))


def follow_job_of(jobs: JobStore, job_id: str | None) -> None:
    """Show the zone of this job, if that is the reader's choice; a deleted job has none any more."""
    if _SHOWN.get().choice == "job" and job_id is not None:
        with suppress(NotFound):
            follow_job(zone_of(jobs.get(job_id).schedule))


async def follow_reader(request: Request, tz: Annotated[str, Query(max_length=64)] = "") -> None:
    """Take the reader's zone for a part outside of a page; a dependency, in the task that calls the route."""
    begin(request)


def wall_time(instant: Instant) -> str:
    """Return what clocks of the zone show: `2026-12-01T02:00:00.000000`."""
    name, second = _SHOWN.get().name, instant // SECOND
    offset = offset_at(name, second) if name != UTC else 0
    shown = min(max(second + offset, _FIRST), _LAST)
    return f"{format_instant(shown * SECOND)[:19]}.{instant % SECOND:06d}"


def zone_query() -> str:
    """Return the query by which a part of a page is shown in the page's zone, if its address names one."""
    shown = _SHOWN.get()
    return f"?{urlencode({PARAMETER: shown.name})}" if shown.named else ""


def offset_text(instant: Instant) -> str:
    """Return the offset of the zone at an instant: `+01:00`."""
    offset = offset_at(_SHOWN.get().name, instant // SECOND) // 60
    return f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"


def is_repeated(instant: Instant) -> bool:
    """Whether clocks of the zone show the time of this instant twice, since they are put back."""
    name = _SHOWN.get().name
    return name != UTC and passes_of(name, instant // SECOND)[1] > 1


def absolute(text: str, timezone: str) -> str:
    """Convert a typed time without zone to RFC 3339, by the zone's clocks; any other text stays as it is.

    A date is its beginning. A time that the clocks skip is the end of the jump, one that they show twice the first. A
    time that in UTC lies outside of the years 1 to 9999 gets the zone's offset: who reads the field refuses it.
    """
    plain = text.strip().replace(" ", "T", 1).replace(" ", "")
    if len(plain) == 10:
        plain += "T00:00"
    if len(plain) == 16:
        plain += ":00"
    try:
        wall = parse_instant(f"{plain}Z")
    except BadValue:
        return plain if len(plain) > 19 else text
    second, rest = divmod(wall, SECOND)
    found = first_instant_from(timezone, second)
    if not _FIRST <= found <= _LAST:
        ahead = second - found
        minutes = -(-abs(ahead) // 60)  # local mean times have seconds, which no offset can say
        return f"{plain}{'-' if ahead < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return format_instant(found * SECOND + rest)


def _known(name: str) -> str | None:
    """Return the name if it is one of a zone."""
    try:
        return str(zone(name).key) if 0 < len(name) <= 64 else None
    except BadValue:
        return None
