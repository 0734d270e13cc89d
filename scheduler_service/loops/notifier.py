"""The threads that notify: the leader's while it leads, and an API's, which reports that no leader is active.

Promises: a failure here never stops a leader or an API; it is logged and retried.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from itinerary.protocol.errors import StoreUnavailable
from itinerary.protocol.instants import MINUTE, SECOND, Duration, Instant, format_instant
from scheduler_service.core.leader.poll_state import Place
from scheduler_service.core.notifications.conditions import ended, late, overlong
from scheduler_service.core.notifications.notices import Notice, coalesced
from scheduler_service.core.notifications.topics import Topic
from scheduler_service.loops.delivery_worker import DeliveryWorker
from scheduler_service.loops.mailbox import monotonic
from scheduler_service.loops.repeating import Repeating
from scheduler_service.ports.leases import LeaseStore, LeaseView
from scheduler_service.ports.notices import NOTHING, Conditions, Outbox

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 2.0
_AFTER_AN_ERROR: Final = 10.0
_POLL_EVERY: Final[Duration] = 10 * SECOND
_TIDY_EVERY: Final[Duration] = MINUTE
_RUNS_A_PAGE: Final = 1_000
_PAGES_A_POLL: Final = 10
_JOBS_A_POLL: Final = 1_000
_SHARD: Final = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """The topics to report, and the limit after which each condition holds."""

    topics: frozenset[Topic]
    late_after: Duration
    long_after: Duration
    absent_after: Duration


Found: TypeAlias = tuple[list[Notice], Place | None]


class ConditionScan:
    """A scan of one topic's runs, part by part, a few pages at a time; a page that fails is read again.

    A condition ends only after a full scan did not find it.
    """

    def __init__(self, topic: Topic, outbox: Outbox, *parts: Callable[[Instant, Place | None], Found]) -> None:
        self._topic = topic
        self._outbox = outbox
        self._parts = parts
        self._begin()

    def _begin(self) -> None:
        self._part = 0
        self._after: Place | None = None
        self._found: list[Notice] = []

    def __call__(self, now: Instant) -> None:
        """Read the next pages."""
        for _ in range(_PAGES_A_POLL):
            found, self._after = self._parts[self._part](now, self._after)
            self._found = coalesced([*found, *self._found])  # the first notice of a subject gives the details
            self._part += self._after is None
            if self._part == len(self._parts):
                all_found = self._found
                self._begin()
                return self._outbox.hold(self._topic, all_found)
        return self._outbox.hold(self._topic, self._found, whole=False)


class Notifying(Repeating):
    """A round every two seconds; it never ends by itself."""

    def __init__(self, name: str, leases: LeaseStore, delivery_worker: DeliveryWorker, rules: Rules) -> None:
        super().__init__(name, on_crash=_log_end)
        self._leases = leases
        self._delivery_worker = delivery_worker
        self._rules = rules
        self._tidied_at: Duration | None = None

    def _once(self) -> None:
        try:
            self.round(self._leases.peek(_SHARD))
            pause = _EVERY_SECONDS
        except StoreUnavailable as exc:
            log.warning("notifications wait, the database is away", error=str(exc))
            pause = _EVERY_SECONDS
        except Exception:  # whatever it is, runs continue
            log.exception("notifications failed")
            pause = _AFTER_AN_ERROR
        self._stopped.wait(pause)

    @abstractmethod
    def round(self, lease: LeaseView | None) -> None:
        """Do one round, given the current lease."""

    def _deliver(self) -> None:
        self._delivery_worker.round()
        if self._tidied_at is None or monotonic() - self._tidied_at > _TIDY_EVERY:
            self._delivery_worker.tidy()
            self._tidied_at = monotonic()


class LeadersNotifier(Notifying):
    """The notifier of late runs, overlong runs and ended jobs, which works while `holder` leads."""

    def __init__(
        self, leases: LeaseStore, delivery_worker: DeliveryWorker, rules: Rules, conditions: Conditions, holder: str
    ) -> None:
        super().__init__("notifier", leases, delivery_worker, rules)
        self._conditions = conditions
        self._holder = holder
        self._polled_at: Duration | None = None
        self._polls: dict[Topic, Callable[[Instant], None]] = {
            Topic.RUN_LATE: ConditionScan(
                Topic.RUN_LATE, delivery_worker.outbox, self._late_waiting, self._late_in_flight
            ),
            Topic.RUN_OVERLONG: ConditionScan(Topic.RUN_OVERLONG, delivery_worker.outbox, self._overlong),
            Topic.JOB_ENDED: self._poll_ended,
        }
        self._job: str | None = None

    def round(self, lease: LeaseView | None) -> None:
        if lease is None or not lease.live or lease.holder != self._holder:
            self._delivery_worker.meter.backlogged(NOTHING)  # the backlog is the leader's to report
            self._tidied_at = None
            return
        self._deliver()
        if self._polled_at is None or monotonic() - self._polled_at > _POLL_EVERY:
            self._polled_at = monotonic()
            for topic, poll in self._polls.items():
                if topic in self._rules.topics:
                    self._try(topic, poll, lease.now)

    def _try(self, topic: Topic, poll: Callable[[Instant], None], now: Instant) -> None:
        try:
            poll(now)
        except StoreUnavailable as exc:
            log.warning("a look for what to tell waits, the database is away", topic=topic.value, error=str(exc))
        except Exception:  # whatever it is, the other topics are still checked
            log.exception("a look for what to tell failed", topic=topic.value)

    def _late_waiting(self, now: Instant, after: Place | None) -> Found:
        waiting, place = self._conditions.waiting(now - self._rules.late_after, _RUNS_A_PAGE, after)
        return late(waiting, now, self._rules.late_after), place

    def _late_in_flight(self, now: Instant, after: Place | None) -> Found:
        in_flight, place = self._conditions.in_flight(now - self._rules.late_after, _RUNS_A_PAGE, after)
        return late(in_flight, now, self._rules.late_after), place

    def _overlong(self, now: Instant, after: Place | None) -> Found:
        running, place = self._conditions.running(_RUNS_A_PAGE, after)
        return overlong(running, now, self._rules.long_after), place

    def _poll_ended(self, now: Instant) -> None:
        page = self._conditions.jobs(self._job, _JOBS_A_POLL)
        self._job = page.until  # first: a page that cannot be judged must not block the next one
        self._delivery_worker.outbox.hold(Topic.JOB_ENDED, ended(page.jobs, now), page.after, page.until)


class AbsenceMonitor(Notifying):
    """The notifier of an absent leader, which delivers in the leader's place meanwhile."""

    def __init__(self, leases: LeaseStore, delivery_worker: DeliveryWorker, rules: Rules) -> None:
        super().__init__("watchman", leases, delivery_worker, rules)
        self._absent_since: Duration | None = None
        self._is_reported: bool | None = None

    def round(self, lease: LeaseView | None) -> None:
        if lease is not None and lease.live:
            self._absent_since = None
            if self._is_reported is not False:  # also after a start: the process that reported it may be gone
                self._report_absence([])
                self._is_reported = False
            return
        if self._absent_since is None:
            self._absent_since = monotonic()
        if monotonic() - self._absent_since < self._rules.absent_after:
            return
        if not self._is_reported:
            self._report_absence([_absence(lease, self._delivery_worker.outbox.now())])
            self._is_reported = True
        self._deliver()

    def _report_absence(self, found: list[Notice]) -> None:
        if Topic.LEADER_ABSENT in self._rules.topics:
            self._delivery_worker.outbox.hold(Topic.LEADER_ABSENT, found)


def _absence(lease: LeaseView | None, now: Instant) -> Notice:
    facts = {} if lease is None else {
        "term": lease.term, "holder": lease.holder, "confirmed_at": format_instant(lease.expires_at - lease.ttl),
    }  # fmt: skip
    return Notice(Topic.LEADER_ABSENT, "leader", 1, now, now, facts)


def _log_end(cause: BaseException) -> None:
    log.error("notifications ended", error=repr(cause))
