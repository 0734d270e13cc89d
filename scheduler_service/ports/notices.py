"""Ports of notifications: outbox, targets, and the polls that find conditions.

The outbox promises that a notice is stored once, and kept until a target took it or its day is over. A target promises
an answer in bounded time. Neither decides what is worth a notice: `core/notifications` does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import Job
from scheduler_service.core.notifications.conditions import Pending, Running
from scheduler_service.core.notifications.notices import Message, Notice, Topic, Waiting
from scheduler_service.core.notifications.routing import EVERYTHING, JobLabels, Route


class DeliveryFailed(ItineraryError):
    """The target did not accept the delivery; another attempt may succeed."""


class DeliveryRefused(ItineraryError):
    """The target will never accept the delivery, or must not be contacted: correct the settings or the target."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message for one target: `body` is the JSON text that every attempt sends; `attempts` includes this one."""

    message_id: str
    target: str
    topic: Topic
    body: str
    created_at: Instant
    attempts: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of waiting and of dead deliveries, and the last error of each kind."""

    waiting: int
    dead: int
    last_dead: str | None = None
    last_failed: str | None = None


NOTHING: Final = Backlog(0, 0)

Decide = Callable[
    [Sequence[Waiting], Mapping[str, JobLabels], Mapping[Topic, Instant], Instant],
    Sequence[Message],
]
"""Picks what to send: notices that wait, labels by subject, the last message of each topic, the time."""


@dataclass(frozen=True, slots=True)
class Page:
    """Current jobs with an id in (`after`, `until`] that could run out of occurrences; None: no bound."""

    jobs: Sequence[Job]
    after: str | None
    until: str | None


class Target(Protocol):
    """A receiver of notifications. Bounded in time; may receive the same message twice."""

    @property
    def name(self) -> str:
        """A stable name that shows no secret."""

    @property
    def route(self) -> Route:
        """The notices that it gets."""
        return EVERYTHING

    def deliver(self, delivery: Delivery) -> str:
        """Deliver and return the target's answer; raises DeliveryFailed or DeliveryRefused."""


class Outbox(Protocol):
    """Notices and deliveries, shared by every process of the service; each call is one transaction."""

    def now(self) -> Instant:
        """The database's clock."""

    def hold(
        self,
        topic: Topic,
        found: Sequence[Notice],
        after: str | None = None,
        until: str | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """Record the conditions that hold of subjects in (`after`, `until`]: store new ones as notices.

        The other conditions end, if `found` is the `whole`.
        """

    def seal(self, quiet: Duration, decide: Decide, *, labelled: bool = False) -> int:
        """Create deliveries of the messages that `decide` returns, of subjects quiet for `quiet`; return their number.

        With `labelled` it is given the labels of the jobs concerned. A message without targets ends its notices.
        """

    def claim(self, targets: Sequence[str], hold: Duration) -> Delivery | None:
        """The delivery to one of these targets that has been due longest, reserved for the caller during `hold`."""

    def sent(self, delivery: Delivery) -> None:
        """Record that the delivery arrived."""

    def failed(self, delivery: Delivery, answer: str, next_at: Instant | None) -> None:
        """Record that the delivery failed, to be tried again at `next_at`; None: given up."""

    def backlog(self) -> Backlog:
        """The deliveries not delivered yet."""

    def tidy(self, quiet: Duration) -> None:
        """Give up deliveries without an attempt for a day, and delete old records."""

    def retry_dead(self) -> int:
        """Schedule the deliveries that were given up for new attempts; return their number."""


class Conditions(Protocol):
    """Bounded, read-only polls for conditions: the next `limit` runs behind `after`, and the place to resume from.

    The place is None at the end.
    """

    def waiting(self, due_before: Instant, limit: int, after: Place | None) -> tuple[list[Pending], Place | None]:
        """Runs due before `due_before` that wait for their turn."""

    def in_flight(self, due_before: Instant, limit: int, after: Place | None) -> tuple[list[Pending], Place | None]:
        """Runs due before `due_before` that are published and have not started."""

    def running(self, limit: int, after: Place | None) -> tuple[list[Running], Place | None]:
        """Running runs."""

    def jobs(self, after: str | None, limit: int) -> Page:
        """The next jobs by id."""


class NoticeMeter(Protocol):
    """Notification metrics. Never fails, never blocks."""

    def delivered(self, outcome: str) -> None:
        """Count an attempt by its outcome: `sent`, `failed` (to be tried again) or `dead`."""

    def backlogged(self, backlog: Backlog) -> None:
        """Record the waiting and the dead deliveries."""
