"""What is wrong now, as pages tell it: each cause once, and none hides another."""

from typing import Any, Final

from itinerary.protocol.instants import MINUTE, SECOND, format_instant
from scheduler_service.api.pages.live import Live, issues
from scheduler_service.api.pages.overview import lag_note, lag_text
from scheduler_service.api.pages.totals import total_text
from scheduler_service.ports.history import Total
from scheduler_service.ports.leases import LeaseView

NOW: Final = 1_795_000_000_000_000
LEASE: Final = LeaseView(3, "one", NOW - MINUTE, NOW + SECOND, 9, 5 * SECOND, NOW)
WORKER: Final = {"name": "w", "alive": True, "queues": ["default"], "running": [], "concurrency": 1}


def queue(name: str, pending: int, behind: int | None, workers: int) -> dict[str, Any]:
    due = None if behind is None else format_instant(NOW - behind)
    return {
        "name": name, "pending": pending, "oldest_pending_at": due if pending else None, "oldest_due_at": due,
        "workers": workers,
    }  # fmt: skip


def live(*queues: dict[str, Any], workers: tuple[dict[str, Any], ...] = (WORKER,)) -> Live:
    oldest = min((q["oldest_due_at"] for q in queues if q["oldest_due_at"]), default=None)
    return Live(LEASE, {"oldest_due_at": oldest, "workers": workers, "queues": queues}, 0)


def told(seen: Live) -> list[str]:
    return [issue.message for issue in issues(seen, NOW)]


def test_a_queue_without_a_worker_is_told_once_and_is_no_lag() -> None:
    seen = live(queue("default", 1, SECOND, 1), queue("nobody", 5, 14 * MINUTE, 0))
    assert told(seen) == [
        "5 runs wait in queue nobody, the oldest for 14 min, and no living worker listens there: "
        "start one with itinerary worker --app MODULE:APP -Q nobody."
    ]
    assert (lag_text(seen, NOW), lag_note(seen, NOW)) == ("1.0 s", "in default")


def test_a_queue_that_is_behind_is_told_beside_one_without_a_worker() -> None:
    seen = live(queue("default", 9, MINUTE, 2), queue("mail", 2, 2 * MINUTE, 1), queue("nobody", 0, 14 * MINUTE, 0))
    assert [words.split(",")[0] for words in told(seen)] == [
        "A run waits in queue nobody",
        "In queue mail a run has been due for 2 min and has not started.",
        "In queue default a run has been due for 1 min and has not started.",
    ]
    (_, mail, _) = issues(seen, NOW)
    assert (mail.link, mail.label) == ("/queues/mail", "Open the queue")
    assert (lag_text(seen, NOW), lag_note(seen, NOW)) == ("2 min", "in mail")


def test_where_no_worker_is_heard_at_all_that_is_the_one_thing_told() -> None:
    seen = live(queue("default", 9, MINUTE, 0), queue("mail", 2, MINUTE, 0), workers=())
    assert told(seen) == [
        "No worker sends heartbeats: start one with itinerary worker --app MODULE:APP, or give the workers the Redis "
        "of the leader."
    ]
    assert (lag_text(seen, NOW), lag_note(seen, NOW)) == ("0 ms", "2 without worker")


def test_of_very_many_queues_the_worst_are_told() -> None:
    seen = live(
        *(queue(f"q{n}", 1, (n + 1) * MINUTE, 1) for n in range(9)), *(queue(f"o{n}", 1, None, 0) for n in range(8))
    )
    assert len(told(seen)) == 12
    assert "In queue q8 a run has been due for 9 min and has not started." in told(seen)
    assert "4 more queues are behind." in told(seen)


def test_a_list_says_how_much_there_is_as_far_as_that_was_counted() -> None:
    for shown, total, words in (
        (7, Total(7, False), "7 runs"),
        (50, Total(4916, False), "50 of 4,916 runs"),
        (50, Total(10_000, True), "50 of more than 10,000 runs"),
        (50, Total(57, True), "50 of 57 runs or more"),
        (50, Total(0, True), "50 of more than 50 runs"),
    ):
        assert total_text(shown, total, "runs") == words
