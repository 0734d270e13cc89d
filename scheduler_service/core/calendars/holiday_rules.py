"""Public holidays of a country, or of a part of it, written out as days.

The library `holidays` knows them, and its knowledge differs by release: the days are stored when a calendar is saved,
and planning asks no library. Promises names in English where the library has them, whatever the host's language,
and never days outside the years asked for. Imports the library only when asked: it takes a second and 20 MB.
"""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Any, Final

from itinerary.protocol.errors import BadValue
from scheduler_service.core.calendars.model import NamedDays

_YEARS_AHEAD: Final = 5
_EPOCH: Final = date(1970, 1, 1)
_LANGUAGE: Final = "en_US"
_LONGEST_CODE: Final = 100


def holiday_years(today: int) -> range:
    """Return the years to write out at the day `today`: the last one, since shifts look back, to five years ahead."""
    year = (_EPOCH + timedelta(today)).year
    return range(year - 1, year + _YEARS_AHEAD + 1)


def holidays_of(country: Any, subdivision: Any, years: range) -> list[NamedDays]:
    """Return the public holidays of these years, sorted; BadValue names `holidays` or `subdivision`."""
    import holidays

    code = _known(country)
    known = getattr(holidays, code)
    if subdivision is not None:
        allowed = [*known.subdivisions, *known.subdivisions_aliases]
        if subdivision not in allowed:
            raise BadValue("subdivision", subdivision, _parts_of(code, known.subdivisions, allowed, subdivision))
    found = holidays.country_holidays(code, subdiv=subdivision, years=years, language=_LANGUAGE)
    days = ((day - _EPOCH, name) for day, name in sorted(found.items()) if day.year in years)
    return [NamedDays(day.days, day.days, name) for day, name in days]


def _known(country: Any) -> str:
    from holidays.registry import COUNTRIES, EntityLoader

    if isinstance(country, str) and country in set(EntityLoader.get_country_codes()):
        return country
    by_name = {name.replace("_", " "): codes[1] for name, codes in COUNTRIES.items()}
    near = _nearest(country, EntityLoader.get_country_codes(include_aliases=False))
    if isinstance(country, str):
        near += [by_name[name] for name in get_close_matches(country.lower()[:_LONGEST_CODE], by_name, 2, 0.8)]
    hint = f"; nearest: {', '.join(dict.fromkeys(near))}" if near else ""
    raise BadValue("holidays", country, f"use the two letters of a country by ISO 3166-1, such as DE or US{hint}")


def _parts_of(country: str, codes: Sequence[str], allowed: Sequence[str], given: Any) -> str:
    if not codes:
        return f"{country} has no subdivisions here: omit it"
    near = _nearest(given, allowed)
    if near:
        return f"nearest of {country}: {', '.join(near)}"
    return f"{country} has {', '.join(sorted(codes))}"


def _nearest(given: Any, allowed: Iterable[str]) -> list[str]:
    if not isinstance(given, str):
        return []
    by_upper = {one.upper(): one for one in sorted(allowed)}
    return [by_upper[one] for one in get_close_matches(given.upper()[:_LONGEST_CODE], by_upper, 5, 0.5)]
