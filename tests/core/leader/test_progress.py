"""Progress of running attempts as the leader keeps it: the latest of each, in memory, until the attempt is over."""

from typing import Any

import pytest

from itinerary.protocol.instants import SECOND, format_instant
from itinerary.protocol.progress import Progress
from scheduler_service.core.leader.messages import Failed, Heartbeat, Query, Succeeded
from scheduler_service.core.leader.parts import progress
from scheduler_service.core.leader.parts.progress import RunProgress
from scheduler_service.core.leader.queries import answer
from scheduler_service.core.run_state import RunState
from tests.support.gate import Gate, waiting


def told(gate: Gate, *running: tuple[str, int], worker: str = "w", **shown: Progress) -> None:
    """A heartbeat that lists these attempts, with the progress of some."""
    of = tuple((place, shown[run_id]) for place, (run_id, _) in enumerate(running) if run_id in shown)
    gate.hear(Heartbeat(worker, gate.now, running, (), 100, ("q",), recalls=True, progress=of))


def of_run(gate: Gate, run_id: str) -> Any:
    return answer(gate.state, Query("run", run_id, "r"), gate.now)["run"]["progress"]


def of_all(gate: Gate) -> Any:
    return answer(gate.state, Query("progress", None, "r"), gate.now)


@pytest.fixture
def gate() -> Gate:
    """Two runs are pending."""
    gate = Gate()
    gate.beat()
    gate.due(waiting("a"), waiting("b"))
    gate.dispatched("a", "b")
    return gate


def test_the_latest_is_shown_with_the_time_of_its_last_change(gate: Gate) -> None:
    assert of_run(gate, "a") is None
    told(gate, ("b", 1), ("a", 1), a=Progress(412, 1000, "rows"))
    changed_at = gate.now
    gate.step(after=2 * SECOND)
    told(gate, ("a", 1), a=Progress(412, 1000, "rows"))
    shown = {"done": 412, "total": 1000, "unit": "rows", "at": format_instant(changed_at)}
    assert of_run(gate, "a") == shown
    assert of_run(gate, "b") is None
    assert of_all(gate) == {"progress": {"a": shown}, "count": 1}
    gate.step(after=2 * SECOND)
    told(gate, ("a", 1), a=Progress(413, 1000, "rows"))
    assert of_run(gate, "a") == {**shown, "done": 413, "at": format_instant(gate.now)}


def test_a_heartbeat_without_it_leaves_what_is_known(gate: Gate) -> None:
    """Two processes of a worker's name, or a release before: nothing is said, so nothing changes."""
    told(gate, ("a", 1), a=Progress(1))
    told(gate, ("a", 1))
    assert of_run(gate, "a")["done"] == 1


def test_only_the_present_attempt_of_a_running_run_counts(gate: Gate) -> None:
    told(gate, ("a", 2), ("nobody", 1), a=Progress(1), nobody=Progress(1))
    assert of_all(gate) == {"progress": {}, "count": 0}


@pytest.mark.parametrize("end", ["succeeded", "failed", "gone"])
def test_the_end_of_an_attempt_forgets_it(gate: Gate, end: str) -> None:
    told(gate, ("a", 1), a=Progress(1))
    if end == "succeeded":
        gate.ended("a")
    elif end == "failed":
        gate.hear(Failed("a", 1, "w", gate.now, gate.now, {"type": "E", "message": "", "traceback": None}))
    else:
        gate.row("a", RunState.CANCELLED)
    assert of_all(gate) == {"progress": {}, "count": 0}


@pytest.mark.parametrize(
    ("reported", "kept"), [(None, Progress(400)), (Progress(412, 1000, "rows"), Progress(412, 1000, "rows"))]
)
def test_the_end_is_written_with_the_last_that_was_shown(gate: Gate, reported: Progress | None, kept: Progress) -> None:
    """A worker of the release before reports none: the leader has heard of the last but for two seconds."""
    told(gate, ("a", 1), ("b", 1), a=Progress(400))
    gate.hear(Succeeded("a", 1, "w", gate.now, gate.now, None, progress=reported))
    gate.ended("b")
    written = {change.run_id: change.progress for one in gate.applies for change in one.transitions}
    assert written == {"a": kept, "b": None}


def test_an_attempt_that_is_lost_keeps_what_was_heard_of_it(gate: Gate) -> None:
    told(gate, ("a", 1), a=Progress(7, 9))
    gate.hear(Failed("a", 1, "w", gate.now, gate.now, {"type": "Lost", "message": ""}, "worker_lost"))
    assert [change.progress for change in gate.applies[-1].transitions] == [Progress(7, 9)]


def test_what_is_kept_is_bounded_and_lists_begin_with_what_changed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_MOST", 3)
    kept = RunProgress()
    for at, run_id in enumerate(("a", "b", "c", "d", "a")):
        kept.report(run_id, Progress(at), at)
    assert list(kept.newest(2)) == ["a", "c"]
    assert (len(kept), kept.of("d")) == (3, None)
    kept.attempt_over("b")
    kept.report("d", Progress(1), 9)
    assert list(kept.newest(9)) == ["d", "a", "c"]


def test_the_next_leader_shows_it_again_with_the_first_heartbeat() -> None:
    later = Gate((waiting("a")._replace(state=RunState.RUNNING, worker="w"),))
    assert of_run(later, "a") is None
    told(later, ("a", 1), a=Progress(2))
    assert of_run(later, "a")["done"] == 2
