"""The result of a translation for each entry: a job and how it differs, or why it cannot be moved. Values only."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from itinerary.protocol.errors import BadValue, BadValues
from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.contract.job_warnings import job_warnings
from scheduler_service.core.model import Job
from scheduler_service.migrating.their_times import Fires

_LONGEST: Final = 100
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._]+")


@dataclass(frozen=True, slots=True)
class Converted:
    """One entry: `name` is what it is called where it comes from. `refused` says why there is no `body`.

    `left_out` says why nothing is to be made of it although it could be: it is sent no more where it comes from.
    `fires` gives the other scheduler's own times, where that can be asked.
    """

    name: str
    body: Mapping[str, Any] | None = None
    differences: tuple[str, ...] = ()
    refused: str | None = None
    left_out: str | None = None
    fires: Fires | None = field(default=None, compare=False, repr=False)


class CannotConvert(Exception):
    """This entry has no equal here; the text says why."""


def checked(
    name: str, body: Mapping[str, Any], differences: tuple[str, ...], now: Instant, fires: Fires | None = None
) -> tuple[Converted, Job | None]:
    """The entry with its job, or refused for what the service would refuse."""
    try:
        job, warnings = read_job(body, created_at=now)
    except BadValues as exc:
        return Converted(name, refused="; ".join(str(error) for error in exc.errors)), None
    except BadValue as exc:
        return Converted(name, refused=str(exc)), None
    return Converted(name, dict(body), (*differences, *warnings, *job_warnings(job, now)), fires=fires), job


def job_id_of(name: str, taken: Container[str], otherwise: str) -> str:
    """A job id that is like the name, and not taken."""
    plain = _FOREIGN.sub("-", name).strip("-._")[:_LONGEST].strip("-._") or otherwise
    number, found = 2, plain
    while found in taken:
        number, found = number + 1, f"{plain}-{number}"
    return found
