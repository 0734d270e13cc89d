"""What a token is limited to: queues, tasks, prefixes of job ids, its own runs. Pure.

Each limit that is given must hold. What has no job lies outside of a limit to jobs.
"""

import re
from dataclasses import dataclass
from typing import Any, Final, Protocol

from itinerary.protocol.identity import JOB_ID, QUEUE
from scheduler_service.core.model import Job

_TASKS: Final = re.compile(r"[^*;,|\s][^*;,|]{0,254}\*?")
_NAMES: Final = ("queues", "tasks", "jobs")


class _Asked(Protocol):
    """A run, stored or new."""

    @property
    def job_id(self) -> str | None: ...
    @property
    def task(self) -> str: ...
    @property
    def queue(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """Empty tuples limit nothing. `tasks` are names or, with a `*` at their end, beginnings; `jobs` are beginnings.

    `owner`: only the runs that this token enqueued.
    """

    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    owner: str | None = None

    @property
    def none(self) -> bool:
        """Whether nothing is limited."""
        return self == NO_LIMITS

    def has_job(self, job: Job) -> bool:
        """Whether the job lies within."""
        return self.owner is None and self.has_id(job.job_id) and self._has(job.task, job.queue)

    def has_run(self, run: _Asked, owner: str | None) -> bool:
        """Whether the run lies within, `owner` being whose it is."""
        mine = self.owner is None or owner == self.owner
        of_jobs = not self.jobs or (run.job_id is not None and self.has_id(run.job_id))
        return mine and of_jobs and self._has(run.task, run.queue)

    def has_id(self, job_id: str) -> bool:
        """Whether a job of this id may lie within."""
        return not self.jobs or job_id.startswith(self.jobs)

    def has_queue(self, queue: str) -> bool:
        """Whether rows of the queue may lie within."""
        return not self.queues or queue in self.queues

    def sees_queue(self, queue: str) -> bool:
        """Whether figures of the queue may be seen. Other limits do not say whose a queue is: then of none."""
        return self.none or queue in self.queues

    def _has(self, task: str, queue: str) -> bool:
        return self.has_queue(queue) and (not self.tasks or any(_names(pattern, task) for pattern in self.tasks))


NO_LIMITS: Final = Limits()


def _names(pattern: str, task: str) -> bool:
    return task.startswith(pattern[:-1]) if pattern.endswith("*") else task == pattern


def read_limits(text: str) -> Limits:
    """`queues=a,b;tasks=shop.*;jobs=shop.`; ValueError saying what is allowed."""
    found: dict[str, Any] = {}
    for part in text.split(";"):
        name, equals, values = part.strip().partition("=")
        parts = tuple(value.strip() for value in values.split(","))
        if not equals or name not in _NAMES or name in found or not all(_is_one(name, value) for value in parts):
            raise ValueError("give limits such as queues=a,b;tasks=shop.*;jobs=shop. (each once, none empty)")
        found[name] = parts
    return Limits(**found)


def _is_one(name: str, value: str) -> bool:
    pattern = {"queues": QUEUE, "tasks": _TASKS, "jobs": JOB_ID}[name]
    return pattern.fullmatch(value) is not None
