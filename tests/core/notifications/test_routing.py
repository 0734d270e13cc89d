"""Which target gets which notices, and in how many messages."""

from itertools import count
from typing import Any

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.notifications.notices import Notice, Topic
from scheduler_service.core.notifications.routing import EVERYTHING, JobLabels, Route, addressed

LABELS = {"close": JobLabels("bulk", frozenset({"billing", "night"})), "open": JobLabels("default", frozenset())}


def notice(subject: str, topic: Topic = Topic.RUN_FAILED, **facts: Any) -> Notice:
    return Notice(topic, subject, 1, SECOND, SECOND, {"job_id": subject, **facts})


def sent(notices: list[Notice], **routes: Route) -> list[tuple[tuple[str, ...], str, list[str]]]:
    numbers = count(1)
    found = addressed(notices, LABELS, routes, SECOND, lambda: str(next(numbers)))
    assert len({message.message_id for message in found}) == len(found)
    return [(one.targets, one.topic.value, [n.subject for n in one.notices]) for one in found]


@pytest.mark.parametrize(
    ("route", "taken"),
    [
        (Route(), ["close", "open", "leader", "task:t"]),
        (Route(jobs=("clo*",)), ["close"]),
        (Route(jobs=("CLOSE",)), []),
        (Route(queues=("bulk", "fast")), ["close", "task:t"]),
        (Route(tags=("billing",)), ["close"]),
        (Route(tags=("billing",), queues=("default",)), []),
        (Route(events=frozenset({Topic.LEADER_LOST})), ["leader"]),
    ],
)
def test_each_list_that_a_route_gives_must_match(route: Route, taken: list[str]) -> None:
    alone = Notice(Topic.RUN_FAILED, "task:t", 1, 1, 1, {"job_id": None, "queue": "fast"})
    leader = Notice(Topic.LEADER_LOST, "leader", 1, 1, 1, {})
    given = [notice("close"), notice("open"), leader, alone]
    assert [one.subject for one in given if route.takes(one, LABELS.get(one.subject))] == taken


def test_targets_that_want_the_same_get_the_same_message_and_others_their_own() -> None:
    given = [notice("close"), notice("open"), notice("open", Topic.RUN_LATE)]
    billing = Route(tags=("billing",))
    assert sent(given, hook=EVERYTHING, mail=EVERYTHING, a=billing, b=Route(jobs=("close",))) == [
        (("a", "b"), "run.failed", ["close"]),
        (("hook", "mail"), "run.failed", ["close", "open"]),
        (("hook", "mail"), "run.late", ["open"]),
    ]


def test_what_nobody_wants_has_no_target_but_is_not_forgotten() -> None:
    assert sent([notice("open"), notice("close")], a=Route(tags=("billing",))) == [
        ((), "run.failed", ["open"]),
        (("a",), "run.failed", ["close"]),
    ]
