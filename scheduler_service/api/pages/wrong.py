"""Errors of a form or a filter on its own page: each sentence at its field, typed values kept.

One mechanism for every page: the page is shown again with a `Wrong`, whose fields the templates mark by `aria-invalid`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import Response

from itinerary.protocol.errors import BadValue, BadValues, Conflict, ItineraryError
from scheduler_service.api.http.problems import problem_of
from scheduler_service.api.pages.reader_zone import reader_zone

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wrong:
    """`at`: each field of the form with its sentence; `elsewhere`: errors that belong to no field of the form."""

    at: Mapping[str, str] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    status: int = 200

    def label(self, name: str) -> str:
        """Return the name of a field as the page shows it."""
        return self.labels.get(name, name).replace("{zone}", reader_zone().name)

    def within(self, *prefixes: str) -> bool:
        """Whether a field of this name, or with this prefix, is wrong."""
        return any(name == prefix or name.startswith(f"{prefix}.") for name in self.at for prefix in prefixes)


NOTHING_WRONG: Final = Wrong()


def wrong_of(error: Exception, labels: Mapping[str, str], field_of: Callable[[str], str] = lambda name: name) -> Wrong:
    """Convert an error for the page; `field_of` maps the error's field to the form's."""
    if isinstance(error, HTTPException):
        return Wrong({}, (str(error.detail),), labels, error.status_code)
    assert isinstance(error, ItineraryError)
    status = problem_of(error).status_code
    at: dict[str, str] = {}
    elsewhere: list[str] = []
    for bad in error.errors if isinstance(error, BadValues) else [error]:
        name = field_of(bad.field) if isinstance(bad, BadValue) else ""
        if isinstance(bad, BadValue) and name in labels:
            at.setdefault(name, sentence(bad))
        else:
            elsewhere.append(str(bad))
    return Wrong(at, tuple(elsewhere), labels, status)


def sentence(error: BadValue) -> str:
    """Return the error without its field, which the page names itself."""
    message = str(error).removeprefix(f"{error.field}: ")
    return message[:1].upper() + message[1:] + ("" if message.endswith(".") else ".")


class Reader:
    """Reads the fields of a filter one after the other, and keeps each one's error."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._errors: list[BadValue] = []

    def tried(self, read: Callable[[], T]) -> T | None:
        """Return the value; None if it is wrong."""
        try:
            return read()
        except BadValue as exc:
            self._errors.append(exc)
            return None

    @property
    def errors(self) -> list[BadValue]:
        """Return all errors as they were raised."""
        return list(self._errors)

    def wrong(self) -> Wrong:
        """Return all errors."""
        return wrong_of(BadValues(self._errors), self._labels) if self._errors else NOTHING_WRONG


def or_again(
    act: Callable[[], Response],
    again: Callable[[Wrong], Response],
    labels: Mapping[str, str],
    field_of: Callable[[str], str] = lambda name: name.split(".")[0],
) -> Response:
    """Return the result of `act`; if it is refused for a value or as a conflict, the page `again` with the reason."""
    try:
        return act()
    except (BadValue, BadValues, Conflict) as exc:
        return again(wrong_of(exc, labels, field_of))
    except HTTPException as exc:
        if exc.status_code not in (409, 422):
            raise
        return again(wrong_of(exc, labels, field_of))
