"""Outbox in SQL: notices become deliveries; deliveries are claimed and tried, and end as sent or dead.

Promises: a message exists exactly if its notices are marked as reported; each delivery belongs to one process for the
time of its claim. If we die after a claim, its delivery is due again when the claim ends.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, false, func, insert, or_, select, update

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import DAY, Duration, Instant
from itinerary.protocol.json_text import storable
from itinerary.protocol.run_fields import DEFAULT_QUEUE
from scheduler_service.core.notifications.notices import (
    GIVE_UP_AFTER,
    LONGEST_PAUSE,
    TOPIC_PAUSE,
    Message,
    Notice,
    Topic,
    Waiting,
)
from scheduler_service.core.notifications.routing import JobLabels
from scheduler_service.core.notifications.topics import CONDITIONS
from scheduler_service.ports.notices import Backlog, Decide, Delivery, Outbox
from scheduler_service.sql import notices as sql_notices
from scheduler_service.sql.column_types import dump_json
from scheduler_service.sql.database import Database
from scheduler_service.sql.notice_tables import UNREPORTED, deliveries, notices
from scheduler_service.sql.tables import jobs

_D: Final = deliveries.c
_N: Final = notices.c
_KNOWN: Final = tuple(topic.value for topic in Topic)
"""Notices of topics that a newer release wrote wait for it, and hold up no others."""
_MOST_NOTICES: Final = 10_000
_AT_ONCE: Final = 500
_SENT_KEPT: Final = DAY
_DEAD_KEPT: Final = 30 * DAY
_ANSWER_LENGTH: Final = 300
_NOTICE: Final = (_N.topic, _N.subject, _N["count"], _N.first_at, _N.last_at, _N.said, _N.holds)
_DELIVERY: Final = (_D.message_id, _D.target, _D.topic, _D.body, _D.made_at, _D.attempts)


class SqlOutbox(Outbox):
    """Outbox on SQLite and PostgreSQL; opened beside the leader's pool, which it never waits for."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dialect = database.dialect

    def now(self) -> Instant:
        with self._database.read() as connection:
            return self._database.read_clock(connection)

    def hold(
        self,
        topic: Topic,
        found: Sequence[Notice],
        after: str | None = None,
        until: str | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """One read if nothing changed."""
        held_now = and_(_N.topic == topic.value, _N.holds, _within(after, until))
        with self._database.read() as connection:
            held = set(connection.execute(select(_N.subject).where(held_now)).scalars())
        new = [notice for notice in found if notice.subject not in held]
        over = held - {notice.subject for notice in found} if whole else set()
        if not (new or over):
            return
        with self._database.write() as connection:
            for these in batched(sorted(over), _AT_ONCE):
                connection.execute(update(notices).where(held_now, _N.subject.in_(these)).values(holds=False))
            sql_notices.add(connection, new, holds=True)

    def seal(self, quiet: Duration, decide: Decide, *, labelled: bool = False) -> int:
        """Locks nothing while nothing may be reported, so that the leader can go on counting."""
        with self._database.read() as connection:
            now = self._database.read_clock(connection)
            ripe = _ripe(now, quiet, _last_reported(connection, now))
            if connection.execute(select(_N.topic).where(ripe).limit(1)).first() is None:
                return 0
        with self._database.write() as connection:
            waiting = _unreported(connection, ripe)
            labels = _labels(connection, [one.notice.subject for one in waiting]) if labelled else {}
            messages = decide(waiting, labels, _last_reported(connection, now), now)
            for message in messages:
                _note_message(connection, message, now)
        return sum(bool(message.targets) for message in messages)

    def claim(self, targets: Sequence[str], hold: Duration) -> Delivery | None:
        """The claim is the time of the next try; one beyond any pause came from a clock that ran ahead."""
        is_time = or_(_D.next_at <= self._database.now(), _D.next_at > self._database.now(LONGEST_PAUSE))
        due = and_(is_time, _D.target.in_(targets), _D.topic.in_(_KNOWN))
        keys = select(_D.message_id, _D.target).where(due).order_by(_D.next_at, _D.message_id).limit(1)
        with self._database.read() as connection:
            if connection.execute(keys).first() is None:
                return None
        claimed = {"attempts": _D.attempts + 1, "next_at": self._database.now(hold)}
        with self._database.write() as connection:
            mine = connection.execute(keys.with_for_update(skip_locked=True)).first()
            if mine is None:
                return None
            this = and_(_D.message_id == mine.message_id, _D.target == mine.target)
            row = connection.execute(update(deliveries).where(this).values(claimed).returning(*_DELIVERY)).one()
        return _delivery(row)

    def sent(self, delivery: Delivery) -> None:
        self._end(delivery, state="sent", said=None)

    def failed(self, delivery: Delivery, answer: str, next_at: Instant | None) -> None:
        text = storable(answer)[:_ANSWER_LENGTH]
        if next_at is None:
            self._end(delivery, state="dead", said=text)
            return
        with self._database.write() as connection:
            connection.execute(update(deliveries).where(_is(delivery)).values(next_at=next_at, said=text))

    def backlog(self) -> Backlog:
        waits, is_dead = _D.next_at.is_not(None), _D.state == "dead"
        newest = select(_D.target, _D.said).where(is_dead).order_by(_D.ended_at.desc()).limit(1)
        failing = select(_D.target, _D.said).where(waits, _D.said.is_not(None)).order_by(_D.next_at.desc()).limit(1)
        with self._database.read() as connection:
            waiting = connection.execute(select(func.count()).select_from(deliveries).where(waits)).scalar_one()
            dead = connection.execute(select(func.count()).select_from(deliveries).where(is_dead)).scalar_one()
            last = connection.execute(newest).first()
            tried = connection.execute(failing).first()
        return Backlog(waiting, dead, _text(last), _text(tried))

    def tidy(self, quiet: Duration) -> None:
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            untried = and_(_D.next_at.is_not(None), _D.made_at < now - GIVE_UP_AFTER, _D.next_at < now - DAY // 24)
            gone = {"state": "dead", "next_at": None, "ended_at": now, "said": func.coalesce(_D.said, "nobody tried")}
            connection.execute(update(deliveries).where(untried).values(**gone))
            over = or_(
                and_(_D.state == "sent", _D.ended_at < now - _SENT_KEPT),
                and_(_D.state == "dead", _D.ended_at < now - _DEAD_KEPT),
            )
            connection.execute(delete(deliveries).where(over))
            is_old = or_(_N.told_at.is_(None), _N.told_at < now - max(quiet, DAY))
            reported = and_(_N["count"] == 0, _N.holds == false(), is_old)
            connection.execute(delete(notices).where(reported))

    def retry_dead(self) -> int:
        with self._database.write() as connection:
            now = self._database.read_clock(connection)
            again = {"state": "waiting", "attempts": 0, "made_at": now, "next_at": now, "ended_at": None}
            return connection.execute(update(deliveries).where(_D.state == "dead").values(**again)).rowcount

    def _end(self, delivery: Delivery, **values: Any) -> None:
        over = update(deliveries).where(_is(delivery)).values(next_at=None, ended_at=self._database.now(), **values)
        with self._database.write() as connection:
            connection.execute(over)


def _ripe(now: Instant, quiet: Duration, last: Mapping[Topic, Instant]) -> ColumnElement[bool]:
    """Preselect roughly for `decide`: in a storm most unreported notices must wait, and are not even read."""
    just_reported = [topic.value for topic, at in last.items() if at + TOPIC_PAUSE > now]
    may_be = or_(_N.told_at.is_(None), _N.told_at <= now - quiet, _N.told_at > now)
    return and_(UNREPORTED, may_be, _N.topic.in_(_KNOWN), _N.topic.not_in(just_reported))


def _unreported(connection: Connection, ripe: ColumnElement[bool]) -> list[Waiting]:
    """Read and lock unreported notices, skipping those that another process is sealing."""
    found = (
        select(*_NOTICE, _N.told_at).where(ripe).order_by(_N.first_at).limit(_MOST_NOTICES)
        .with_for_update(skip_locked=True)
    )  # fmt: skip
    return [Waiting(_notice(row), row.told_at) for row in connection.execute(found)]


def _last_reported(connection: Connection, now: Instant) -> dict[Topic, Instant]:
    """The last report of each topic, ignoring times after now, which a clock that ran ahead left."""
    last = select(_N.topic, func.max(_N.told_at)).where(_N.told_at <= now, _N.topic.in_(_KNOWN)).group_by(_N.topic)
    return {Topic(topic): at for topic, at in connection.execute(last)}


def _labels(connection: Connection, subjects: Sequence[str]) -> dict[str, JobLabels]:
    found: dict[str, JobLabels] = {}
    for these in batched(sorted(set(subjects)), _AT_ONCE):
        rows = connection.execute(select(jobs.c.job_id, jobs.c.definition).where(jobs.c.job_id.in_(these)))
        found |= {row.job_id: _label(row.definition) for row in rows}
    return found


def _label(definition: Mapping[str, Any]) -> JobLabels:
    return JobLabels(str(definition.get("queue", DEFAULT_QUEUE)), frozenset(definition.get("tags") or ()))


def _note_message(connection: Connection, message: Message, now: Instant) -> None:
    """Nobody is reported to where there is no target, so the topic needs no pause."""
    body = dump_json(message.body)
    row = {
        "message_id": message.message_id, "topic": message.topic.value, "body": body, "made_at": now, "attempts": 0,
        "next_at": now, "state": "waiting",
    }  # fmt: skip
    if message.targets:
        connection.execute(insert(deliveries), [{**row, "target": target} for target in message.targets])
    reported_at = {"told_at": now} if message.targets else {}
    for these in batched([notice.subject for notice in message.notices], _AT_ONCE):
        reported = and_(_N.topic == message.topic.value, _N.subject.in_(these))
        connection.execute(update(notices).where(reported).values({"count": 0, **reported_at}))


def _text(row: Any) -> str | None:
    return None if row is None else f"{row.target}: {row.said}"


def _within(after: str | None, until: str | None) -> ColumnElement[bool]:
    bounds = [_N.subject > after] if after is not None else []
    return and_(True, *bounds, *([_N.subject <= until] if until is not None else []))


def _is(delivery: Delivery) -> ColumnElement[bool]:
    """Whether the row is still this try: a delivery claimed again since belongs to another process."""
    key = and_(_D.message_id == delivery.message_id, _D.target == delivery.target)
    return and_(key, _D.attempts == delivery.attempts, _D.state == "waiting")


def _notice(row: Any) -> Notice:
    named, subject, count, first_at, last_at, answer, holds = row[:7]
    topic = Topic(named)
    return Notice(topic, subject, count, first_at, last_at, answer, over=topic in CONDITIONS and not holds)


def _delivery(row: Any) -> Delivery:
    message_id, target, topic, body, created_at, attempts = row
    return Delivery(message_id, target, Topic(topic), body, created_at, attempts)
