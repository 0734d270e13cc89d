"""Notices: which facts create one, when it is sent, and the message that carries it. Pure.

A notice is kept per topic and subject (usually a job) and counts. A job that fails every second is reported at once,
then with its count after the quiet time. Ready notices of one topic are sent as one message.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Duration, Instant, format_instant
from scheduler_service.core.leader.commands import Transition
from scheduler_service.core.model import MissedRange
from scheduler_service.core.notifications.topics import TOPICS as TOPICS
from scheduler_service.core.notifications.topics import Topic as Topic

TOPIC_PAUSE: Final = MINUTE
"""The minimum time between two messages of one topic: a thousand failing jobs must not cause a thousand mails."""

GIVE_UP_AFTER: Final[Duration] = 24 * HOUR
LONGEST_PAUSE: Final[Duration] = HOUR
_NAMED: Final = 50
_LETTERS: Final = 500


_TEXTS: Final[Mapping[Topic, tuple[str, str]]] = {
    Topic.RUN_FAILED: ("1 run failed for good", "{} runs failed for good"),
    Topic.RUN_MISSED: ("1 run was missed and will not run", "{} runs were missed and will not run"),
    Topic.RUN_LATE: ("1 run is due and has not started", "{} runs are due and have not started"),
    Topic.RUN_OVERLONG: ("1 run takes too long", "{} runs take too long"),
    Topic.SLA_MISSED: ("1 run missed its SLA", "{} runs missed their SLA"),
    Topic.JOB_ENDED: ("a job has no next run", "{} jobs have no next run"),
    Topic.CALENDAR_STALE: ("a calendar cannot be refreshed", "{} calendars cannot be refreshed"),
    Topic.MONITOR_DOWN: ("a monitor is down", "{} monitors are down"),
    Topic.MONITOR_UP: ("a monitor is up again", "{} monitors are up again"),
    Topic.LEADER_LOST: ("a leader was lost, another leads", "{} leaders were lost, another leads"),
    Topic.LEADER_ABSENT: ("nobody leads: nothing is started", "nobody led, {} times"),
    Topic.TEST: ("a test: notifications arrive", "{} tests"),
}


_TEXTS_OVER: Final[Mapping[Topic, tuple[str, str]]] = {
    Topic.RUN_LATE: ("1 run was late and is not any more", "{} runs were late and are not any more"),
    Topic.RUN_OVERLONG: ("1 run took too long and is over", "{} runs took too long and are over"),
    Topic.JOB_ENDED: ("a job had no next run for a time", "{} jobs had no next run for a time"),
    Topic.CALENDAR_STALE: ("a calendar is refreshed again", "{} calendars are refreshed again"),
    Topic.LEADER_ABSENT: ("nobody led for a time, somebody leads again", "nobody led, {} times; somebody leads again"),
}


@dataclass(frozen=True, slots=True)
class Notice:
    """An event of one subject, `count` times from `first_at` to `last_at`; `facts` is of the latest, as JSON.

    `over`: a condition that no longer holds.
    """

    topic: Topic
    subject: str
    count: int
    first_at: Instant
    last_at: Instant
    facts: Mapping[str, Any]
    over: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notice that was not sent yet; `reported_at` is the last message about its subject."""

    notice: Notice
    reported_at: Instant | None


@dataclass(frozen=True, slots=True)
class Named:
    """A run as notices name it."""

    run_id: str
    job_id: str | None
    task: str
    queue: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message sent once to each of its targets; receivers detect repetitions by `message_id`."""

    message_id: str
    topic: Topic
    body: Mapping[str, Any]
    notices: tuple[Notice, ...] = ()
    targets: tuple[str, ...] = ()


def run_notice(topic: Topic, run: Named, at: Instant, **facts: Any) -> Notice:
    """Return a notice about a run; its subject is its job, or its task if it has none."""
    subject = run.job_id or f"task:{run.task}"
    queue = {} if run.queue is None else {"queue": run.queue}
    fields = {"job_id": run.job_id, "task": run.task, "run_id": run.run_id, **queue, **facts}
    return Notice(topic, subject, 1, at, at, fields)


def to_report(transitions: Sequence[Transition], topics: frozenset[Topic]) -> list[Transition]:
    """Return the transitions that a target subscribes to."""
    return [t for t in transitions if _TOPIC_OF.get(t.to) in topics]


def ended_notices(ended: Iterable[Transition], runs: Mapping[str, Named]) -> list[Notice]:
    """Return notices of completed transitions into `failed` or `missed`; `runs` names their runs."""
    found = []
    for change in sorted(ended, key=lambda change: change.at):
        fields = {"reason": _short(change.reason), "error": _error(change.error), "attempt": change.attempt}
        found.append(run_notice(_TOPIC_OF[change.to], runs[change.run_id], change.at, **fields))
    return coalesced(found)


def missed_range_notices(missed_ranges: Iterable[MissedRange]) -> list[Notice]:
    """Return notices of occurrences that will not run."""
    return coalesced(map(_missed_range_notice, missed_ranges))


def coalesced(notices: Iterable[Notice]) -> list[Notice]:
    """Merge these into one notice for each topic and subject."""
    together: dict[tuple[Topic, str], Notice] = {}
    for notice in notices:
        key = (notice.topic, notice.subject)
        before = together.get(key)
        together[key] = notice if before is None else _joined(before, notice)
    return [together[key] for key in sorted(together)]


def ready(
    waiting: Sequence[Waiting], last_reported: Mapping[Topic, Instant], now: Instant, quiet: Duration
) -> list[Notice]:
    """Return the notices to send now: nothing was sent of their subject for `quiet`, of their topic for a minute.

    A message dated later than `now`, by a clock that ran ahead, counts as never sent.
    """
    just_reported = {topic for topic, at in last_reported.items() if now - TOPIC_PAUSE < at <= now}
    return [
        one.notice
        for one in waiting
        if (one.reported_at is None or not now - quiet < one.reported_at <= now)
        and one.notice.topic not in just_reported
    ]


def messages(notices: Sequence[Notice], now: Instant, new_id: Callable[[], str]) -> list[Message]:
    """Return one message for each topic."""
    by_topic = groupby(sorted(notices, key=lambda n: (n.topic, -n.count, n.subject)), key=lambda n: n.topic)
    return [_message(topic, tuple(of_topic), now, new_id()) for topic, of_topic in by_topic]


def next_try(attempts: int, created_at: Instant, now: Instant) -> Instant | None:
    """Return the next try after `attempts` failures: 10 s later, then thrice that up to an hour; None after a day."""
    at = now + min(10 * SECOND * 3 ** min(attempts - 1, 6), LONGEST_PAUSE)
    return at if at <= created_at + GIVE_UP_AFTER else None


def test_message(now: Instant, message_id: str) -> Message:
    """Return the message that `itinerary notify test` sends."""
    notice = Notice(Topic.TEST, "test", 1, now, now, {"job_id": None, "task": None, "run_id": None})
    return _message(Topic.TEST, (notice,), now, message_id)


_TOPIC_OF: Final = {"failed": Topic.RUN_FAILED, "missed": Topic.RUN_MISSED}


def _missed_range_notice(missed_range: MissedRange) -> Notice:
    facts = {"job_id": missed_range.job_id, "task": None, "run_id": None, "reason": _short(missed_range.reason)}
    return Notice(
        Topic.RUN_MISSED, missed_range.job_id, missed_range.count, missed_range.start, missed_range.end, facts
    )


def _joined(before: Notice, after: Notice) -> Notice:
    first_at, last_at = min(before.first_at, after.first_at), max(before.last_at, after.last_at)
    return replace(after, count=before.count + after.count, first_at=first_at, last_at=last_at)


def _message(topic: Topic, notices: tuple[Notice, ...], now: Instant, message_id: str) -> Message:
    count = sum(notice.count for notice in notices)
    names = [name for notice in notices[:3] if (name := _name_of(notice))]
    of_whom = f" ({', '.join(names)}{', ...' if len(notices) > len(names) else ''})" if names else ""
    body = {
        "type": topic.value,
        "timestamp": format_instant(now),
        "text": f"{_text(topic, notices)}{of_whom}",
        "data": {
            "count": count,
            "items": [_item(notice) for notice in notices[:_NAMED]],
            "more": max(0, len(notices) - _NAMED),
        },
    }
    return Message(message_id, topic, body, notices)


def _name_of(notice: Notice) -> str | None:
    facts = notice.facts
    return facts.get("job_id") or facts.get("task") or facts.get("monitor_id")


def _text(topic: Topic, notices: Sequence[Notice]) -> str:
    facts = []
    for over, fields in ((False, _TEXTS), (True, _TEXTS_OVER)):
        count = sum(notice.count for notice in notices if notice.over is over)
        if count:
            one, many = fields[topic]
            facts.append(one if count == 1 else many.format(count))
    return "; ".join(facts)


def _item(notice: Notice) -> dict[str, Any]:
    times = {"first_at": format_instant(notice.first_at), "last_at": format_instant(notice.last_at)}
    over = {"over": True} if notice.over else {}
    return {**notice.facts, "count": notice.count, **times, **over}


def _error(error: Mapping[str, Any] | None) -> dict[str, str | None] | None:
    if error is None:
        return None
    return {name: _short(error.get(name)) for name in ("type", "message")}


def _short(value: Any) -> str | None:
    return None if value is None else str(value)[:_LETTERS]
