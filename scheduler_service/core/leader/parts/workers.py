"""Workers as their heartbeats show them."""

from dataclasses import dataclass, field
from typing import Final

from itinerary.protocol.instants import SECOND, Duration, Instant
from itinerary.protocol.task_names import TaskNames

WORKER_ALIVE_FOR: Final = 15 * SECOND
_FORGOTTEN_AFTER: Final = 600 * SECOND
_FAREWELL_FORGOTTEN_AFTER: Final = 60 * SECOND


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process as of its last heartbeat; `left`: that was a farewell. `behind`: how far its clock lags ours.

    `recalls`: it refuses recalled messages. `since`: when it started, by its own clock. `tasks`: None until it said.
    """

    name: str
    last_seen_at: Instant
    concurrency: int
    queues: tuple[str, ...]
    running: tuple[str, ...]
    left: bool
    epoch: str | None = None
    behind: Duration = 0
    protocol: int = 1
    recalls: bool = False
    version: str | None = None
    since: Instant | None = None
    tasks: TaskNames | None = None


@dataclass(slots=True)
class Workers:
    """Workers by name, and their names by queue."""

    by_name: dict[str, WorkerView] = field(default_factory=dict)
    _of_queue: dict[str, dict[str, None]] = field(default_factory=dict)

    def seen(self, view: WorkerView) -> None:
        """Store the view of a worker's newest heartbeat."""
        before = self.by_name.get(view.name)
        if before is None or before.queues != view.queues:
            self._forget(view.name)
            for queue in view.queues:
                self._of_queue.setdefault(queue, {})[view.name] = None
        self.by_name[view.name] = view

    def listening(self, queue: str) -> list[WorkerView]:
        """The workers that consume from the queue, as their last heartbeats said."""
        return [self.by_name[name] for name in self._of_queue.get(queue, ())]

    def last_seen_at(self) -> Instant:
        """The time of the newest heartbeat of all."""
        return max((view.last_seen_at for view in self.by_name.values()), default=0)

    def all_know_recalls(self) -> bool:
        """Whether every known worker refuses recalled messages; an older one would refuse their successors too."""
        return all(view.recalls or view.left for view in self.by_name.values())

    def forget_gone(self, now: Instant) -> None:
        """Forget workers last seen more than ten minutes ago, or whose last heartbeat was a farewell a minute ago."""
        for name, view in list(self.by_name.items()):
            unseen_for = now - view.last_seen_at
            if unseen_for > _FORGOTTEN_AFTER or (view.left and unseen_for > _FAREWELL_FORGOTTEN_AFTER):
                self._forget(name)

    def _forget(self, name: str) -> None:
        view = self.by_name.pop(name, None)
        for queue in view.queues if view is not None else ():
            names = self._of_queue.get(queue, {})
            names.pop(name, None)
            if not names:
                self._of_queue.pop(queue, None)
