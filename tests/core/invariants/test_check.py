"""Each invariant finds its violation, and finds nothing in a history that is well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.identity import occurrence_run_id
from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Duration, Instant, parse_instant
from scheduler_service.core.attempts import Attempt
from scheduler_service.core.contract.job_json import read_job
from scheduler_service.core.invariants.check import violations
from scheduler_service.core.invariants.history import Execution, ExecutionLog, History, Rule, RunFacts, Tolerance
from scheduler_service.core.model import JobHistory, MissedRange, Overlap, RunKind
from scheduler_service.core.run_state import RunState
from scheduler_service.core.schedules.schedule import OnceSchedule

T0 = parse_instant("2026-11-30T10:00:00Z")
NOW = T0 + HOUR


def job(**more: Any) -> JobHistory:
    """Every ten minutes from T0 on, planned."""
    body = {"job_id": "a", "task": "t", "schedule": {"kind": "interval", "every": "10m"}, **more}
    made, _ = read_job(body, created_at=T0)
    return JobHistory((replace(made, effective_from=T0 + 1),), 1)


def run(minute: int, **more: Any) -> RunFacts:
    """A completed occurrence of the job."""
    at = T0 + minute * MINUTE
    facts = RunFacts(
        run_id=occurrence_run_id("a", at), kind=RunKind.OCCURRENCE, job_id="a", job_version=1, queue="default",
        scheduled_at=at, due_at=at, state=RunState.COMPLETED, attempt=1, max_attempts=1, retries=0, overlap=None,
        timeout=None, reason=None, pending_at=at, started_at=at, finished_at=at + SECOND,
    )  # fmt: skip
    return replace(facts, **more)


WELL = [run(minute) for minute in (10, 20, 30, 40, 50)]


def history(
    runs: Sequence[RunFacts],
    missed_ranges: Sequence[MissedRange] = (),
    jobs: Sequence[JobHistory] | None = None,
    now: Instant = NOW,
) -> History:
    return History(now, now, None, [job()] if jobs is None else jobs, missed_ranges, runs)


def rules(judged: History, log: ExecutionLog | None = None, tolerance: Tolerance = Tolerance()) -> list[Rule]:  # noqa: B008
    return [finding.rule for finding in violations(judged, log, tolerance)]


def recorded(runs: Sequence[RunFacts]) -> ExecutionLog:
    return {(one.run_id, one.attempt): Execution([one.started_at or 0], 1) for one in runs}


def ended(number: int, at: Instant, outcome: str = "failed") -> Attempt:
    return Attempt(number, outcome, None, at, at, at, at + SECOND, "w", None)


def backfilled(number: int, started_at: Instant, took: Duration = SECOND) -> RunFacts:
    """A run by hand of an occurrence long past."""
    return run(
        -10 * (9 - number), run_id=f"a_manual-{number}", kind=RunKind.MANUAL, overlap=Overlap.QUEUE_ALL,
        due_at=T0, pending_at=started_at, started_at=started_at, finished_at=started_at + took,
    )  # fmt: skip


def test_what_is_run_long_after_its_time_meets_what_runs_then_and_nothing_between() -> None:
    one_by_one = [backfilled(n, T0 + (30 + n) * MINUTE, MINUTE) for n in range(9)]
    assert rules(history([*one_by_one, *WELL])) == []
    at_thirty = run(30, finished_at=T0 + 31 * MINUTE)
    into_it = [backfilled(0, T0 + 30 * MINUTE + 30 * SECOND)]
    assert rules(history([*into_it, *WELL[:2], at_thirty, *WELL[3:]])) == [Rule.OVERLAP]
    assert rules(
        history([backfilled(0, T0 + 35 * MINUTE, MINUTE), backfilled(1, T0 + 34 * MINUTE, 2 * MINUTE), *WELL])
    ) == [Rule.OVERLAP]


def test_a_history_that_is_well_has_no_finding() -> None:
    assert rules(history(WELL), recorded(WELL)) == []


class TestOccurrences:
    def test_one_without_row_or_gap_is_lost(self) -> None:
        assert rules(history(WELL[:2] + WELL[3:])) == [Rule.LOST]

    def test_the_last_and_all_of_a_job_without_rows_are_lost_too(self) -> None:
        assert rules(history(WELL[:-1])) == [Rule.LOST]
        assert rules(history([])) == [Rule.LOST] * 5

    def test_one_in_a_gap_is_not_lost(self) -> None:
        missed_range = MissedRange("a", T0 + 25 * MINUTE, T0 + 45 * MINUTE, 2, "misfire")
        assert rules(history([WELL[0], WELL[1], WELL[4]], [missed_range])) == []

    def test_gaps_that_overlap_are_counted_as_one(self) -> None:
        wide = MissedRange("a", T0 + 15 * MINUTE, T0 + 45 * MINUTE, 2, "overlap skip")
        inner = MissedRange("a", T0 + 25 * MINUTE, T0 + 35 * MINUTE, 1, "misfire")
        assert rules(history([WELL[0], WELL[4]], [wide, inner])) == []
        assert rules(history([WELL[0], WELL[4]], [wide, replace(inner, count=0)])) == [Rule.LOST]
        assert rules(history([WELL[0], WELL[1], WELL[4]], [wide, inner])) == [Rule.CONTRADICTION]

    def test_a_gap_that_counts_too_few_hides_a_loss(self) -> None:
        missed_range = MissedRange("a", T0 + 25 * MINUTE, T0 + 45 * MINUTE, 1, "misfire")
        assert rules(history([WELL[0], WELL[1], WELL[4]], [missed_range])) == [Rule.LOST]

    def test_what_is_not_planned_yet_is_not_judged(self) -> None:
        judged = replace(history(WELL[:2]), cursor=T0 + 25 * MINUTE)
        assert rules(judged) == []
        assert rules(replace(history(WELL[:2], jobs=[replace(job(), planned_version=0)]))) == []

    def test_two_rows_of_one_instant_are_doubled(self) -> None:
        twin = replace(WELL[1], run_id="a_twin")
        assert rules(history([*WELL[:2], twin, *WELL[2:]])) == [Rule.DOUBLED]

    def test_a_row_where_its_version_has_no_occurrence_came_from_nowhere(self) -> None:
        assert rules(history([WELL[0], run(15), *WELL[1:]])) == [Rule.UNPLANNED]

    def test_a_row_is_judged_by_the_calendars_in_force_at_its_time(self) -> None:
        old = job().current
        shut = OnceSchedule(T0 - MINUTE)
        cuts = JobHistory((replace(old, schedule=shut, effective_from=T0), old), 1)
        assert rules(history(WELL, jobs=[cuts])) == []
        later = replace(old, schedule=shut, effective_from=WELL[-1].scheduled_at)
        assert rules(history(WELL, jobs=[JobHistory((old, later), 1)])) == [Rule.UNPLANNED]

    def test_a_row_of_a_version_that_no_longer_holds_may_not_be_released(self) -> None:
        old = job().current
        edited = JobHistory((old, replace(old, version=2, effective_from=T0 + 35 * MINUTE)), 2)
        runs = [*WELL[:3], *(replace(one, job_version=2) for one in WELL[3:])]
        assert rules(history(runs, jobs=[edited])) == []
        assert rules(history(WELL, jobs=[edited])) == [Rule.UNPLANNED] * 2
        recalled = [replace(one, recalled_at=one.pending_at) for one in WELL]
        assert rules(history(recalled, jobs=[edited])) == [], "an edit leaves recalled runs as they are"

    def test_a_pause_owes_nothing(self) -> None:
        old = job().current
        paused = JobHistory((old, replace(old, version=2, effective_from=T0 + 35 * MINUTE, paused=True)), 2)
        assert rules(history(WELL[:3], jobs=[paused])) == []


class TestRuns:
    @pytest.mark.parametrize(
        "wrong",
        [
            run(10, finished_at=None),
            run(10, state=RunState.RUNNING),
            run(10, state=RunState.SKIPPED),
            run(10, state=RunState.RETRYING, pending_at=None, started_at=None, finished_at=None),
            run(10, pending_at=None),
            run(10, finished_at=T0 + 5 * MINUTE),
            run(10, attempt=2, max_attempts=2),
            run(10, attempts=(ended(2, T0),)),
        ],
    )
    def test_a_state_that_its_own_row_denies_is_a_contradiction(self, wrong: RunFacts) -> None:
        assert Rule.CONTRADICTION in rules(history([wrong, *WELL[1:]]))

    def test_released_or_started_before_it_was_due_is_early(self) -> None:
        assert rules(history([run(10, pending_at=T0 + 10 * MINUTE - 1), *WELL[1:]])) == [Rule.EARLY]
        early = run(10, due_at=T0 + 11 * MINUTE, pending_at=T0 + 11 * MINUTE)
        assert Rule.EARLY in rules(history([early, *WELL[1:]]))

    def test_more_attempts_than_allowed_are_found_and_retries_that_the_task_asked_for_are_allowed(self) -> None:
        twice = run(10, attempt=2, attempts=(ended(1, T0 + 10 * MINUTE),))
        assert rules(history([twice, *WELL[1:]])) == [Rule.ATTEMPTS]
        assert rules(history([replace(twice, retries=1), *WELL[1:]])) == []

    def test_two_runs_at_once_are_found_unless_the_policy_allows_them(self) -> None:
        long = [run(10, finished_at=T0 + 25 * MINUTE), *WELL[1:]]
        assert rules(history(long)) == [Rule.OVERLAP]
        assert rules(history(long, jobs=[job(overlap="allow")])) == []
        assert rules(history([long[0], replace(long[1], overlap=Overlap.ALLOW), *long[2:]])) == []


class TestStuck:
    def waiting(self, **more: Any) -> RunFacts:
        return run(10, state=RunState.SCHEDULED, pending_at=None, started_at=None, finished_at=None, **more)

    def test_overdue_with_nothing_that_holds_it_back(self) -> None:
        assert rules(history([self.waiting(), *WELL[1:]])) == [Rule.STUCK]

    @pytest.mark.parametrize(
        ("until", "skips", "found"),
        [(None, False, []), (NOW, False, []), (T0 + 20 * MINUTE, False, [Rule.STUCK]), (None, True, [Rule.STUCK])],
    )
    def test_a_pause_that_keeps_what_waited_is_a_reason_until_its_end(
        self, until: Instant | None, skips: bool, found: list[Rule]
    ) -> None:
        made = job().current
        paused = replace(
            made, version=2, effective_from=T0 + 11 * MINUTE, paused=True, paused_until=until, pause_skips=skips
        )
        jobs = [JobHistory((made, paused), 2)]
        later = [replace(one, job_version=2) for one in WELL[1:] if until is not None and one.scheduled_at >= until]
        assert rules(history([self.waiting(), *later], jobs=jobs)) == found

    def test_not_behind_an_unfinished_run_of_its_job_nor_behind_a_full_queue(self) -> None:
        busy = run(50, state=RunState.RUNNING, finished_at=None)
        assert rules(history([self.waiting(), *WELL[1:-1], busy])) == []
        out = replace(
            run(0), run_id="x", kind=RunKind.ADHOC, job_id=None, state=RunState.PENDING, started_at=None,
            finished_at=None, pending_at=NOW,
        )  # fmt: skip
        assert rules(history([out, self.waiting(), *WELL[1:]]), None, Tolerance(window=1)) == []

    def test_pending_while_much_later_ones_of_its_queue_were_started(self) -> None:
        pending = run(10, state=RunState.PENDING, started_at=None, finished_at=None)
        assert rules(history([pending, *WELL[1:]])) == [Rule.STUCK]

    def test_running_long_after_its_time_was_up(self) -> None:
        running = run(10, state=RunState.RUNNING, finished_at=None, timeout=MINUTE)
        assert Rule.STUCK in rules(history([running, *WELL[1:]], jobs=[job(overlap="allow")]))


class TestRecord:
    def found(self, change: Any, runs: Sequence[RunFacts] = WELL) -> list[Rule]:
        log = recorded(runs)
        change(log[runs[0].run_id, runs[0].attempt])
        return rules(history(runs), log)

    def test_two_starts_of_one_attempt_are_doubled(self) -> None:
        assert self.found(lambda one: one.starts.append(one.starts[0])) == [Rule.DOUBLED]

    def test_a_start_before_the_release_is_found(self) -> None:
        first = run(10, pending_at=T0 + 12 * MINUTE, started_at=T0 + 12 * MINUTE, finished_at=T0 + 13 * MINUTE)
        log = recorded([first, *WELL[1:]])
        log[first.run_id, 1].starts[0] = T0 + 11 * MINUTE
        assert rules(history([first, *WELL[1:]]), log) == [Rule.UNRELEASED]

    def test_a_start_of_an_attempt_that_was_never_released_is_found(self) -> None:
        missed = run(10, state=RunState.MISSED, pending_at=None, started_at=None)
        assert Rule.UNRELEASED in self.found(
            lambda one: one.starts.__setitem__(0, T0 + 10 * MINUTE), [missed, *WELL[1:]]
        )

    def test_a_start_after_the_end_is_found_unless_the_attempt_was_given_up_as_lost(self) -> None:
        def late(one: Execution) -> None:
            one.starts[0] = T0 + 30 * MINUTE

        assert self.found(late) == [Rule.AFTER_END]
        lost = run(10, state=RunState.FAILED, reason="lost")
        assert self.found(late, [lost, *WELL[1:]]) == []

    def test_a_start_though_the_run_was_cancelled_unstarted_is_found(self) -> None:
        cancelled = run(10, state=RunState.CANCELLED, started_at=None, reason="cancelled before it started")
        found = self.found(lambda one: one.starts.__setitem__(0, T0 + 10 * MINUTE), [cancelled, *WELL[1:]])
        assert found == [Rule.AFTER_END]

    def test_completed_without_a_recorded_start_or_end_is_unproven(self) -> None:
        assert self.found(lambda one: one.starts.clear()) == [Rule.UNPROVEN]
        assert self.found(lambda one: setattr(one, "ends", 0)) == [Rule.UNPROVEN]

    def test_a_start_of_something_that_the_history_does_not_have_is_unknown(self) -> None:
        log = {**recorded(WELL), ("ghost", 1): Execution([NOW], 1)}
        assert rules(history(WELL), log) == [Rule.UNKNOWN]
