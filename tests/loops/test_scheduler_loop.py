"""How long the loop rests between its passes."""

from scheduler_service.loops.scheduler_loop import rest_after
from tests.support.gate import Gate, limit, waiting


def test_the_loop_rests_so_that_messages_share_a_pass_and_shortly_while_slots_are_awaited() -> None:
    assert [rest_after(took, is_awaited=False) for took in (0.0002, 0.01, 1.0)] == [0.005, 0.01, 0.03]
    assert [rest_after(took, is_awaited=True) for took in (0.0002, 0.01, 1.0)] == [0.001, 0.01, 0.03]


def test_slots_are_awaited_where_a_run_waits_for_the_end_of_another() -> None:
    one = Gate()
    one.edit(stripe=limit(1))
    one.beat()
    assert one.due(waiting("a", "stripe")) == ["a"]
    assert not one.state.awaits_slots(), "nobody waits"
    one.due(waiting("elsewhere", "stripe", queue="x"))
    assert not one.state.awaits_slots(), "no worker listens to its queue"
    one.due(waiting("b", "stripe"))
    assert one.state.awaits_slots()
    one.dispatched("a")
    one.ended("a")
    one.committed()
    assert not one.state.awaits_slots(), "it has gone"
