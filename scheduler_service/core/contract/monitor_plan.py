"""Decisions about the monitors of a file: which stored ones it would change. Pure.

A source owns monitors as it owns jobs: only what it created or took over may be pruned. A pause that the file does not
name stays as it is, as a job's does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from itinerary.protocol.instants import Instant
from scheduler_service.core.contract.monitor_json import definition_of, read_monitor
from scheduler_service.core.contract.plan_parts import FieldChange, change_bodies, changes, refuse_others
from scheduler_service.core.monitors.model import Monitor, MonitorContent


@dataclass(frozen=True, slots=True)
class WantedMonitor:
    """A monitor of a file; `says_paused`: the file decides whether it is paused."""

    monitor_id: str
    content: MonitorContent
    says_paused: bool = False


@dataclass(frozen=True, slots=True)
class MonitorChange:
    """A stored monitor and its change. If only the source differs, no version is created."""

    there: Monitor
    content: MonitorContent
    fields: tuple[FieldChange, ...]

    @property
    def of_definition(self) -> bool:
        """Whether the definition itself changes."""
        return any(change.field != "source" for change in self.fields)


@dataclass(frozen=True, slots=True)
class MonitorsPlan:
    """The changes of monitors; `left` are owned but not named."""

    added: tuple[WantedMonitor, ...] = ()
    changed: tuple[MonitorChange, ...] = ()
    removed: tuple[Monitor, ...] = ()
    left: tuple[str, ...] = ()
    unchanged: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.added or self.changed or self.removed)


NO_MONITORS = MonitorsPlan()


def read_wanted(monitor_id: str, body: Mapping[str, Any], now: Instant) -> WantedMonitor:
    """Read a monitor of a file; BadValues."""
    return WantedMonitor(monitor_id, read_monitor(monitor_id, body, now), body.get("paused") is not None)


def plan_monitors(
    stored: Iterable[Monitor], wanted: Sequence[WantedMonitor], source: str | None, *, prune: bool, take_over: bool
) -> MonitorsPlan:
    """Return the plan; `stored` are the monitors that are named or owned. Conflict if one is another source's."""
    there = {monitor.monitor_id: monitor for monitor in stored}
    known = [(there[one.monitor_id], one) for one in wanted if one.monitor_id in there]
    if source is not None and not take_over:
        refuse_others("monitors", {monitor.monitor_id: monitor.source for monitor, _ in known}, source)
    compared = [_compared(monitor, one, source) for monitor, one in known]
    changed = tuple(change for change in compared if change.fields)
    named = {one.monitor_id for one in wanted}
    owned = [monitor for monitor in there.values() if source is not None and monitor.source == source]
    unnamed = sorted((one for one in owned if one.monitor_id not in named), key=lambda one: one.monitor_id)
    return MonitorsPlan(
        added=tuple(one for one in wanted if one.monitor_id not in there),
        changed=changed,
        removed=tuple(unnamed) if prune else (),
        left=() if prune else tuple(one.monitor_id for one in unnamed),
        unchanged=len(compared) - len(changed),
    )


def state_line(monitor: Monitor) -> str:
    """Return a name for exactly this state of the monitor; one that is created again has another."""
    return f"monitor {monitor.monitor_id} {monitor.version} {monitor.created_at} {monitor.source or ''}"


def monitors_body(plan: MonitorsPlan) -> dict[str, Any]:
    """Return the plan as JSON. It has no token: it may land in a log."""
    return {
        "added": [{"monitor_id": one.monitor_id, "monitor": definition_of(one.content)} for one in plan.added],
        "changed": [
            {
                "monitor_id": change.there.monitor_id,
                "version": change.there.version,
                "changes": change_bodies(change.fields),
            }
            for change in plan.changed
        ],
        "removed": [{"monitor_id": one.monitor_id, "monitor": _definition(one)} for one in plan.removed],
        "left": list(plan.left),
        "unchanged": plan.unchanged,
    }


def _compared(there: Monitor, wanted: WantedMonitor, source: str | None) -> MonitorChange:
    content = wanted.content
    if not wanted.says_paused and there.content is not None:
        content = replace(content, paused=there.content.paused)
    found = changes(_definition(there), definition_of(content))
    if source is not None and there.source != source:
        found.append(FieldChange("source", there.source, source))
    return MonitorChange(there, content, tuple(found))


def _definition(monitor: Monitor) -> dict[str, Any]:
    """Return the definition; nothing of one that this program cannot read."""
    return {} if monitor.content is None else definition_of(monitor.content)
