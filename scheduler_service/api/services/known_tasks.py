"""The tasks that living workers know, asked of the leader. Never keeps anything."""

from collections.abc import Mapping
from typing import Any

from itinerary.protocol.task_names import TaskNames
from scheduler_service.api.context import ApiContext
from scheduler_service.api.http.problems import Problem

NOBODY_SAYS = TaskNames((), complete=False)


def known_tasks(context: ApiContext) -> TaskNames:
    """Return the names; incomplete where no leader answers, where one of the release before does, or to limited tokens.

    Incomplete: also while a living worker, such as one of the release before, has not said what it knows.
    """
    try:
        return names_of(context.ask_leader("tasks"))
    except Problem:
        return NOBODY_SAYS


def names_of(answer: Mapping[str, Any]) -> TaskNames:
    """Return the names in a leader's answer; a leader of the release before has none."""
    return TaskNames(tuple(answer.get("tasks", ())), bool(answer.get("complete")))
