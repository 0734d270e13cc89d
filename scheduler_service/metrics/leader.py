"""The leader's Prometheus metrics, under their public names. No label holds a run id."""

from collections import Counter as CountOf
from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from itinerary.protocol.instants import MILLISECOND, SECOND, Duration, Instant
from scheduler_service.core.contract.pruning import Past
from scheduler_service.core.leader.commands import Apply, Command
from scheduler_service.core.leader.poll_state import PAUSE
from scheduler_service.core.leader.queries import alive_workers, oldest_due_of_queues, worker_versions
from scheduler_service.core.leader.state import SchedulerState
from scheduler_service.core.model import DispatchedRun, MisfirePolicy, Overlap
from scheduler_service.core.run_state import FINAL, Event
from scheduler_service.core.samples import DELAY_BOUNDS
from scheduler_service.core.schedules.zone_rules import installed_rules
from scheduler_service.metrics.bulk_histogram import BulkHistogram
from scheduler_service.metrics.calendars import CalendarMetrics
from scheduler_service.metrics.limits import LimitMetrics
from scheduler_service.metrics.notices import NoticeMetrics
from scheduler_service.metrics.pings import PingMetrics
from scheduler_service.metrics.placement import PlacementMetrics
from scheduler_service.metrics.samples import SampleTaker
from scheduler_service.metrics.sla import SlaMetrics
from scheduler_service.ports.stores import Meter

_FINE: Final = DELAY_BOUNDS
_LONG: Final = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0)


class PrometheusMeter(Meter):
    """The Meter port on a registry of its own, so that several leaders in one process (tests) do not collide."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._is_leader = self._gauge("scheduler_is_leader", "1 while this process leads")
        self._term = self._gauge("scheduler_leader_term", "The term of the lease held last")
        self._failover = self._gauge(
            "scheduler_failover_seconds", "From the last renewal of the leader before to this one's takeover"
        )
        self._stale = self._counter("scheduler_stale_runs_total", "Due runs that the guarded move refused", "cause")
        self._index_runs = self._gauge("scheduler_index_runs", "Coming runs in the index")
        self._rebuild = self._histogram("scheduler_index_rebuild_seconds", "Time to build the index", _FINE)
        self._iteration = self._histogram("scheduler_iteration_seconds", "Time of one pass of the loop", _FINE)
        self._delay = self._bulk("scheduler_dispatch_delay_seconds", "From due to taken by the broker", _FINE)
        self._oldest = self._gauge(
            "scheduler_oldest_due_seconds", "How long the oldest due run has waited to be started"
        )
        self._runs = self._counter("scheduler_runs_total", "Runs that reached a final state", "state")
        self._active = self._gauge("scheduler_runs_active", "Runs that are not final and known to the leader")
        self._pending = self._gauge(
            "scheduler_queue_pending_runs", "Runs sent to the queue and not started yet, as the leader knows", "queue"
        )
        self._backlog = self._gauge(
            "scheduler_queue_backlog_runs",
            "Due runs that no worker has started, sent or not, without paused queues",
            "queue",
        )
        self._window = self._gauge(
            "scheduler_queue_window", "How many runs may lie in the queue now (PUBLISH_WINDOW=auto)", "queue"
        )
        self._paused = self._gauge("scheduler_queue_paused", "1 while the queue is paused", "queue")
        self._freezes = self._gauge("scheduler_freezes", "Freezes that hold now")
        self._shown: dict[Gauge, set[str]] = {}
        self._inbox_lag = self._gauge("scheduler_inbox_lag_seconds", "How far the reading of the inbox is behind")
        self._ahead = self._gauge(
            "scheduler_planned_ahead_seconds", "How far ahead rows of coming runs are created: less under load"
        )
        self._workers = self._gauge("scheduler_workers_alive", "Worker processes that the leader hears")
        self._duration = self._bulk("scheduler_run_duration_seconds", "From started to finished", _LONG)
        self._misfires = self._counter("scheduler_misfires_total", "Occurrences that came too late to run", "policy")
        self._skips = self._counter("scheduler_skips_total", "Runs skipped by the overlap rule", "reason")
        self._republished = self._counter("scheduler_republished_total", "Messages sent again", "cause")
        self._recalled = self._counter("scheduler_recalled_total", "Runs taken back from their queue to wait again")
        self._ignored = self._counter("scheduler_events_ignored_total", "Reports that changed nothing", "cause")
        self._dead = self._counter("scheduler_inbox_dead_total", "Inbox entries moved to the dead-letter stream")
        self._lost = self._counter("scheduler_lost_runs_total", "Attempts whose worker was not heard of any more")
        self._forgotten = self._counter(
            "scheduler_forgotten_dispatches_total", "Attempts that run though the database has their runs waiting"
        )
        self._pruned = self._counter("scheduler_pruned_rows_total", "Rows deleted because they were old", "table")
        self._swept = self._gauge(
            "scheduler_swept_timestamp_seconds",
            "When the last whole sweep of what is old ended, since 1970; 0: unknown",
        )
        self._without_redis = self._gauge(
            "scheduler_without_redis",
            "1 while this process leads and has not reached Redis or broker for three ttls",
        )
        self._redis_differs = self._gauge(
            "scheduler_redis_differs", "1 while this process stands by with another Redis or broker than the leader's"
        )
        self._zones_differ = self._gauge(
            "scheduler_zone_rules_differ", "1 while this process stands by with other zone rules than the leader's"
        )
        self._jobs_refused = self._gauge(
            "scheduler_refused_jobs", "Jobs that this leader cannot read, as of a newer release, and does not plan"
        )
        rules = installed_rules()
        self._gauge(
            "scheduler_zone_rules_info", "The zone rules of this process: IANA version and source", "version", "source"
        ).labels(rules.version, rules.source).set(1)
        self._placement = PlacementMetrics(self._registry)
        self._limits = LimitMetrics(self._registry)
        self.notices = NoticeMetrics(self._registry)
        self.pings = PingMetrics(self._registry)
        self.sla = SlaMetrics(self._registry)
        self.calendars = CalendarMetrics(self._registry)
        self.samples = SampleTaker(self._delay)
        self._oldest_at = 0
        # Export each counter at 0: a rate over one that first appears at 1 would miss that step.
        for state in sorted(FINAL):
            self._runs.labels(state.value)
        for policy in MisfirePolicy:
            self._misfires.labels(policy.value)
        for past in Past:
            self._pruned.labels(past.value)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._registry)

    def _bulk(self, name: str, text: str, buckets: tuple[float, ...]) -> BulkHistogram:
        return BulkHistogram(name, text, buckets, self._registry)

    def leading(self, term: int, since_renewal: float | None) -> None:
        if since_renewal is not None:
            self._failover.set(since_renewal)
        self._is_leader.set(1)
        self._term.set(term)

    def standing_by(self) -> None:
        self._is_leader.set(0)
        # The next leader reports these now.
        for gauge in (
            self._index_runs,
            self._oldest,
            self._active,
            self._workers,
            self._inbox_lag,
            self._ahead,
            self._freezes,
        ):
            gauge.set(0)
        for of_queues in (self._pending, self._backlog, self._window, self._paused):
            of_queues.clear()
        self._shown.clear()
        self._placement.forget()
        self._limits.forget()

    def without_redis(self, away: bool) -> None:
        self._without_redis.set(away)

    def redis_differs(self, differs: bool) -> None:
        self._redis_differs.set(differs)

    def zone_rules_differ(self, differ: bool) -> None:
        self._zones_differ.set(differ)

    def jobs_refused(self, number: int) -> None:
        self._jobs_refused.set(number)

    def iterated(self, state: SchedulerState, seconds: float, commands: Sequence[Command]) -> None:
        self._iteration.observe(seconds)
        self._active.set(state.runs.active())
        self._index_runs.set(len(state.index))
        if state.last_iteration_at - self._oldest_at >= SECOND:
            self._oldest_at = state.last_iteration_at
            self._show_figures(state, state.last_iteration_at)
            self._show_queues(state)
            self._limits.show(state)
        for command in commands:
            if isinstance(command, Apply):
                self._applied(command)
        self._placement.show(state)
        self._count(state)

    def _show_figures(self, state: SchedulerState, now: Instant) -> None:
        lags = {queue: now - since for queue, since in oldest_due_of_queues(state, now).items()}
        inbox_lag, workers = _inbox_lag(state, now), alive_workers(state, now)
        self._oldest.set(max(lags.values(), default=0) / SECOND)
        self._inbox_lag.set(inbox_lag / SECOND)
        self._ahead.set((state.planned.cursor - now) / SECOND)
        self._workers.set(workers)
        self.samples.show(state.runs, lags, workers, inbox_lag, worker_versions(state, now))

    def _show_queues(self, state: SchedulerState) -> None:
        paused, pending = state.controls.held_queues(state.last_iteration_at), state.runs.pending
        waiting = {queue: len(heap) for queue, heap in state.dispatches.waiting.items() if queue not in paused}
        self._show(self._pending, pending)
        self._show(self._backlog, {queue: waiting.get(queue, 0) + pending[queue] for queue in {*waiting, *pending}})
        self._show(self._window, state.windows.known(state.last_iteration_at))
        self._show(self._paused, dict.fromkeys(paused, 1))
        self._freezes.set(len(state.controls.holding(state.last_iteration_at)))

    def _show(self, gauge: Gauge, numbers: Mapping[str, int]) -> None:
        """Show the number of each queue, and 0 for a queue that had one before."""
        shown = self._shown.setdefault(gauge, set())
        for queue in shown.difference(numbers):
            gauge.labels(queue).set(0)
        for queue, number in numbers.items():
            gauge.labels(queue).set(number)
        shown.update(numbers)

    def _applied(self, batch: Apply) -> None:
        for state, number in CountOf(change.to for change in batch.transitions).items():
            if state in FINAL:
                self._runs.labels(state.value).inc(number)
        self._duration.observe(
            max(0, change.at - change.started_at) / SECOND
            for change in batch.transitions
            if change.started_at is not None and change.event is not Event.START
        )

    def _count(self, state: SchedulerState) -> None:
        for (name, label), number in state.counts.take().items():
            match name:
                case "ignored":
                    self._ignored.labels(label).inc(number)
                case "stale":
                    self._stale.labels(label).inc(number)
                case "skip":
                    self._skips.labels(label).inc(number)
                case "misfire":
                    self._misfires.labels(label).inc(number)
                case "republished":
                    self._republished.labels(label).inc(number)
                case "recalled":
                    self._recalled.inc(number)
                case "lost":
                    self._lost.inc(number)
                case "forgotten":
                    self._forgotten.inc(number)
                case "placed" | "rebalanced":
                    self._placement.count(name, label, number)
                case _:
                    assert_never(name)

    def placed(self, count: int, seconds: float) -> None:
        self._placement.placed(count, seconds)

    def rebuilt(self, seconds: float) -> None:
        self._rebuild.observe(seconds)

    def published(self, runs: Sequence[DispatchedRun], at: Instant) -> None:
        """A run that was asked to wait, behind other runs or for a limit, is not late when it is dispatched."""
        bounded = self._limits.bounded_queues
        self._delay.observe(
            max(0, at - run.due_at) / SECOND
            for run in runs
            if run.overlap != Overlap.QUEUE_ALL and run.limits is None and run.queue not in bounded
        )

    def dead_lettered(self) -> None:
        self._dead.inc()

    def pruned(self, past: Past, rows: int) -> None:
        self._pruned.labels(past.value).inc(rows)

    def swept(self, ended_at: Instant) -> None:
        self._swept.set(ended_at / SECOND)

    def exposition(self) -> str:
        return generate_latest(self._registry).decode()


def _inbox_lag(state: SchedulerState, now: Instant) -> Duration:
    """How far reading lags behind, by the time in an entry's id: 0 at the end, growing while Redis is away."""
    milliseconds = int(state.inbox.position.partition("-")[0] or 0)
    behind = now - max(state.since, state.inbox.listened.until, milliseconds * MILLISECOND)
    return behind if behind > PAUSE else 0
