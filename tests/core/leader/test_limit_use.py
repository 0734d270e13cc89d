"""The use of limits as the leader tells it: what is in flight, what waits, and the busiest keys."""

from dataclasses import replace
from typing import NoReturn

import pytest

from itinerary.protocol.instants import SECOND
from itinerary.protocol.limits import LimitUse, lane_of
from scheduler_service.core.freezes import Scope
from scheduler_service.core.leader import limit_use
from scheduler_service.core.leader.limit_use import limit_uses
from scheduler_service.core.leader.messages import Query
from scheduler_service.core.leader.parts.runs import RunTable
from scheduler_service.core.leader.queries import answer, oldest_due
from scheduler_service.core.leader.state import CoreSettings
from scheduler_service.core.limits import Bounds, Limit
from scheduler_service.core.run_state import RunState
from tests.support.gate import Gate, limit, waiting
from tests.support.world import SOMEBODY, World


def full_world() -> World:
    """One slot and a window of two: three runs are in flight, of the first tenant and without limits; others wait."""
    world = World(settings=CoreSettings(publish_window=2))
    world.workers.seconds, world.workers.slots = 60, 1
    for made in (Limit("api", Bounds(100)), Limit("tenant", Bounds(100), per_key=True)):
        world.store.limits.edit(made.name, lambda _, made=made: made, by=SOMEBODY)
    world.tell("control_changed")
    world.advance(SECOND)
    for key in ("acme", None, "acme", "ü", "acme", "b"):
        limits = () if key is None else (LimitUse("api"), LimitUse("tenant", key))
        world.enqueue(limits=limits, lane=lane_of(limits))
    return world


def test_runs_in_flight_and_waiting_are_counted_by_limit_and_by_key() -> None:
    world = full_world()
    keys = [("acme", 2, 1), ("b", 0, 1), ("ü", 0, 1)]
    tenant = [{"key": key, "in_flight": in_flight, "waiting": waiting} for key, in_flight, waiting in keys]
    counts = {"in_flight": 2, "waiting": 3, "waiting_is_exact": True}
    expected = [{"name": "api", **counts, "busiest_keys": []}, {"name": "tenant", **counts, "busiest_keys": tenant}]
    assert answer(world.state, Query("limits", None, "reply"), world.now) == {"limits": expected}


def test_counts_and_keys_end_at_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full_world()
    monkeypatch.setattr(limit_use, "MOST_WAITING", 2)
    monkeypatch.setattr(limit_use, "_MOST_KEYS", 1)
    (_, tenant) = limit_uses(world.state, world.now)
    assert (tenant["waiting"], tenant["waiting_is_exact"]) == (2, False)
    assert [key["key"] for key in tenant["busiest_keys"]] == ["acme"]


def test_the_use_is_found_without_a_scan_of_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    world = full_world()
    counted = limit_uses(world.state, world.now)

    def scanned(_: RunTable) -> NoReturn:
        raise AssertionError("a million planned runs may be there")

    monkeypatch.setattr(RunTable, "__iter__", scanned)
    assert limit_uses(world.state, world.now) == counted


def test_a_run_waits_for_a_limit_while_nothing_else_holds_it_or_has_ended_it() -> None:
    one = Gate()
    one.edit(api=limit(1))
    one.beat()
    one.due(*(waiting(run_id, "api") for run_id in "abc"), waiting("r", "api", queue="r"))
    (use,) = limit_uses(one.state, one.now)
    assert (use["in_flight"], use["waiting"]) == (1, 3)
    one.edit(api=limit(1), pauses=["r"])
    one.row("c", RunState.CANCELLED)
    (use,) = limit_uses(one.state, one.now)
    assert (use["in_flight"], use["waiting"]) == (1, 1)


def test_what_a_freeze_holds_waits_for_no_limit() -> None:
    world = full_world()
    freeze = world.freeze(Scope(queues=frozenset({"default"})))
    assert [use["waiting"] for use in limit_uses(world.state, world.now)] == [0, 0]
    world.end_freeze(freeze)
    assert [use["waiting"] for use in limit_uses(world.state, world.now)] == [3, 3]


def test_metrics_show_limits_by_name_and_no_key() -> None:
    world = full_world()
    world.advance(5 * SECOND)
    shown = world.meter.exposition()
    for line in (
        "scheduler_limits 2.0", 'scheduler_limit_in_flight_runs{limit="tenant"} 2.0',
        'scheduler_limit_waiting_runs{limit="api"} 3.0', 'scheduler_limit_oldest_waiting_seconds{limit="api"} 5.0',
    ):  # fmt: skip
        assert line in shown
    assert "acme" not in shown
    world.pause_queue()
    world.advance(2 * SECOND)
    assert 'scheduler_limit_oldest_waiting_seconds{limit="api"} 0.0' in world.meter.exposition(), "a pause holds it"
    world.workers.slots = 8
    world.resume_queue()
    for _ in range(18):  # without heartbeats no run with limits is dispatched
        world.workers.beat()
        world.advance(10 * SECOND)
    assert "{limit=" not in world.meter.exposition(), "none is in use"
    world.meter.standing_by()
    assert "scheduler_limits 0.0" in world.meter.exposition()


def test_a_run_that_waits_for_a_limit_is_not_late() -> None:
    world = World()
    world.workers.seconds = 600
    world.store.limits.edit("api", lambda _: Limit("api", Bounds(1)), by=SOMEBODY)
    world.store.queues.define("default", lambda there: replace(there, bounds=Bounds(2)), by=SOMEBODY)
    world.tell("control_changed")
    world.workers.beat()
    world.advance(SECOND)
    in_limit = [world.enqueue(limits=(LimitUse("api"),)) for _ in range(2)]
    world.workers.beat()
    world.advance(5 * SECOND)
    assert [world.run(run_id).state for run_id in in_limit] == [RunState.RUNNING, RunState.SCHEDULED]
    assert oldest_due(world.state, world.now) is None
    in_queue = [world.enqueue() for _ in range(2)]
    world.workers.beat()
    world.advance(5 * SECOND)
    assert [world.run(run_id).state for run_id in in_queue] == [RunState.RUNNING, RunState.SCHEDULED]
    assert oldest_due(world.state, world.now) is None
    assert (tuple(use["in_flight"] for use in limit_uses(world.state, world.now))) == (1,)
    delays = [line for line in world.meter.exposition().splitlines() if "dispatch_delay_seconds_count" in line]
    assert delays == ["scheduler_dispatch_delay_seconds_count 0.0"], "neither was late by the leader's fault"
    world.store.queues.define("default", lambda there: replace(there, bounds=Bounds()), by=SOMEBODY)
    world.store.limits.delete("api", by=SOMEBODY)
    world.tell("control_changed")
    world.workers.slots = 0
    world.advance(5 * SECOND)
    assert oldest_due(world.state, world.now) is not None
