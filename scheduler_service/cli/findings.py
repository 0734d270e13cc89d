"""What `itinerary doctor` found: one line a check, and one remedy for one cause.

Promises: a check that rests on another one, which found something ill, is not asked; it names that one instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from itinerary.protocol.errors import ItineraryError


class NotWell(ItineraryError):
    """A check that found something to mend."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, what is so or what to do; `well` None: not asked, since what it rests on is ill."""

    name: str
    well: bool | None
    words: str

    @property
    def line(self) -> str:
        """As people see it."""
        mark = "--  " if self.well is None else "ok  " if self.well else "FAIL"
        return f"{mark}  {self.name:10}  {self.words}"


def found(name: str, check: Callable[[], str], remedy: str, *rests_on: Finding) -> Finding:
    """The finding of a check, with the remedy where it is ill."""
    ill = next((cause for cause in rests_on if not cause.well), None)
    if ill is not None:
        return Finding(name, None, f"not asked: see {ill.name}")
    try:
        return Finding(name, True, check())
    except ItineraryError as exc:
        message = str(exc)
        return Finding(name, False, message if "itinerary migrate" in message else f"{message}; {remedy}")
    except HTTPException as exc:  # what the API would answer
        return Finding(name, False, f"{exc.detail}; {remedy}")
