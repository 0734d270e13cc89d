"""Notifications: the outbox, who is told, and what a look finds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from itinerary.protocol.errors import ItineraryError
from itinerary.protocol.instants import Duration, Instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.model import Job
from scheduler_service.core.notifications.conditions import Pending, Running
from scheduler_service.core.notifications.notices import Message, Notice, Topic, Waiting


class DeliveryFailed(ItineraryError):
    """The target did not take it; another try may succeed."""


class DeliveryRefused(ItineraryError):
    """The target will never take it, or may not be asked; an operator mends the settings or the target."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message on its way to one target: `body` is the JSON text that every try sends; `attempts` with this one."""

    message_id: str
    target: str
    topic: Topic
    body: str
    created_at: Instant
    attempts: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many deliveries wait to be tried (again), how many were given up, and what was said last of those given up
    and of those that failed and wait."""

    waiting: int
    dead: int
    last_dead: str | None = None
    last_failed: str | None = None


NOTHING: Final = Backlog(0, 0)


@dataclass(frozen=True, slots=True)
class Page:
    """Current jobs that could run out of occurrences, of those with an id in (`after`, `until`]; None: no bound."""

    jobs: Sequence[Job]
    after: str | None
    until: str | None


class Target(Protocol):
    """Somebody who is told. Bounded in time; may be told the same message twice."""

    @property
    def name(self) -> str:
        """A stable name that shows no secret."""

    def deliver(self, delivery: Delivery) -> str:
        """What the target said; DeliveryFailed, DeliveryRefused."""


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
        """These conditions hold, of subjects in (`after`, `until`]: new ones are to be told, others are over, unless
        these are not the `whole`."""

    def seal(
        self,
        targets: Sequence[str],
        quiet: Duration,
        decide: Callable[[Sequence[Waiting], Mapping[Topic, Instant], Instant], Sequence[Message]],
    ) -> int:
        """Turn what `decide` picks of the notices whose subjects were quiet for so long into deliveries to each target;
        returns how many messages that makes."""

    def claim(self, targets: Sequence[str], hold: Duration) -> Delivery | None:
        """The delivery to one of these targets that has been due for longest; nobody else is given it for `hold`."""

    def sent(self, delivery: Delivery) -> None:
        """It arrived."""

    def failed(self, delivery: Delivery, answer: str, next_at: Instant | None) -> None:
        """It did not; tried again at `next_at`, None: given up."""

    def backlog(self) -> Backlog:
        """What is not delivered."""

    def tidy(self, quiet: Duration) -> None:
        """Give up what nobody tried for a day, forget what is over for long."""

    def retry_dead(self) -> int:
        """Have everything that was given up tried again; returns how many."""


class Conditions(Protocol):
    """Bounded looks at what notices are made of: of runs the next `limit` behind `after`, and where to go on, which is
    None at the end. Only reads."""

    def waiting(self, due_before: Instant, limit: int, after: Place | None) -> tuple[list[Pending], Place | None]:
        """Runs due before then that wait for their turn."""

    def in_flight(self, due_before: Instant, limit: int, after: Place | None) -> tuple[list[Pending], Place | None]:
        """Runs due before then that are published and not started."""

    def running(self, limit: int, after: Place | None) -> tuple[list[Running], Place | None]:
        """Runs that were started."""

    def jobs(self, after: str | None, limit: int) -> Page:
        """The next jobs by id."""


class NoticeMeter(Protocol):
    """Never fails, never blocks."""

    def delivered(self, outcome: str) -> None:
        """A try ended: `sent`, `failed` (to be tried again) or `dead`."""

    def backlogged(self, backlog: Backlog) -> None:
        """What waits and what was given up."""
