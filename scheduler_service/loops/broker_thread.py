"""The dispatcher thread: everything that the leader sends to Redis, in order, with clean-up postponed while it is busy.

Treats a failed publish as unknown, never as "not sent": it waits until the broker answers, then reports the publish as
uncertain.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar, assert_never

import structlog

from itinerary.protocol.errors import BrokerUnavailable, MalformedEntry
from itinerary.protocol.identity import task_id
from itinerary.protocol.instants import SECOND, Instant
from itinerary.protocol.wire import PROTOCOL, PROTOCOL_FIELD, WITHOUT_INFO
from scheduler_service.core.leader.commands import (
    AcceptEpoch,
    BrokerCommand,
    ForgetAttempts,
    ForgetResults,
    InspectQueues,
    Publish,
    QueryEpoch,
    RaiseWatermarks,
    ReadResults,
    RecallClaims,
    Reply,
    ReplyMetrics,
    StopTasks,
    TakeClaims,
    TrimInbox,
)
from scheduler_service.core.leader.messages import Failed, Report, RetryAsked, Succeeded, decode
from scheduler_service.core.leader.results import (
    ClaimsDeferred,
    ClaimsRecalled,
    ClaimsTaken,
    EpochAccepted,
    EpochSeen,
    Published,
    PublishUncertain,
    QueuesSeen,
    ResultsFound,
    WatermarksRaised,
)
from scheduler_service.loops.command_thread import CommandThread
from scheduler_service.loops.lease_renewer import LeaseRenewer
from scheduler_service.loops.mailbox import Mailbox
from scheduler_service.ports.broker import UNKNOWN, Claims, Dispatcher, Inbox
from scheduler_service.ports.stores import Meter

log = structlog.get_logger(__name__)

T = TypeVar("T")
_TIDY_WITHIN_SECONDS: Final = 2.0

_ANNOUNCED_EVERY: Final = 10 * SECOND

_Tidying: TypeAlias = ForgetResults | RaiseWatermarks | ForgetAttempts | InspectQueues
_Asking: TypeAlias = TakeClaims | RecallClaims | StopTasks | ReadResults


class BrokerThread:
    """The executor of BrokerCommands, which reports their results."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        claims: Claims,
        inbox: Inbox,
        meter: Meter,
        renewer: LeaseRenewer,
        mailbox: Mailbox,
        stopping: threading.Event,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._claims = claims
        self._inbox = inbox
        self._meter = meter
        self._renewer = renewer
        self._mailbox = mailbox
        self._stopping = stopping
        self._policy_known = False
        self._announced_at: Instant | None = None
        self._tidying: deque[tuple[float, _Tidying]] = deque()
        self._put_off: deque[_Asking] = deque()
        self.thread: CommandThread[BrokerCommand] = CommandThread("dispatcher", self.carry_out, on_crash)

    def carry_out(self, commands: list[BrokerCommand]) -> None:
        """Execute these commands in order; return when each is done or its outcome is known to be unknown.

        Clean-up is left for later calls while more commands are queued, for up to two seconds: no run waits for it.
        """
        for command in commands:
            self._renewer.check()
            match command:
                case Publish():
                    self._publish(command)
                case ForgetResults() | RaiseWatermarks() | ForgetAttempts() | InspectQueues():
                    self._tidying.append((time.monotonic(), command))
                case TakeClaims() | RecallClaims() | StopTasks() | ReadResults():
                    self._put_off.append(command)
                    self._ask_all()
                case QueryEpoch():
                    self._query_epoch()
                    self._ask_all()
                case AcceptEpoch():
                    self._accept(command)
                case _:
                    self._try(command)
        self._tidy_up()

    def _tidy_up(self) -> None:
        """Clean up while nothing else is queued, or after two seconds in any case, so that the queue stays short."""
        began = time.monotonic()
        while self._tidying:
            queued_at, command = self._tidying[0]
            if self.thread.has_more() and began - queued_at < _TIDY_WITHIN_SECONDS:
                return
            self._renewer.check()
            self._tidying.popleft()
            self._try(command)

    def _publish(self, command: Publish) -> None:
        try:
            self._dispatcher.publish(command.runs)
        except BrokerUnavailable as exc:
            log.warning("publish outcome unknown", count=len(command.runs), error=str(exc))
            self._await_broker()
            self._mailbox.put(PublishUncertain(command.runs))
            return
        at = self._renewer.now()
        self._meter.published(command.runs, at)
        self._mailbox.put(Published(command.runs, at))

    def _await_broker(self) -> None:
        delay = 0.1
        while self._renewer.trusted() and not self._stopping.is_set():
            try:
                return self._dispatcher.ping()
            except BrokerUnavailable as exc:
                log.warning("broker away", error=str(exc), next_try_s=delay)
            self._stopping.wait(delay)
            delay = min(delay * 2, 2.0)
        return None

    def _ask_all(self) -> None:
        """Send the requests that need an answer, one by one; after a failure, retry with the next epoch query.

        They hold up no other command: a full Redis may accept them only after clean-up has freed memory.
        """
        while self._put_off:
            command = self._put_off.popleft()
            try:
                self._ask(command)
            except BrokerUnavailable as exc:
                log.warning("broker away", effect=type(command).__name__, error=str(exc))
                self._put_off.append(command)
                return

    def _ask(self, command: _Asking) -> None:
        ids = [task_id(*one[:2]) for one in command.attempts]
        match command:
            case TakeClaims(attempts=attempts):
                won = self._claims.take(ids)
                if won is None:
                    self._mailbox.put(ClaimsDeferred(attempts))
                else:
                    self._mailbox.put(ClaimsTaken(tuple((r, a, w) for (r, a), w in zip(attempts, won, strict=True))))
            case RecallClaims(attempts=marked):
                won = self._claims.recall([(one, seq) for one, (_, _, seq) in zip(ids, marked, strict=True)])
                # If we die here, the runs are still pending, and their next messages start them.
                answers = [False] * len(ids) if won is None else won
                self._mailbox.put(ClaimsRecalled(tuple((*m, w) for m, w in zip(marked, answers, strict=True))))
            case StopTasks():
                self._claims.flag(ids)
                self._dispatcher.revoke(ids)
            case ReadResults(attempts=attempts):
                left = self._claims.results(ids)
                self._mailbox.put(
                    ResultsFound(tuple((r, a, _report(f)) for (r, a), f in zip(attempts, left, strict=True)))
                )
            case _:
                assert_never(command)

    def _query_epoch(self) -> None:
        claims = self._answer(self._claims.query_epoch)
        broker = self._answer(self._dispatcher.query_epoch)
        if claims is not None and not self._policy_known:
            self._policy_known = True
            self._check_policy()
        self._mailbox.put(EpochSeen(claims, broker))
        now = self._renewer.now()
        if self._announced_at is None or now - self._announced_at >= _ANNOUNCED_EVERY:
            self._announced_at = now
            beacon = {"v": 1, PROTOCOL_FIELD: PROTOCOL}
            self._answer(lambda: self._claims.announce({**beacon, "broker": self._dispatcher.mark()}))

    def _check_policy(self) -> None:
        policy = self._answer(self._claims.eviction_policy)
        if policy == UNKNOWN:
            log.warning(WITHOUT_INFO)
        elif policy not in (None, "noeviction"):
            log.error("Redis drops data when its memory is full: set maxmemory-policy noeviction", policy=policy)

    def _accept(self, command: AcceptEpoch) -> None:
        claims = self._answer(lambda: self._accept_claims(command))
        # If we die here, the next leader sees the watermark, and that the broker's epoch is not accepted.
        broker = self._answer(lambda: self._accept_broker(command)) if claims == command.claims else None
        if claims or broker:
            log.info("generation accepted", claims=claims, broker=broker, floor=command.watermark)
        self._mailbox.put(EpochAccepted(claims, broker, command.watermark))

    def _accept_claims(self, command: AcceptEpoch) -> str | None:
        if command.claims is None or not self._claims.accept(command.claims, command.watermark):
            return None
        return command.claims

    def _accept_broker(self, command: AcceptEpoch) -> str | None:
        if command.broker is not None:
            self._dispatcher.accept(command.broker, command.watermark)
        return command.broker

    def _answer(self, ask: Callable[[], T]) -> T | None:
        """The answer, or None if Redis does not answer."""
        try:
            return ask()
        except BrokerUnavailable as exc:
            log.warning("broker away", error=str(exc))
            return None

    def _try(self, command: _Tidying | TrimInbox | Reply | ReplyMetrics) -> None:
        """Execute a command that may fail without harm: it is repeated later, or its asker no longer waits."""
        try:
            match command:
                case ForgetResults(attempts=attempts):
                    self._claims.forget_results([task_id(run_id, attempt) for run_id, attempt in attempts])
                case RaiseWatermarks(watermarks=watermarks, lowest=lowest):
                    raised = self._answer(lambda: self._claims.raise_watermarks(watermarks, lowest))
                    self._mailbox.put(WatermarksRaised({}) if raised is None else WatermarksRaised(raised, lowest))
                case ForgetAttempts(attempts=attempts):
                    self._claims.forget([task_id(run_id, attempt) for run_id, attempt in attempts])
                case InspectQueues(queues=queues):
                    heads = self._dispatcher.heads(queues)
                    left = {name: 0 if head.none_of_ours else head.length for name, head in heads.items()}
                    lengths = {name: head.length for name, head in heads.items()}
                    self._mailbox.put(QueuesSeen({n: (left[n], head.seq) for n, head in heads.items()}, lengths))
                case TrimInbox(position=position):
                    # In a stream that began again, entries before this position may not have been read.
                    if self._claims.query_epoch().accepted:
                        self._inbox.trim(position)
                case Reply(reply_to=reply_to, body=body):
                    self._inbox.reply(reply_to, body)
                case ReplyMetrics(reply_to=reply_to):
                    self._inbox.reply(reply_to, {"text": self._meter.exposition()})
                case _:
                    assert_never(command)
        except BrokerUnavailable as exc:
            log.warning("broker away", effect=type(command).__name__, error=str(exc))


def _report(fields: object) -> Report | None:
    """The terminal report that a worker left beside the stream; None if it cannot be decoded as one."""
    if not isinstance(fields, dict):
        return None
    try:
        message = decode(fields)
    except MalformedEntry as exc:
        log.warning("result key not understood", error=str(exc))
        return None
    return message if isinstance(message, Succeeded | Failed | RetryAsked) else None
