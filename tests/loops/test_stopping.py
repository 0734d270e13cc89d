"""A signal comes whenever it likes, also while the interrupted code holds the lock of what is to be set."""

import signal
import threading

from scheduler_service.runtime.stopping import from_signals


def test_a_signal_stops_what_waits_though_it_comes_while_the_lock_of_the_waiting_is_held() -> None:
    stopped = threading.Event()
    with from_signals(stopped.set) as stop:
        before = signal.signal(signal.SIGUSR1, lambda number, frame: stop())
        try:
            with stopped._cond:  # as `stopped.wait` does, now and then
                signal.raise_signal(signal.SIGUSR1)
            assert stopped.wait(60)
        finally:
            signal.signal(signal.SIGUSR1, before)


def test_without_a_signal_nothing_is_carried_out_and_nothing_is_left() -> None:
    called: list[int] = []
    threads = threading.active_count()
    with from_signals(lambda: called.append(1)):
        assert threading.active_count() == threads + 1
    assert not called
    assert threading.active_count() == threads
