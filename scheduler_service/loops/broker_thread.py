"""The thread redis-asker: everything but publishes that the leader sends to Redis, in order.

Postpones clean-up while it is busy, and then does all of one kind in one round trip. So nothing piles up, however long
Redis takes to answer.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar, assert_never

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

_TIDY_WITHIN_SECONDS: Final = 2.0

_ANNOUNCED_EVERY: Final = 10 * SECOND

T = TypeVar("T")
S = TypeVar("S")
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
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._claims = claims
        self._inbox = inbox
        self._meter = meter
        self._renewer = renewer
        self._mailbox = mailbox
        self._policy_known = False
        self._announced_at: Instant | None = None
        self._tidying: dict[type[_Tidying], tuple[float, list[_Tidying]]] = {}
        self._put_off: list[_Asking] = []
        self.thread: CommandThread[BrokerCommand] = CommandThread("redis-asker", self.carry_out, on_crash, are_clean_up)

    def carry_out(self, commands: list[BrokerCommand]) -> None:
        """Execute these commands in order; return when each is done or its outcome is known to be unknown.

        Clean-up is left for later calls while more commands are queued, for up to two seconds: no answer waits for it.
        """
        for command in commands:
            self._renewer.check()
            match command:
                case ForgetResults() | RaiseWatermarks() | ForgetAttempts() | InspectQueues():
                    self._tidying.setdefault(type(command), (time.monotonic(), []))[1].append(command)
                case TakeClaims() | RecallClaims() | StopTasks() | ReadResults():
                    self._put_off.append(command)
                case QueryEpoch():
                    self._query_epoch()
                case AcceptEpoch():
                    self._accept(command)
                case _:
                    self._try(command)
        if any(isinstance(command, QueryEpoch | _Asking) for command in commands):
            self._ask_all()
        self._tidy_up()

    def _tidy_up(self) -> None:
        """Clean up while nothing else is queued, or after two seconds in any case, so that the queue stays short."""
        began = time.monotonic()
        for kind, (queued_at, commands) in list(self._tidying.items()):
            if self.thread.has_more() and began - queued_at < _TIDY_WITHIN_SECONDS:
                return
            self._renewer.check()
            del self._tidying[kind]
            self._try(_as_one(commands))

    def _ask_all(self) -> None:
        """Send the requests that need an answer, all of a kind at once; retry failed ones with the next epoch query.

        They hold up no other command: a full Redis may accept them only after clean-up has freed memory.
        """
        of_kind: dict[type[_Asking], list[_Asking]] = {}
        for command in self._put_off:
            of_kind.setdefault(type(command), []).append(command)
        self._put_off = [_as_one(commands) for commands in of_kind.values()]
        while self._put_off:
            self._renewer.check()
            try:
                self._ask(self._put_off[0])
            except BrokerUnavailable as exc:
                log.warning("broker away", effect=type(self._put_off[0]).__name__, error=str(exc))
                self._put_off.append(self._put_off.pop(0))
                return
            del self._put_off[0]

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
                case Reply(reply_to=reply_to, body=body, failure=failure):
                    if failure is not None:
                        log.error("a query could not be answered", exc_info=failure)
                    self._inbox.reply(reply_to, body)
                case ReplyMetrics(reply_to=reply_to):
                    self._inbox.reply(reply_to, {"text": self._meter.exposition()})
                case _:
                    assert_never(command)
        except BrokerUnavailable as exc:
            log.warning("broker away", effect=type(command).__name__, error=str(exc))


def are_clean_up(commands: Sequence[BrokerCommand]) -> bool:
    """Whether nobody waits for any of these, so that others may join them before they are sent."""
    return all(isinstance(command, _Tidying) for command in commands)


def _as_one(commands: Sequence[S]) -> S:
    """One command for several of a kind."""
    first: Any = commands[0]
    if len(commands) == 1 or isinstance(first, RaiseWatermarks):  # the core raises once at a time
        return commands[-1]
    what = "queues" if isinstance(first, InspectQueues) else "attempts"
    merged: S = replace(first, **{what: tuple(dict.fromkeys(o for one in commands for o in getattr(one, what)))})
    return merged


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
