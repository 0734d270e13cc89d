"""The findings of `itinerary doctor`: one line a check, one remedy for one cause.

Promises: a check that depends on a failed one is skipped, and names that one instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from itinerary.protocol.errors import ItineraryError


class NotWell(ItineraryError):
    """A check that found a problem."""


class NotKnown(ItineraryError):
    """A check that a server does not allow; the message says what nobody checks then."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check or its remedy; `well` None: skipped, or not allowed."""

    name: str
    well: bool | None
    words: str

    @property
    def line(self) -> str:
        """Return the line for people."""
        mark = "--  " if self.well is None else "ok  " if self.well else "FAIL"
        return f"{mark}  {self.name:10}  {self.words}"


def found(name: str, check: Callable[[], str], remedy: str, *rests_on: Finding) -> Finding:
    """Run a check; its finding has the remedy if it failed."""
    ill = next((cause for cause in rests_on if not cause.well), None)
    if ill is not None:
        return Finding(name, None, f"skipped: see {ill.name}")
    try:
        return Finding(name, True, check())
    except NotKnown as exc:
        return Finding(name, None, str(exc))
    except ItineraryError as exc:
        message = str(exc)
        return Finding(name, False, message if "itinerary migrate" in message else f"{message.rstrip('.')}; {remedy}")
    except HTTPException as exc:  # what the API would answer
        return Finding(name, False, f"{exc.detail}; {remedy}")
