"""Routes of notices to targets: by event, and by job, queue and tag of the subject. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Final, NamedTuple

from itinerary.protocol.instants import Instant
from scheduler_service.core.notifications.notices import Message, Notice, messages
from scheduler_service.core.notifications.topics import TOPICS, Topic


class JobLabels(NamedTuple):
    """Queue and tags of a job as it is now."""

    queue: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Route:
    """The wishes of a target: one entry of each list given must match; jobs, queues and tags may have * and ?."""

    events: frozenset[Topic] = TOPICS
    jobs: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def by_label(self) -> bool:
        """Whether it must know the jobs themselves."""
        return bool(self.queues or self.tags)

    def takes(self, notice: Notice, labels: JobLabels | None) -> bool:
        """Whether a notice is wanted; `labels` are those of its job, if it has one."""
        job_id, queue = notice.facts.get("job_id"), notice.facts.get("queue") or (labels.queue if labels else None)
        return (
            notice.topic in self.events
            and _matches(self.jobs, [job_id] if job_id else [])
            and _matches(self.queues, [queue] if queue else [])
            and _matches(self.tags, labels.tags if labels else ())
        )


EVERYTHING: Final = Route()


def addressed(
    notices: Sequence[Notice],
    labels: Mapping[str, JobLabels],
    routes: Mapping[str, Route],
    now: Instant,
    new_id: Callable[[], str],
) -> list[Message]:
    """Return the messages with their targets, one for each topic and set of notices; `labels` are by subject.

    A message without targets holds what nobody wants.
    """
    targets: dict[tuple[Topic, tuple[int, ...]], list[str]] = {}
    unwanted = set(range(len(notices)))
    for name, route in routes.items():
        wanted = [at for at, one in enumerate(notices) if route.takes(one, labels.get(one.subject))]
        unwanted.difference_update(wanted)
        for topic, places in _by_topic(notices, wanted):
            targets.setdefault((topic, places), []).append(name)
    targets |= {group: [] for group in _by_topic(notices, sorted(unwanted))}
    return [
        replace(message, targets=tuple(names))
        for (_, places), names in sorted(targets.items(), key=lambda group: group[0])
        for message in messages([notices[at] for at in places], now, new_id)
    ]


def _by_topic(notices: Sequence[Notice], places: Sequence[int]) -> Iterator[tuple[Topic, tuple[int, ...]]]:
    ordered = sorted(places, key=lambda at: notices[at].topic)
    for topic, of_topic in groupby(ordered, key=lambda at: notices[at].topic):
        yield topic, tuple(of_topic)


def _matches(patterns: Sequence[str], values: Iterable[str]) -> bool:
    return not patterns or any(fnmatchcase(value, pattern) for value in values for pattern in patterns)
