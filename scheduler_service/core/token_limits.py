"""The limits of a token: queues, tasks, prefixes of job ids, its own runs. Pure.

Every limit that is set must hold. A run without a job is outside any limit to jobs.
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
    """The limits of a token; an empty tuple limits nothing.

    `tasks` are names, or prefixes if they end in `*`; `jobs` are prefixes; `owner`: only the runs that this token
    enqueued.
    """

    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    owner: str | None = None

    @property
    def none(self) -> bool:
        """Whether there is no limit."""
        return self == NO_LIMITS

    def has_job(self, job: Job) -> bool:
        """Whether the job is within the limits."""
        return self.owner is None and self.has_id(job.job_id) and self._has(job.task, job.queue)

    def has_run(self, run: _Asked, owner: str | None) -> bool:
        """Whether the run, which belongs to `owner`, is within the limits."""
        mine = self.owner is None or owner == self.owner
        of_jobs = not self.jobs or (run.job_id is not None and self.has_id(run.job_id))
        return mine and of_jobs and self._has(run.task, run.queue)

    def has_id(self, job_id: str) -> bool:
        """Whether a job with this id may be within the limits."""
        return not self.jobs or job_id.startswith(self.jobs)

    def has_queue(self, queue: str) -> bool:
        """Whether rows of the queue may be within the limits."""
        return not self.queues or queue in self.queues

    def sees_queue(self, queue: str) -> bool:
        """Whether the token may see figures of the queue. A token with other limits sees none: they name no queue."""
        return self.none or queue in self.queues

    def has_all_of(self, queue: str) -> bool:
        """Whether every run of the queue is within the limits."""
        return self.none or (queue in self.queues and not (self.tasks or self.jobs or self.owner))

    def _has(self, task: str, queue: str) -> bool:
        return self.has_queue(queue) and (not self.tasks or any(_names(pattern, task) for pattern in self.tasks))


NO_LIMITS: Final = Limits()


def _names(pattern: str, task: str) -> bool:
    return task.startswith(pattern[:-1]) if pattern.endswith("*") else task == pattern


def read_limits(text: str) -> Limits:
    """Read `queues=a,b;tasks=shop.*;jobs=shop.`; raises ValueError with the accepted form."""
    found: dict[str, Any] = {}
    for part in text.split(";"):
        name, equals, values = part.strip().partition("=")
        parts = tuple(value.strip() for value in values.split(","))
        if not equals or name not in _NAMES or name in found or not all(_is_one(name, value) for value in parts):
            raise ValueError("invalid limits; write queues=a,b;tasks=shop.*;jobs=shop. (each once, none empty)")
        found[name] = parts
    return Limits(**found)


def _is_one(name: str, value: str) -> bool:
    pattern = {"queues": QUEUE, "tasks": _TASKS, "jobs": JOB_ID}[name]
    return pattern.fullmatch(value) is not None
