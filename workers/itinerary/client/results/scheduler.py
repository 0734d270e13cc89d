"""The leader and what it knows: workers, queues, the load of the coming hours, the audit log."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from itinerary.client.results.record import Answer, Record


@dataclass(frozen=True, eq=False)
class AuditEntry(Record):
    """One change: its author, its kind, and the values before and after it."""

    id: int
    at: datetime
    actor: str
    role: str
    action: str
    subject: str | None
    before: Any
    after: Any


@dataclass(frozen=True, eq=False)
class AuditPage(Answer):
    """A page of the audit log, newest first."""

    items: list[AuditEntry]
    next_cursor: str | None


@dataclass(frozen=True, eq=False)
class HourLoad(Record):
    """The runs of an hour of the day, in UTC."""

    hour: int
    job_count: int


@dataclass(frozen=True, eq=False)
class SlotLoad(Record):
    """The runs of a quarter of an hour."""

    at: datetime
    job_count: int


@dataclass(frozen=True, eq=False)
class Distribution(Record):
    """The next 24 hours, from the present quarter of an hour on."""

    window_hours: int
    slot_minutes: int
    total_jobs: int
    hourly_distribution: list[HourLoad]
    distribution_score: float
    peak_hour: int
    peak_count: int
    suggestion: str
    window_start: datetime
    slot_distribution: list[SlotLoad]


@dataclass(frozen=True, eq=False)
class WouldMove(Record):
    """A job's next run, now and after the rebalance."""

    job_id: str
    current_time: datetime
    proposed_time: datetime
    why: str


@dataclass(frozen=True, eq=False)
class Skipped(Record):
    """A job that is not moved."""

    job_id: str
    reason: str


@dataclass(frozen=True, eq=False)
class RebalancePlan(Record):
    """The moves that a rebalance would make."""

    plan_id: str
    would_move: int
    would_skip: int
    current_score: float
    projected_score: float
    preview: list[WouldMove]
    skipped: list[Skipped]
    first_slot: datetime
    current_slots: list[int]
    projected_slots: list[int]


@dataclass(frozen=True, eq=False)
class Moved(Record):
    """A job whose next run was moved."""

    job_id: str
    old_time: datetime
    new_time: datetime


@dataclass(frozen=True, eq=False)
class Rebalance(Record):
    """The changes that a rebalance, or its undoing, made."""

    plan_id: str
    moved: list[Moved]
    skipped: list[Skipped]
    new_distribution_score: float


@dataclass(frozen=True, eq=False)
class Rate(Record):
    """At most `count` runs start in any window of `per`."""

    count: int
    per: str


@dataclass(frozen=True, eq=False)
class Bounds(Record):
    """The bounds that one key of a limit has in place of the limit's own."""

    concurrency: int | None
    rate: Rate | None


@dataclass(frozen=True, eq=False)
class KeyUse(Record):
    """The use of a limit by one of its keys."""

    key: str
    in_flight: int
    waiting: int


@dataclass(frozen=True, eq=False)
class Limit(Record):
    """A limit, and its use as the leader knows it: None if no leader answers.

    `waiting` counts at most 1,000 due runs; `busiest_keys` are 20 at most.
    """

    name: str
    concurrency: int | None
    rate: Rate | None
    per_key: bool
    overrides: dict[str, Bounds]
    description: str
    in_flight: int | None
    waiting: int | None
    waiting_is_exact: bool | None
    busiest_keys: list[KeyUse] | None


@dataclass(frozen=True, eq=False)
class Queue(Record):
    """A queue: `waiting` runs are due and not dispatched (at most 1,000 are counted), `pending` ones not started.

    `depth` is what the leader counts as pending; `lag` is how long a run is overdue, dispatched or not.
    """

    name: str
    defined: bool
    concurrency: int | None
    rate: Rate | None
    fair: bool
    description: str
    paused: bool
    pause_reason: str | None
    paused_at: datetime | None
    paused_by: str | None
    paused_until: datetime | None
    waiting: int
    waiting_is_exact: bool
    pending: int
    running: int
    in_flight_is_exact: bool
    depth: int
    oldest_age: str | None
    lag: str | None
    workers: int | None


@dataclass(frozen=True, eq=False)
class Freeze(Record):
    """A freeze: nothing in its `scope` starts from `since` on ("from" in the JSON).

    While it holds, `running` runs of its scope run on and `pending` ones are not recalled yet; else both are None.
    """

    freeze_id: int
    status: str
    scope: dict[str, Any]
    during: str
    since: datetime = field(metadata={"json": "from"})
    until: datetime | None
    reason: str
    created_at: datetime
    created_by: str
    ended_at: datetime | None
    ended_by: str | None
    running: int | None
    pending: int | None
    in_flight_is_exact: bool | None


@dataclass(frozen=True, eq=False)
class Worker(Record):
    """A worker that sends heartbeats to the leader."""

    name: str
    alive: bool
    last_seen_at: datetime
    concurrency: int
    running: list[str]
    queues: list[str]
    version: str | None
    since: datetime | None


@dataclass(frozen=True, eq=False)
class KnownTasks(Answer):
    """The tasks that living workers say they know; `complete`: none of them knows another."""

    items: list[str]
    complete: bool


@dataclass(frozen=True, eq=False)
class Status(Record):
    """The leader and its view; null where nobody can answer."""

    leader: str | None
    term: int | None
    since: datetime | None
    last_leader: str | None
    last_heard_at: datetime | None
    leader_answers: bool | None
    leader_without_redis: bool | None
    other_than_leaders: str | None
    zone_rules: str | None
    zone_rules_api: str
    zone_rules_standby: str | None
    index_runs: int | None
    last_rebuild_at: datetime | None
    last_iteration_at: datetime | None
    oldest_due_at: datetime | None
    active_runs: int | None
    inbox_depth: int | None
    workers: int | None
