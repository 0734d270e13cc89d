"""Leaders that freeze, resume, are told to stop, or are all gone: one leads at a time, and nothing is lost by it."""

import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from itinerary.protocol.instants import SECOND
from scheduler_service.core.audit import AuditedChange
from scheduler_service.core.limits import Bounds, Rate
from scheduler_service.sql.queues import SqlQueueStore
from tests.support.fault_bed import LOST_SECONDS, PATIENT, TTL_SECONDS, FaultBed, LeaderProcess
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def bed(
    tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str, module_redis: RedisServer
) -> Iterator[FaultBed]:
    with FaultBed(tmp_path_factory.mktemp("leaders"), module_postgres_url, module_redis.url) as bed:
        bed.begin().worker()
        yield bed


@pytest.fixture
def all_well(bed: FaultBed) -> Iterator[None]:
    """After the test: everything ran once, and no term had two leaders."""
    yield
    bed.reconcile()
    assert set(bed.endings()) == {("completed", 1)}, bed.endings()
    assert max(terms_led(bed).values()) == 1, bed.outputs


pytestmark.append(pytest.mark.usefixtures("all_well"))


def terms_led(bed: FaultBed) -> Counter[str]:
    lines = [line for child in bed.children.values() for line in list(child.lines)]
    return Counter(found[1] for line in lines if (found := re.search(r"\bleading term=(\d+)", line)))


def dispatched_after(leader: LeaderProcess, words: str) -> int:
    """How often it said so after its last `took over`, seen from the end."""
    lines = [line for line in leader.child.lines if words in line or "at the point" in line]
    return len(lines) - 1 - next(n for n, line in enumerate(lines) if "at the point" in line)


def frozen_at(bed: FaultBed, point: str) -> LeaderProcess:
    """A leader that freezes at this point. Until then it is alone: on a starved machine a standby could replace it."""
    zombie = bed.sole_leader(point, "stop")
    zombie.arm()
    return zombie


def test_a_leader_frozen_inside_a_transaction_blocks_no_takeover_and_its_commit_matches_nothing(bed: FaultBed) -> None:
    zombie = frozen_at(bed, "moving runs, before COMMIT")
    bed.enqueue(4)
    zombie.at_the_point()
    bed.leader().wait_leading()
    bed.reconcile()
    zombie.child.signal(signal.SIGCONT)
    zombie.child.wait_for_line("left the lead")
    assert dispatched_after(zombie, "runs released") == 0, zombie.child.output


def test_a_leader_frozen_before_it_publishes_publishes_nothing_when_it_resumes(bed: FaultBed) -> None:
    zombie = frozen_at(bed, "runs moved, not published")
    run_ids = bed.enqueue(4, queue="unread")
    zombie.at_the_point()
    bed.leader().wait_leading()
    wait_until(lambda: all(bed.run(run_id).published_at for run_id in run_ids), what=lambda: bed.outputs)
    with bed.redis() as client:
        sent = client.llen("unread")
        zombie.child.signal(signal.SIGCONT)
        zombie.child.wait_for_line("left the lead")
        assert client.llen("unread") == sent
    bed.worker(queues="unread", concurrency=1)


def test_what_a_frozen_leader_had_half_sent_and_sends_on_when_it_resumes_starts_nothing_twice(bed: FaultBed) -> None:
    zombie = frozen_at(bed, "half a batch published")
    bed.enqueue(6)
    zombie.at_the_point()
    bed.leader().wait_leading()
    bed.reconcile()
    zombie.child.signal(signal.SIGCONT)
    zombie.child.wait_for_line("left the lead")


def test_a_standby_that_was_frozen_over_a_takeover_goes_on_standing_by(bed: FaultBed) -> None:
    first = bed.sole_leader()
    frozen = bed.leader().wait_standing_by()
    frozen.child.signal(signal.SIGSTOP)
    first.child.kill_alone()
    second = bed.leader(**PATIENT).wait_leading()
    term = bed.term()
    frozen.child.signal(signal.SIGCONT)
    wait_until(lambda: second.said("runs released") > 3, what=lambda: bed.outputs)
    assert bed.term() == term
    assert frozen.said("took over") == 0


def test_of_two_standbys_that_contend_at_once_one_leads_and_a_clean_stop_hands_over(bed: FaultBed) -> None:
    old = bed.sole_leader("taking over", "hold")
    two = [bed.leader(**PATIENT).wait_standing_by() for _ in range(2)]
    old.child.kill_alone()
    wait_until(lambda: any(one.said("took over") for one in two), what=lambda: bed.outputs)
    (first,) = [one for one in two if one.said("took over")]
    (second,) = [one for one in two if one is not first]
    assert first.child.stop() == 0
    second.wait_leading()
    assert (first.said("took over"), second.said("took over")) == (1, 1)


def test_a_leader_told_to_stop_finishes_the_batch_in_hand(bed: FaultBed) -> None:
    held = bed.sole_leader("moving runs, before COMMIT", "hold")
    held.arm()
    run_ids = bed.enqueue(4, queue="after")
    held.at_the_point()
    held.child.signal(signal.SIGTERM)
    held.free()
    assert held.child.wait() == 0
    assert all(bed.run(run_id).published_at for run_id in run_ids), "moved, but not published and marked"
    with bed.redis() as client:
        assert client.llen("after") == len(run_ids)
    bed.leader()
    bed.worker(queues="after", concurrency=1)


def test_a_second_signal_ends_a_leader_at_once_and_is_still_safe(bed: FaultBed) -> None:
    held = bed.sole_leader("moving runs, before COMMIT", "hold")
    held.arm()
    bed.enqueue(4)
    held.at_the_point()
    held.child.signal(signal.SIGTERM)
    held.child.wait_for_line("told to stop")
    held.child.signal(signal.SIGTERM)
    assert held.child.wait() == -signal.SIGTERM
    bed.leader()


def limit_starts(bed: FaultBed, rate: Rate | None) -> None:
    """The rate of the queue, as an operator sets it."""
    by = AuditedChange("olga", "operator", "queue.update")
    queues = SqlQueueStore(bed.database)
    queues.define("default", lambda before: replace(before, bounds=Bounds(rate=rate)), by=by)


def test_no_window_has_more_starts_than_the_rate_though_its_leader_is_killed_in_the_middle(bed: FaultBed) -> None:
    killed = bed.sole_leader()
    standby = bed.leader().wait_standing_by()
    rate = Rate(20, 2 * SECOND)
    limit_starts(bed, rate)
    known = set(bed.truth().started_at)
    run_ids = bed.enqueue(100)

    def starts() -> list[float]:
        return sorted(at for task_id, at in bed.truth().started_at.items() if task_id not in known)

    wait_until(lambda: len(starts()) > 1.5 * rate.count, what=lambda: bed.outputs)
    killed.child.kill_alone()
    standby.wait_leading()
    wait_until(lambda: all(f"{run_id}~1" in bed.truth().started_at for run_id in run_ids), what=lambda: bed.outputs)
    limit_starts(bed, None)
    # The bound is one of claims: between claim and first line of a task lies whatever the machine does meanwhile.
    bed.reconcile()
    claimed = [bed.run(run_id).started_at or 0 for run_id in run_ids]
    windows = [sum(first <= at < first + rate.per for at in claimed) for first in claimed]
    assert max(windows) <= rate.count, windows
    assert max(claimed) - min(claimed) >= (len(run_ids) / rate.count - 1) * rate.per * 3 / 4, "the rate was no limit"


def test_with_no_leader_for_a_while_what_was_due_runs_late_and_what_ran_is_not_called_lost(bed: FaultBed) -> None:
    last = bed.sole_leader()
    gate = bed.folder / "gate"
    (run_id,) = bed.enqueue(1, gate=str(gate))
    bed.started(run_id)
    last.child.kill_alone()
    gate.touch()
    silence_ends = time.monotonic() + TTL_SECONDS + LOST_SECONDS
    wait_until(lambda: time.monotonic() > silence_ends)
    bed.leader()
    bed.wait_state(run_id, "completed")
