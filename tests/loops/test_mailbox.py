"""The mailbox: the loop sleeps in it until a message comes or its clock shows an instant."""

from itinerary.protocol.instants import MILLISECOND, SECOND
from scheduler_service.core.leader.results import RunsDispatched, Shutdown
from scheduler_service.loops.mailbox import Mailbox, monotonic


def test_the_loop_does_not_wake_before_the_instant_by_a_clock_that_is_slowed() -> None:
    shown = iter([0, 8 * MILLISECOND, 9 * MILLISECOND, 10 * MILLISECOND])
    assert Mailbox().drain_until(10 * MILLISECOND, lambda: next(shown)) == []
    assert next(shown, None) is None, "a pass before the instant finds nothing due, and the loop rests after it"


def test_a_message_wakes_the_loop_before_the_instant() -> None:
    mailbox = Mailbox()
    mailbox.put(Shutdown())
    assert mailbox.drain_until(monotonic() + 3600 * SECOND, monotonic) == [Shutdown()]


def test_a_wake_without_a_message_ends_a_long_sleep() -> None:
    mailbox = Mailbox()
    mailbox.wake()
    assert mailbox.drain_until(monotonic() + 3600 * SECOND, monotonic) == []


def test_a_rest_ends_with_a_dispatch_and_with_a_wake_and_with_nothing_else() -> None:
    mailbox = Mailbox()
    mailbox.put(Shutdown())
    assert not mailbox.rest(0.01)
    mailbox.put(RunsDispatched((), ()))
    assert mailbox.rest(3600)
    assert mailbox.drain(0) == [Shutdown(), RunsDispatched((), ())]
    assert not mailbox.rest(0.01), "what was taken hurries nobody"
    mailbox.wake()
    assert mailbox.rest(3600)
