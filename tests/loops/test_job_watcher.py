"""The watcher finds what nobody told of, and many edits one by one do not keep it busy."""

import threading
import time
from collections.abc import Callable

import pytest

from scheduler_service.core.leader.results import UnplannedJobs
from scheduler_service.loops import job_watcher
from scheduler_service.loops.job_watcher import JobWatcher
from scheduler_service.loops.mailbox import Mailbox
from tests.support.processes import PATIENCE, wait_until

TAKES = 0.1


class Unplanned:
    """A store in which one job is always unplanned, and in which a look takes its time; `polls` tells of each."""

    def __init__(self) -> None:
        self.polls: list[tuple[float, float]] = []

    def unplanned_jobs(self, _: int) -> list[str]:
        began = time.monotonic()
        threading.Event().wait(TAKES)
        self.polls.append((began, time.monotonic()))
        return ["a"]


def watching(store: Unplanned, mailbox: Mailbox, on_crash: Callable[[BaseException], None] = print) -> JobWatcher:
    watcher = JobWatcher(store, mailbox, on_crash)  # type: ignore[arg-type]
    watcher.start()
    return watcher


@pytest.mark.slow
def test_told_again_and_again_it_rests_longer_than_it_looks() -> None:
    store, mailbox = Unplanned(), Mailbox()
    watcher = watching(store, mailbox)

    def told() -> bool:
        watcher.poll_now()
        return len(store.polls) >= 3

    wait_until(told, what="three looks")
    watcher.stop(PATIENCE)
    rests = [begins - ended for (_, ended), (begins, _) in zip(store.polls, store.polls[1:], strict=False)]
    assert min(rests) > 2 * TAKES
    assert UnplannedJobs(("a",)) in mailbox.drain(0)


def test_a_rest_is_cut_short_when_it_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_watcher, "_RESTS", 36_000)
    store = Unplanned()
    watcher = watching(store, Mailbox())
    watcher.poll_now()
    wait_until(lambda: store.polls, what="a look")
    watcher.stop(PATIENCE)
    assert not watcher._thread.is_alive()
