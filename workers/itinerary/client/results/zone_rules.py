"""The zone rules of the installation, and the changes that others would bring."""

from dataclasses import dataclass, field
from datetime import datetime

from itinerary.client.results.record import Record


@dataclass(frozen=True, eq=False)
class AdoptedRules(Record):
    """A set of zone rules that a leader adopted; it decides from `effective_from` on."""

    version: str
    digest: str
    source: str
    holder: str
    adopted_at: datetime
    effective_from: datetime


@dataclass(frozen=True, eq=False)
class ZoneRules(Record):
    """The zone rules in force, those adopted before (newest first), and those of the hosts."""

    version: str
    digest: str
    adopted: list[AdoptedRules]
    installed: str
    installed_digest: str
    installed_source: str
    difference: str | None
    leader: str | None
    standby: str | None


@dataclass(frozen=True, eq=False)
class ChangedZone(Record):
    """A zone of jobs whose clocks two sets of rules show differently."""

    timezone: str
    first_at: datetime


@dataclass(frozen=True, eq=False)
class ChangedJob(Record):
    """A job that changes; `before` is its first time that is no more, `after` its first new one."""

    job_id: str
    timezone: str
    before: datetime | None
    after: datetime | None


@dataclass(frozen=True, eq=False)
class ZoneDiff(Record):
    """The changes from one set of zone rules to another; `from_version` and `to` are their IANA versions."""

    from_version: str = field(metadata={"json": "from"})
    to: str
    same: bool
    start: datetime
    end: datetime
    zones: list[ChangedZone]
    jobs: list[ChangedJob]
    changed: int
    compared: int
    unchecked: int
