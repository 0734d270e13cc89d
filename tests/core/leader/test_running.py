"""When running attempts are checked: at their time and not before, in whatever order the times were given."""

import random

from scheduler_service.core.leader.parts.running import Running


def test_a_run_comes_out_when_its_time_has_come_and_not_before() -> None:
    order, running, left = random.Random(4), Running(), dict[str, int]()
    for now in range(300):
        for number in range(3):
            at = now + order.choice((30, 30, 30, 1, 7, 90))
            left[f"{now}-{number}"] = at
            running.check_at(at, f"{now}-{number}")
        passed = running.passed(now)
        assert sorted(passed) == sorted(run_id for run_id, at in left.items() if at <= now)
        for run_id in passed:
            del left[run_id]
    assert sorted(running.passed(1_000)) == sorted(left)
    assert running.passed(1_000) == []
