"""Pings of jobs: the address that hears of a job's starts, successes and failures. Pure, and light to import."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant


class PingState(StrEnum):
    """An event of a run that its job's address hears of."""

    START = "start"
    SUCCESS = "success"
    FAILURE = "failure"


class PingStyle(StrEnum):
    """The way in which a service tells the events apart."""

    PLAIN = "plain"
    HEALTHCHECKS = "healthchecks"
    SENTRY = "sentry"


@dataclass(frozen=True, slots=True)
class JobPing:
    """The address of a job, the events that it hears of, and its style."""

    url: str
    on: tuple[PingState, ...] = (PingState.SUCCESS, PingState.FAILURE)
    style: PingStyle = PingStyle.PLAIN

    def address_of(self, state: PingState) -> str:
        """Return the address of an event."""
        match self.style:
            case PingStyle.HEALTHCHECKS:
                return self.url.rstrip("/") + {"start": "/start", "failure": "/fail"}.get(state, "")
            case PingStyle.SENTRY:
                status = {"start": "in_progress", "success": "ok", "failure": "error"}[state]
                return f"{self.url}{'&' if '?' in self.url else '?'}status={status}"
            case _:
                return self.url.replace("{state}", state)


class Ping(NamedTuple):
    """A ping to be sent; a later one of the same job and event takes its place."""

    job_id: str
    state: PingState
    url: str


GIVE_UP_AFTER = HOUR
"""A ping that comes later helps nobody: its service has long raised the alarm."""


def next_try(attempts: int, created_at: Instant, now: Instant) -> Instant | None:
    """Return the next try: 10 s after the first failure, then twice that up to ten minutes; None after an hour."""
    at = now + min(10 * SECOND * 2 ** min(attempts - 1, 6), 10 * MINUTE)
    return at if at <= created_at + GIVE_UP_AFTER else None
