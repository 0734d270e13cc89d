"""Why an occurrence or a run is what it is: each verdict from the rows that lead to it, told in words."""

from dataclasses import replace
from typing import Any

import pytest

from itinerary.protocol.instants import HOUR, MINUTE, SECOND, Instant, format_instant
from scheduler_service.core.attempts import Attempt, LateReports, TaskError
from scheduler_service.core.audit import AuditEntry
from scheduler_service.core.explain.explanation import Verdict
from scheduler_service.core.explain.facts import Facts, Live, Term, Version
from scheduler_service.core.explain.run import explain_run
from scheduler_service.core.freezes import During, Freeze, Scope
from scheduler_service.core.model import MissedRange, Run, RunKind
from scheduler_service.core.run_state import RunState
from tests.support.explained import AT, LEADING, MADE, NOW, WORKER, asked, explained_now, facts, run, version, words


def test_a_pause_is_told_with_who_made_it_when_and_why() -> None:
    versions = (
        version(),
        version(2, MADE + HOUR, "bob", paused=True, pause_reason="audit"),
        version(3, MADE + 2 * HOUR, "eve", paused=True, pause_reason="audit", title="an edit during the pause"),
    )
    explained = asked(facts(*versions))
    assert explained.verdict is Verdict.PAUSED
    assert 'paused at 2026-11-27T01:00:00Z by bob: "audit"' in words(explained)
    row = explained.because[0].row
    assert row is not None
    assert (row["table"], row["version"], row["actor"]) == ("job_versions", 2, "bob")


def test_a_pause_that_had_ended_by_itself_is_no_reason() -> None:
    ended = version(2, MADE + HOUR, paused=True, paused_until=AT - MINUTE)
    assert asked(facts(version(), ended)).verdict is not Verdict.PAUSED


@pytest.mark.parametrize(("bound", "said"), [("start_at", "starts at"), ("end_at", "ended at")])
def test_outside_its_bounds_a_job_does_not_run(bound: str, said: str) -> None:
    at = {"start_at": "2026-11-27T11:00:00Z", "end_at": "2026-11-27T10:17:00Z"}[bound]
    explained = asked(facts(version(**{bound: at})))
    assert explained.verdict is Verdict.OUT_OF_BOUNDS
    assert f"{said} {at}" in words(explained)


def test_an_instant_that_the_schedule_does_not_name_was_never_due_and_the_nearest_are_told() -> None:
    explained = asked(facts(), AT + MINUTE)
    assert explained.verdict is Verdict.NEVER_DUE
    assert explained.nearest == (AT, AT + HOUR)
    assert "the one before is 2026-11-27T10:17:00Z, the next is 2026-11-27T11:17:00Z" in words(explained)


def test_before_it_was_made_a_job_was_never_due() -> None:
    explained = asked(facts(version(since=NOW)))
    assert explained.verdict is Verdict.NEVER_DUE
    assert "was created at 2026-11-27T12:00:00Z" in words(explained)


def test_an_edit_that_took_the_occurrence_away_is_told_with_both_versions() -> None:
    later = {"schedule": {"kind": "hourly", "minute": 30}}
    explained = asked(facts(version(), version(2, AT - MINUTE, "bob", **later), version(3, AT - 1, "eve", **later)))
    assert explained.verdict is Verdict.EDITED_AWAY
    assert "Version 1 had it, and was valid until 2026-11-27T10:16:00Z; then bob changed the job" in words(explained)
    assert [because.row and because.row["version"] for because in explained.because] == [2, 1]


def test_an_edit_that_came_too_late_for_the_instant_is_told() -> None:
    before, after = version(schedule={"kind": "hourly", "minute": 30}), version(2, AT + MINUTE)
    explained = asked(facts(before, after))
    assert explained.verdict is Verdict.NEVER_DUE
    assert "Version 2 would, but holds only from 2026-11-27T10:18:00Z on" in words(explained)


def test_a_deleted_job_does_not_run() -> None:
    explained = asked(facts(version(), version(2, AT - MINUTE, "bob", deleted=True)))
    assert explained.verdict is Verdict.DELETED
    assert "by bob" in words(explained)


def test_a_misfire_is_told_with_its_gap_and_with_the_time_that_nobody_led() -> None:
    missed_range = MissedRange("a.job", AT - HOUR, AT + HOUR, 2, "misfire fire_once: later than 30s")
    terms = (
        Term(2, "leader-a", MADE, AT - 2 * HOUR, AT - 2 * HOUR + 5 * SECOND, "lapsed"),
        Term(3, "leader-b", AT + HOUR, NOW, None, None),
    )
    explained = asked(facts(missed_range=missed_range, terms=terms))
    assert explained.verdict is Verdict.MISFIRE
    assert "Nobody led from 2026-11-27T08:17:05Z to 2026-11-27T11:17:00Z: term 2 of leader-a lapsed" in words(explained)
    assert "It is one of 2 that did not run" in words(explained)
    assert [b.row and b.row["table"] for b in explained.because] == ["leaderships", "gaps"]


def test_a_misfire_while_somebody_led_blames_no_leader() -> None:
    missed_range = MissedRange("a.job", AT, AT + 1, 1, "misfire skip: later than 30s")
    assert "Nobody led" not in words(asked(facts(missed_range=missed_range)))


def test_a_row_that_the_database_refused_is_no_misfire() -> None:
    missed_range = MissedRange("a.job", AT, AT + 1, 1, "row refused: too large")
    assert asked(facts(missed_range=missed_range)).verdict is Verdict.REFUSED


def test_an_occurrence_that_was_skipped_and_folded_says_behind_whom() -> None:
    missed_range = MissedRange("a.job", AT - HOUR, AT + 1, 9, "overlap skip: a.job_x is not final")
    explained = asked(facts(missed_range=missed_range))
    assert explained.verdict is Verdict.OVERLAP
    assert "one of 9" in words(explained)
    assert "a.job_x is not final" in words(explained)


def test_what_is_still_to_come_is_not_yet_due() -> None:
    explained = asked(facts(), NOW + 17 * MINUTE)
    assert explained.verdict is Verdict.NOT_YET_DUE
    assert "in 17 min" in words(explained)


def test_what_nobody_has_planned_waits_for_a_leader() -> None:
    gone = Term(3, "leader-a", MADE, AT - HOUR, AT - HOUR + 5 * SECOND, None)
    explained = asked(facts(cursor=AT - HOUR, terms=(gone,)))
    assert explained.verdict is Verdict.NO_LEADER
    assert "Leaders have planned up to 2026-11-27T09:17:00Z" in words(explained)
    assert "Nobody led from 2026-11-27T09:17:05Z to 2026-11-27T12:00:00Z" in words(explained)
    assert asked(facts(cursor=None, terms=())).verdict is Verdict.NO_LEADER
    assert asked(facts(cursor=AT - HOUR)).verdict is Verdict.WAITING


def test_what_left_no_trace_is_said_so() -> None:
    explained = asked(facts())
    assert explained.verdict is Verdict.UNKNOWN
    assert "It was removed from the database." in words(explained)


def test_what_was_pruned_is_said_to_be() -> None:
    explained = asked(facts(pruned_until=AT + 1))
    assert explained.verdict is Verdict.UNKNOWN
    assert "Runs of before 2026-11-27T10:17:00.000001Z were pruned." in words(explained)
    assert "removed" in words(asked(facts(pruned_until=AT)))


def test_an_occurrence_with_a_run_is_explained_by_it() -> None:
    done = run(RunState.COMPLETED, pending_at=AT, started_at=AT, finished_at=AT + SECOND, worker="celery@a")
    explained = asked(facts(run=done))
    assert (explained.verdict, explained.run_id, explained.at) == (Verdict.COMPLETED, done.run_id, AT)
    assert "Worker celery@a completed it at 2026-11-27T10:17:01Z" in words(explained)


def test_a_run_that_went_out_late_says_by_how_much_and_who_was_missing() -> None:
    late = run(RunState.COMPLETED, pending_at=AT + MINUTE, finished_at=AT + MINUTE, worker="celery@a")
    terms = (
        Term(2, "leader-a", MADE, AT - SECOND, AT - SECOND, "resigned"),
        Term(3, "leader-b", AT + MINUTE, NOW, None, None),
    )
    said = words(explain_run(late, facts(terms=terms)))
    assert "It was dispatched at 2026-11-27T10:18:00Z, 1 min late." in said
    assert "term 2 of leader-a was given up, term 3 of leader-b began at 2026-11-27T10:18:00Z" in said


def test_a_pending_run_waits_for_a_worker_and_says_where_none_listens() -> None:
    pending = run(RunState.PENDING, pending_at=AT, published_at=AT)
    queues = ({"name": "default", "pending": 3},)
    verdict, said = explained_now(pending, live=Live((WORKER,), queues))
    assert verdict is Verdict.WAITING_FOR_WORKER
    assert "3 runs of queue default are dispatched and not started. Listening: celery@a." in said
    elsewhere = ({**WORKER, "queues": ["mail"]}, {**WORKER, "alive": False})
    verdict, said = explained_now(pending, live=Live(elsewhere, queues))
    assert verdict is Verdict.NO_WORKER
    assert "itinerary worker --app MODULE:APP -Q default" in said
    verdict, said = explained_now(pending)
    assert verdict is Verdict.WAITING_FOR_WORKER
    assert "No leader answers" in said
    assert "not confirmed yet" in explained_now(run(RunState.PENDING, pending_at=AT))[1]


def test_a_message_is_said_to_wait_only_where_the_queue_was_seen_to_hold_it() -> None:
    pending = run(RunState.PENDING, pending_at=AT, published_at=AT)
    assert "A message for it was sent to queue default." in explained_now(pending)[1]
    assert "sent to queue default; 1 message waits there." in explained_now(pending, in_queue=1)[1]
    gone = explained_now(pending, in_queue=0, none_of_ours=True)[1]
    assert (
        "Its message is not in queue default any more: a worker holds it until its turn comes, or it was lost" in gone
    )
    foreign = explained_now(pending, in_queue=7, none_of_ours=True)[1]
    assert "(7 messages wait there, all from others)" in foreign


def test_a_scheduled_run_is_not_yet_due_or_without_a_leader_or_waits_for_room() -> None:
    assert explained_now(run(due_at=NOW + MINUTE))[0] is Verdict.NOT_YET_DUE
    verdict, said = explained_now(run(), terms=(replace(LEADING, ended_at=NOW - HOUR),))
    assert verdict is Verdict.NO_LEADER
    assert "Nobody led from 2026-11-27T11:00:00Z to 2026-11-27T12:00:00Z" in said
    assert explained_now(run(), terms=())[0] is Verdict.NO_LEADER
    live = Live((), ({"name": "default", "pending": 10_000},))
    verdict, said = explained_now(run(), live=live)
    assert verdict is Verdict.WAITING
    assert "10000 runs of queue default are dispatched" in said


def test_a_scheduled_run_behind_another_of_its_job_waits_for_it_unless_both_may_run() -> None:
    behind = Live(job_runs=("a.job_2026-11-27T09:17:00Z",))
    verdict, said = explained_now(run(), versions=(version(overlap="queue"),), live=behind)
    assert verdict is Verdict.OVERLAP
    assert "a.job_2026-11-27T09:17:00Z of the same job is not final" in said
    assert explained_now(run(), versions=(version(overlap="allow"),), live=behind)[0] is Verdict.WAITING


@pytest.mark.parametrize(
    ("skips", "coming"), [(False, "It waits until the job is resumed."), (True, "It is skipped when it falls due.")]
)
def test_a_scheduled_run_of_a_job_that_was_paused_since_waits_or_is_skipped(skips: bool, coming: str) -> None:
    paused = (version(), version(2, AT - MINUTE, "bob", paused=True, pause_reason="audit", pause_skips=skips))
    verdict, said = explained_now(run(), versions=paused)
    assert verdict is Verdict.PAUSED
    assert "by bob" in said
    assert coming in said


def test_a_retrying_run_tells_its_tries_and_when_the_next_is_due() -> None:
    error = TaskError("ValueError", "no such order")
    tried = Attempt(1, "failed", None, AT, AT, AT, AT + SECOND, "celery@a", error)
    verdict, said = explained_now(run(RunState.RETRYING, attempt=2, due_at=NOW + MINUTE, attempts=(tried,)))
    assert verdict is Verdict.RETRYING
    assert "Attempt 1 ended as failed at 2026-11-27T10:17:01Z: ValueError: no such order." in said
    assert "That is in 1 min." in said
    lost = replace(tried, outcome="lost", reason="lost", error=TaskError("Lost", "celery@a was not heard of"))
    _, said = explained_now(run(RunState.RETRYING, attempt=2, due_at=NOW + MINUTE, attempts=(lost,)))
    assert "Attempt 1 ended as lost at 2026-11-27T10:17:01Z: Lost: celery@a was not heard of." in said


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [("lost", Verdict.LOST), ("timed_out", Verdict.TIMED_OUT), ("unroutable: no worker took it", Verdict.UNROUTABLE)],
)
def test_a_failed_run_says_what_became_of_it(reason: str, verdict: Verdict) -> None:
    failed = run(RunState.FAILED, reason=reason, finished_at=AT, error=TaskError("Lost", "not heard of"))
    found, said = explained_now(failed)
    assert found is verdict
    assert f"Attempt 1 failed at 2026-11-27T10:17:00Z: {reason}. Lost: not heard of" in said
    assert "It is not retried: its retry policy allows one attempt." in said
    assert explained_now(run(RunState.FAILED, finished_at=AT))[0] is Verdict.FAILED


def test_a_reason_that_is_a_question_ends_the_sentence() -> None:
    failed = run(RunState.FAILED, reason="unknown_task: is it misspelt?", finished_at=AT)
    assert "Attempt 1 failed at 2026-11-27T10:17:00Z: unknown_task: is it misspelt?" in explained_now(failed)[1]


def test_a_cancelled_run_says_who_asked_for_it() -> None:
    change = AuditEntry(9, AT, "bob", "operator", "run.cancel", "x", {"state": "pending"}, {"state": "pending"})
    cancelled = run(RunState.CANCELLED, cancel_requested_at=AT, finished_at=AT + SECOND, reason="cancelled on request")
    verdict, said = explained_now(cancelled, audit_entries=(change,))
    assert verdict is Verdict.CANCELLED
    assert "Its cancellation was requested by bob at 2026-11-27T10:17:00Z." in said


def test_a_skipped_run_says_behind_whom_or_by_whose_pause() -> None:
    reason = "overlap skip: a.job_2026-11-27T09:17:00Z is not final"
    verdict, said = explained_now(run(RunState.SKIPPED, finished_at=AT, reason=reason))
    assert (verdict, reason in said) == (Verdict.OVERLAP, True)
    paused = (version(), version(2, AT - MINUTE, "bob", paused=True))
    verdict, said = explained_now(run(RunState.SKIPPED, finished_at=AT, reason="its job is paused"), versions=paused)
    assert (verdict, "by bob" in said) == (Verdict.PAUSED, True)


def test_a_missed_run_names_the_rule() -> None:
    missed = run(RunState.MISSED, reason="misfire skip: later than 30s", finished_at=NOW)
    verdict, said = explained_now(missed)
    assert (verdict, "misfire skip: later than 30s" in said) == (Verdict.MISFIRE, True)


def test_a_running_run_says_where() -> None:
    verdict, said = explained_now(run(RunState.RUNNING, pending_at=AT, started_at=AT, worker="celery@a"))
    assert (verdict, "Worker celery@a runs it since 2026-11-27T10:17:00Z" in said) == (Verdict.RUNNING, True)


def queued(**fields: Any) -> Version:
    return version(**{"overlap": "queue_all", **fields})


def finished_at(at: Instant, **fields: Any) -> Run:
    state = fields.pop("state", RunState.COMPLETED)
    return run(state, run_id="a.job_ahead", pending_at=AT - MINUTE, finished_at=at, worker="w", **fields)


DISPATCHED = run(RunState.RUNNING, pending_at=AT + HOUR, worker="celery@a")


def test_a_run_that_waited_through_a_pause_names_it_and_who_resumed_the_job() -> None:
    paused = queued(number=2, since=AT + MINUTE, actor="bob", paused=True, pause_reason="audit")
    resumed = queued(number=3, since=AT + 30 * MINUTE, actor="eve")
    said = words(explain_run(DISPATCHED, facts(queued(), paused, resumed)))
    assert 'Job a.job was paused at 2026-11-27T10:18:00Z by bob: "audit". It was held back until ' in said
    assert "held back until 2026-11-27T10:47:00Z, when eve resumed it." in said
    timed = queued(number=2, since=MADE + HOUR, actor="bob", paused=True, paused_until=AT + 5 * MINUTE)
    said = words(explain_run(DISPATCHED, facts(queued(), timed)))
    assert "It was held back until 2026-11-27T10:22:00Z." in said


@pytest.mark.parametrize(
    ("late", "paused", "resumed_at"),
    [
        (DISPATCHED, {"paused_until": AT - MINUTE}, None),
        (DISPATCHED, {}, AT + 2 * HOUR),
        (DISPATCHED, {"pause_skips": True}, AT + MINUTE),
        (replace(DISPATCHED, kind=RunKind.MANUAL), {}, AT + MINUTE),
        (replace(DISPATCHED, attempt=2), {}, AT + MINUTE),
        (replace(DISPATCHED, pending_at=AT + SECOND), {}, AT + 1),
    ],
    ids=["it was over before", "it began after", "what waits is skipped", "by hand", "a retry", "in time"],
)
def test_a_pause_that_held_nothing_back_is_no_cause(late: Run, paused: dict[str, Any], resumed_at: Instant) -> None:
    since = AT + HOUR + MINUTE if resumed_at == AT + 2 * HOUR else MADE + HOUR
    versions = [queued(), queued(number=2, since=since, paused=True, **paused)]
    versions += [] if resumed_at is None else [queued(number=3, since=resumed_at)]
    assert "held back" not in words(explain_run(late, facts(*versions)))


def test_a_run_that_waited_for_its_turn_names_the_run_ahead_of_it() -> None:
    known = facts(queued(), ahead=finished_at(AT + 40 * MINUTE, state=RunState.FAILED))
    explained = explain_run(DISPATCHED, known)
    assert "Run a.job_ahead of the same job ended at 2026-11-27T10:57:00Z as failed, and this one" in words(explained)
    assert [b.row["run_id"] for b in explained.because if b.row and "had to wait" in b.message] == ["a.job_ahead"]
    own = facts(version(overlap="allow"), ahead=finished_at(AT + MINUTE), own_overlap="queue_all")
    assert "had to wait for it" in words(explain_run(DISPATCHED, own))


@pytest.mark.parametrize(
    ("late", "known"),
    [
        (DISPATCHED, facts(version(overlap="allow"))),
        (DISPATCHED, facts(queued(), version(2, AT + MINUTE, overlap="allow"))),
        (DISPATCHED, facts(queued(), own_overlap="allow")),
        (DISPATCHED, replace(facts(), versions=())),
        (replace(DISPATCHED, attempt=2), facts(queued())),
    ],
    ids=["it may overlap", "it may since an edit", "it may itself", "its versions were pruned", "a retry"],
)
def test_a_run_that_need_not_have_waited_for_another_is_not_told_to_have(late: Run, known: Facts) -> None:
    assert "had to wait" not in words(explain_run(late, replace(known, ahead=finished_at(AT + MINUTE))))


def test_a_rule_of_before_and_one_of_after_the_wait_are_no_matter() -> None:
    before, after = version(overlap="allow"), version(3, NOW, overlap="allow")
    known = facts(before, queued(number=2, since=AT - MINUTE), after, ahead=finished_at(AT + MINUTE))
    assert "had to wait for it" in words(explain_run(DISPATCHED, known))


def test_reports_that_came_too_late_are_told() -> None:
    late = LateReports(2, "succeeded", NOW, "celery@b", None)
    failed = run(RunState.FAILED, reason="lost", pending_at=AT, finished_at=AT + MINUTE, late=late)
    _, said = explained_now(failed)
    assert "2 times a report of attempt 1 came after it was over" in said
    assert "succeeded, by celery@b at 2026-11-27T12:00:00Z" in said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (RunKind.MANUAL, "requested manually, as job a.job, for 2026-11-27T10:17:00Z"),
        (RunKind.ADHOC, "enqueued for 2026-11-27T10:17:00Z"),
    ],
)
def test_a_run_that_no_schedule_made_says_where_it_came_from(kind: RunKind, said: str) -> None:
    explained = explain_run(run(kind=kind, retry_of="other"), facts())
    assert explained.at is None
    assert said in words(explained)
    assert "to run other again" in words(explained)


def test_bounds_are_exact() -> None:
    """The start of a job belongs to it; what is due now is not to come; the cursor itself is not planned."""
    assert asked(facts(version(start_at=format_instant(AT)))).verdict is not Verdict.OUT_OF_BOUNDS
    assert asked(facts(now=AT, cursor=AT)).verdict is Verdict.WAITING
    assert asked(facts(now=AT, cursor=AT + 1)).verdict is Verdict.UNKNOWN
    assert asked(facts(now=AT - 1, cursor=AT)).verdict is Verdict.NOT_YET_DUE


def test_a_version_that_was_deleted_had_no_occurrence() -> None:
    other = {"schedule": {"kind": "hourly", "minute": 30}}
    gone = version(2, MADE + HOUR, deleted=True)
    explained = asked(facts(version(1, **other), gone, version(3, MADE + 2 * HOUR, **other)))
    assert explained.verdict is Verdict.NEVER_DUE


def test_of_an_occurrence_that_fires_no_others_are_told() -> None:
    assert asked(facts(version(start_at="2026-11-27T11:00:00Z"))).nearest == (None, None)


def test_one_that_did_not_run_is_told_alone() -> None:
    known = facts(missed_range=MissedRange("a.job", AT, AT + 1, 1, "misfire skip: later than 30s"))
    assert "It did not run, from 2026-11-27T10:17:00Z" in words(asked(known))


def test_what_was_asked_for_manually_since_is_told() -> None:
    by_hand = run(RunState.COMPLETED, run_id="a.job_by-hand", kind=RunKind.MANUAL, worker="w", finished_at=NOW)
    explained = asked(facts(missed_range=MissedRange("a.job", AT, AT + 1, 1, "misfire skip: late"), backfilled=by_hand))
    assert "as run a.job_by-hand, which is completed" in words(explained)


def test_a_run_does_not_wait_for_itself_and_is_not_late_within_a_second() -> None:
    waiting = run(due_at=AT)
    live = Live((WORKER,), ({"name": "default", "pending": 0},), (waiting.run_id,))
    assert explain_run(waiting, facts(run=waiting, live=live)).verdict is Verdict.WAITING
    in_time = run(RunState.COMPLETED, pending_at=AT + SECOND, worker="w", finished_at=NOW)
    assert "late" not in words(explain_run(in_time, facts(run=in_time)))
    late = run(RunState.COMPLETED, pending_at=AT + 2 * SECOND, worker="w", finished_at=NOW)
    assert "late" in words(explain_run(late, facts(run=late)))


class TestFreezes:
    HOLD = Freeze(12, Scope(everything=True), AT - HOUR, "a deploy", "ann")
    SKIP = replace(HOLD, freeze_id=13, during=During.SKIP, until=NOW + 2 * HOUR)

    def test_a_run_that_a_freeze_holds(self) -> None:
        explained = explain_run(run(), facts(freezes=(self.HOLD,)))
        assert explained.verdict is Verdict.FROZEN
        assert "It is held by freeze 12 since 2026-11-27T09:17:00Z by ann: a deploy." in words(explained)
        assert explained.because[-2].row is not None
        assert explained.because[-2].row["freeze_id"] == 12

    def test_a_pending_run_is_recalled(self) -> None:
        explained = explain_run(run(RunState.PENDING, pending_at=AT), facts(freezes=(self.HOLD,)))
        assert "held by freeze 12" in words(explained)
        assert "The leader recalls it" in words(explained)

    def test_a_run_that_was_held_before(self) -> None:
        over = replace(self.HOLD, ended_at=AT + HOUR, ended_by="otto")
        late = run(RunState.COMPLETED, pending_at=AT + HOUR, finished_at=AT + HOUR, worker="w")
        told = words(explain_run(late, facts(freezes=(over,))))
        assert "It was held by freeze 12 since" in told
        assert "a deploy, until 2026-11-27T11:17:00Z, when otto ended it." in told

    def test_an_occurrence_that_a_freeze_skipped(self) -> None:
        skipped = run(RunState.SKIPPED, finished_at=AT, reason=self.SKIP.skipped())
        missed = MissedRange("a.job", AT, AT + 1, 3, self.SKIP.skipped())
        for explained in (explain_run(skipped, facts()), asked(facts(missed_range=missed))):
            assert explained.verdict is Verdict.FROZEN
            assert "skipped by freeze 13 since 2026-11-27T09:17:00Z by ann: a deploy" in words(explained)

    def test_what_is_to_come(self) -> None:
        coming = AT + 2 * HOUR
        planned = asked(facts(freezes=(self.SKIP,)), coming)
        row = explain_run(run(scheduled_at=coming, due_at=coming), facts(freezes=(self.SKIP,)))
        manual = explain_run(run(kind=RunKind.MANUAL, due_at=coming), facts(freezes=(self.SKIP,)))
        assert planned.verdict is row.verdict is manual.verdict is Verdict.NOT_YET_DUE
        assert "It will be skipped by freeze 13" in words(planned)
        assert "It will be skipped by freeze 13" in words(row)
        assert "It will be held by freeze 13" in words(manual)


@pytest.mark.parametrize(
    ("missed", "finished_at", "told"),
    [
        (None, None, "It must end by 2026-11-27T04:00:00Z (must_end_within)."),
        (True, None, "It missed its SLA: it had to end by 2026-11-27T04:00:00Z (must_end_within), and is not over."),
        (True, AT + 9 * HOUR, "(must_end_within), and ended at"),
        (False, AT, None),
    ],
)
def test_a_run_with_an_sla_says_by_when_it_must_end_or_that_it_did_not(
    missed: bool | None, finished_at: Instant | None, told: str | None
) -> None:
    state = RunState.RUNNING if finished_at is None else RunState.COMPLETED
    one = replace(run(state, finished_at=finished_at), end_by=MADE + 4 * HOUR, sla_missed=missed)
    said = words(explain_run(one, facts(version())))
    assert told in said if told is not None else "SLA" not in said
