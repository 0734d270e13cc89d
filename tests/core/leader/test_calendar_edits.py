"""Edits of calendars that are in use: the cursor waits for an index that shows them, and nothing fires twice."""

from typing import Any

import pytest

from itinerary.protocol.errors import LeaseLost
from itinerary.protocol.instants import MINUTE, SECOND, Instant
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.calendars.model import Compiled, NamedDays, NamedSpan
from scheduler_service.core.calendars.stored import CalendarContent
from scheduler_service.core.controls import CalendarEdit
from scheduler_service.core.leader import edits
from scheduler_service.core.leader.job_reads import ReadCalendarJobs
from scheduler_service.core.leader.parts.calendars import CalendarEdits
from scheduler_service.core.leader.state import CoreSettings
from tests.support.world import World

BY = AuditedChange("olga", "operator", "calendar.put")


def put(world: World, day: int, *, told: bool = True) -> Instant:
    """Somebody edits the calendar, of another year; when that holds."""
    compiled = Compiled("UTC", days=(NamedDays(day, day),))
    stored = world.store.calendars.edit("de", lambda _: CalendarContent({}, compiled), by=BY)
    if told:
        world.tell("control_changed")
    world.reconcile()
    return stored.effective_from


def put_spans(world: World, *spans: tuple[Instant, Instant], led: bool = True) -> Instant:
    """Somebody closes these times; when that holds."""
    compiled = Compiled("UTC", spans=tuple(NamedSpan(*span) for span in spans))
    stored = world.store.calendars.edit("closed", lambda _: CalendarContent({}, compiled), by=BY)
    if led:
        world.tell("control_changed")
        world.reconcile()
    return stored.effective_from


def edited_world(every: str = "1s", *, told: bool = True, **settings: Any) -> tuple[World, Instant]:
    """A job under a calendar whose edit the index does not show yet."""
    world = World(settings=CoreSettings(**settings))
    world.every("each", every, overlap="allow")
    put(world, 1)
    world.store.tables.job_calendars["each"] = {"de": False}
    world.advance(MINUTE)
    world.hold_builder = True
    return world, put(world, 2, told=told)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False])
def test_the_cursor_waits_for_an_index_that_shows_the_edit(told: bool) -> None:
    world, begins = edited_world(told=told)
    world.advance(begins - world.now + 3 * SECOND)
    assert world.state.planned.cursor == begins
    assert world.runs("each")[-1].scheduled_at < begins
    world.release_builder()
    world.advance(10 * SECOND)
    runs = world.runs("each")
    times = [run.scheduled_at for run in runs]
    assert times == [*range(times[0], times[-1] + 1, SECOND)], "nothing is lost, nothing fires twice"
    assert times[-1] > world.now
    assert world.state.calendars.bound is None


def test_an_index_in_time_delays_nothing() -> None:
    world, begins = edited_world()
    world.release_builder()
    world.advance(2 * SECOND)
    assert world.state.calendars.bound is None, "the build was hurried"
    world.advance(begins - world.now + SECOND)
    assert {run.state.value for run in world.runs("each") if run.scheduled_at < world.now - SECOND} == {"completed"}


def test_a_leader_that_does_not_learn_of_the_edit_leads_no_longer() -> None:
    # It dispatches nothing either: a dispatch by older edits is refused, and tells it.
    world, begins = edited_world("1h", told=False, due_poll_interval=10 * MINUTE)
    with pytest.raises(LeaseLost, match="calendar de was edited"):
        world.advance(begins - world.now)
    cursor, _ = world.store.tables.cursors[0]
    assert cursor is not None
    assert cursor <= begins
    world.hold_builder = False
    world.lead()
    world.advance(MINUTE)
    assert world.state.planned.cursor > begins


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_an_edited_calendar_moves_what_fires_to_the_microsecond(killed: bool) -> None:
    """Also where nobody led at the edit, and at the time from which it holds."""
    world = World()
    put_spans(world, (world.now + 20 * SECOND, world.now + 25 * SECOND))
    world.every(
        "each",
        "1s",
        overlap="allow",
        misfire={"policy": "fire_all", "max_catch_up": 100},
        calendars={"exclude": ["closed"]},
    )
    begun = world.now
    world.advance(22 * SECOND)
    if killed:
        world.now += 3 * SECOND
    edited = world.now
    closed = (edited + 10 * SECOND, edited + 60 * SECOND)
    begins = put_spans(world, closed, led=not killed)
    if killed:
        world.lead(wait=50 * SECOND)
    world.advance(90 * SECOND)
    fired = [run.scheduled_at for run in world.runs("each") if run.scheduled_at < world.now]
    every = range(fired[0], world.now, SECOND)
    was_closed = [(begun + 20 * SECOND, begun + 25 * SECOND), (max(closed[0], begins), closed[1])]
    assert fired == [at for at in every if not any(start <= at < end for start, end in was_closed)]
    assert world.states("each").count("completed") >= len(fired) - 1


def test_jobs_are_read_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "_PAGE", 2)
    world = World()
    put(world, 1)
    for number in range(5):
        world.every(f"job-{number}", "1h")
        world.store.tables.job_calendars[f"job-{number}"] = {"de": False}
    world.commands.clear()
    put(world, 2)
    pages = [one.after for one in world.commands if isinstance(one, ReadCalendarJobs)]
    assert pages == ["", "job-1", "job-3"]
    assert world.state.calendars.known == world.state.controls.version


def test_an_edit_while_its_jobs_are_read_begins_with_the_first_page_again() -> None:
    known = CalendarEdits()
    known.note(1, [CalendarEdit(1, "de", 100)])
    assert known.take() == ("de", "")
    assert known.take() is None, "one page at a time"
    known.read("de", "", "m")
    assert known.take() == ("de", "m")
    known.note(2, [CalendarEdit(2, "de", 200)])
    known.read("de", "m", None)
    assert (known.known, known.take()) == (0, ("de", ""))
    known.read("de", "", None)
    assert (known.known, known.bound, known.wants_index) == (2, 100, True)
    known.indexed(1)
    assert (known.bound, known.wants_index) == (200, True)
    known.indexed(2)
    assert (known.bound, known.wants_index) == (None, False)
