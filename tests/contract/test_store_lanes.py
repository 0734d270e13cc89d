"""Waiting runs are found lane by lane: which lanes there are, and the first runs of each."""

from itinerary.protocol.instants import DAY, SECOND
from scheduler_service.core.leader.commands import Apply, Transition
from scheduler_service.core.leader.lane_reads import HeadsRead, LanePage, LanesRead
from scheduler_service.core.model import Lease
from scheduler_service.core.run_state import Event, RunState
from tests.support.store_bed import StoreBed, occurrence, one_off


def retrying(bed: StoreBed, lease: Lease, due_at: int, **fields: str) -> str:
    """A run without a job that waits for its second attempt."""
    (run,) = bed.dispatched(lease, one_off(lease.now, **fields))
    again = Transition(run.run_id, 1, Event.FAIL, RunState.RETRYING, lease.now, due_at=due_at)
    bed.leader.apply(lease, Apply((again,)))
    return run.run_id


def ids(read: HeadsRead) -> list[str]:
    return [run.run_id for run in read.runs]


def test_the_lanes_of_a_queue_are_those_of_runs_that_wait_and_that_no_schedule_made(bed: StoreBed) -> None:
    lease = bed.lead()
    now = lease.now
    job = bed.planned_job(lease)
    bed.dispatched(lease, one_off(now, lane="key:out"))
    retrying(bed, lease, now + DAY, lane="key:b")
    bed.make(
        lease, *(one_off(now, lane=lane) for lane in ("key:c", "", "key:ä", "key:c")),
        one_off(now + DAY, lane="key:far"), one_off(now, lane="key:a", queue="other"),
        occurrence(job, now, lane="key:planned"),
    )  # fmt: skip
    there = ("", "key:b", "key:c", "key:far", "key:ä")
    assert bed.leader.waiting_lanes("default", "", 10) == LanesRead("default", there, None)
    assert bed.leader.waiting_lanes("default", "", 2) == LanesRead("default", there[:2], "key:c")
    assert bed.leader.waiting_lanes("default", "key:c", 3) == LanesRead("default", there[2:], None)
    assert bed.leader.waiting_lanes("nobody", "", 2) == LanesRead("nobody", (), None)


def test_a_page_of_each_lane_comes_most_urgent_first_and_goes_on_behind_its_place(bed: StoreBed) -> None:
    lease = bed.lead()
    now = lease.now
    job = bed.planned_job(lease)
    urgent = one_off(now, lane="key:a", priority=0)
    same = [one_off(now - 3, lane="key:a") for _ in range(3)]
    rest = [one_off(now - 9, lane="key:a", priority=7), one_off(now - 8, lane="key:a", priority=7)]
    plain, elsewhere = one_off(now), one_off(now, lane="key:a", queue="other")
    late = one_off(now + 2 * SECOND, lane="key:a")
    bed.make(lease, urgent, *same, *rest, plain, elsewhere, late, occurrence(job, now, lane="key:a"))
    again = retrying(bed, lease, now - 4, lane="key:a")
    wanted = [urgent.run_id, again, *(run.run_id for run in (*same, *rest))]

    pages = (LanePage("default", "key:a"), LanePage("default", ""), LanePage("other", "key:a"), LanePage("x", "y"))
    whole = bed.leader.lane_heads(now + 1, pages, 10)
    assert whole.pages == pages
    assert sorted(ids(whole)) == sorted([*wanted, plain.run_id, elsewhere.run_id])
    assert [run.run_id for run in whole.runs if run.lane and run.queue == "default"] == wanted
    assert whole.more == ()

    for limit in (1, 2, 3):
        seen, more = [], (pages[0],)
        while more:
            read = bed.leader.lane_heads(now + 1, more, limit)
            seen += ids(read)
            assert len(read.more) == (len(read.runs) == limit)
            more = read.more
        assert seen == wanted, limit


def test_many_lanes_are_read_together_each_from_its_own_place(bed: StoreBed) -> None:
    lease = bed.lead()
    made = {
        f"key:{n}": [one_off(lease.now - 9 + m, lane=f"key:{n}", priority=n % 10) for m in range(3)] for n in range(20)
    }
    bed.make(lease, *(run for runs in made.values() for run in runs))
    first = bed.leader.lane_heads(lease.now, [LanePage("default", lane) for lane in made], 2)
    assert ids(first) == [run.run_id for runs in made.values() for run in runs[:2]]
    second = bed.leader.lane_heads(lease.now, first.more, 2)
    assert ids(second) == [runs[2].run_id for runs in made.values()]
    assert second.more == ()
