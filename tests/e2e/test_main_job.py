"""The main job, end to end: on one machine by `itinerary up`, and apart on PostgreSQL with two leaders."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from itinerary.client.sync import Client
from tests.support.processes import PATIENCE, wait_until
from tests.support.records import occurrences, seconds, steps
from tests.support.whole_system import System

pytestmark = pytest.mark.e2e


def goes_on_after(system: System, part: str) -> None:
    """kill -9 of `part`, then four more runs complete."""
    wanted = system.completed("tick") + 4
    system.kill(part)
    said = lambda: f"runs to go on after {part} was killed:\n{system.output()}"  # noqa: E731
    wait_until(lambda: system.completed("tick") >= wanted, what=said, every=0.5)


def test_a_failing_task_is_retried_as_its_job_says_and_keeps_its_traceback(system: System) -> None:
    system.make_job("doomed", "1d", "recording.explode", retry={"max_attempts": 3, "initial": "200ms", "jitter": False})
    run = system.client.trigger("doomed")
    wait_until(lambda: system.client.run(run["run_id"])["state"] == "failed", what=system.output, every=0.2)

    ended = system.client.run(run["run_id"])
    assert [attempt["attempt"] for attempt in ended["attempts"]] == [1, 2, 3]
    assert ended["error"]["type"] == "RuntimeError"
    assert "this task always fails" in ended["error"]["traceback"]
    assert system.truth().starts_of(run["run_id"]) == 3


def test_a_run_cancelled_before_its_time_never_starts(system: System) -> None:
    run_at = (datetime.now(UTC) + timedelta(seconds=8)).isoformat().replace("+00:00", "Z")
    doomed = system.client.enqueue("recording.note", run_at=run_at)
    kept = system.client.enqueue("recording.note", run_at=run_at)
    assert system.client.cancel(doomed["run_id"])["state"] == "cancelled"
    wait_until(lambda: system.client.run(kept["run_id"])["state"] == "completed", what=system.output, every=0.2)

    assert system.client.run(doomed["run_id"])["state"] == "cancelled"
    assert system.truth().starts_of(doomed["run_id"]) == 0
    assert system.truth().starts_of(kept["run_id"]) == 1


def test_a_backfill_runs_each_occurrence_at_its_own_time_one_after_the_other_and_once(system: System) -> None:
    schedule = {"kind": "cron", "expr": "30 2 * * *", "timezone": "Europe/Berlin"}
    system.client.create_job({"job_id": "report", "task": "recording.time", "schedule": schedule})
    system.client.pause_job("report", "it is backfilled all the same")
    window = ("2026-10-23T00:00:00Z", "2026-10-28T00:00:00Z")
    made = system.client.backfill("report", *window)
    assert system.client.backfill("report", *window)["runs"] == 0, "asked twice"
    wait_until(lambda: system.completed("report") == 5, what=system.output, every=0.2)
    assert system.client.backfill("report", *window)["left_out"]["completed"] == 5

    runs = [system.client.run(run_id) for run_id in made["run_ids"]]
    days = ["23T00", "24T00", "25T00", "26T01", "27T01"]  # the clocks went back on the 25th
    assert [run["result"] for run in runs] == [f"2026-10-{day}:30:00+00:00" for day in days]
    ended = [run["finished_at"] for run in runs]
    assert all(run["started_at"] >= before for run, before in zip(runs[1:], ended, strict=False))
    assert len(system.runs("report")) == 5
    why = system.client.explain_job("report", "2026-10-25T00:30:00Z")["text"]
    assert f"as run {made['run_ids'][2]}, which is completed." in why


def test_a_thousand_runs_of_eight_clients_complete_each_started_once(system: System) -> None:
    def enqueue(number: int) -> str:
        with Client(system.client.base_url, timeout=PATIENCE) as client:
            return " ".join(client.enqueue("recording.note")["run_id"] for _ in range(125))

    with ThreadPoolExecutor(8) as pool:
        run_ids = " ".join(pool.map(enqueue, range(8))).split()
    assert len(set(run_ids)) == 1000
    truth = wait_until(
        lambda: (t := system.truth()) and all(t.ends[f"{r}~1"] for r in run_ids) and t, what=system.output, every=1
    )
    assert [truth.starts_of(run_id) for run_id in run_ids] == [1] * 1000
    wait_until(
        lambda: all(system.client.run(r)["state"] == "completed" for r in run_ids[::50]), what=system.output, every=0.5
    )


def test_a_paused_queue_starts_nothing_through_a_takeover_and_everything_after_its_resume(system: System) -> None:
    client = system.client
    gate = system.record.with_name("gate")
    run_ids = [client.enqueue("recording.note", kwargs={"gate": str(gate)})["run_id"] for _ in range(30)]
    wait_until(lambda: client.queue("default")["running"], what=system.output, every=0.1)
    assert client.pause_queue("default", "an incident")["running"], "what runs, runs on"
    # The leader calls back what lies in the broker, once it knows the worker: else all would start at the open gate.
    wait_until(lambda: client.queue("default")["pending"] == 0, what=system.output, every=0.2)
    gate.touch()
    wait_until(lambda: client.queue("default")["running"] == 0, what=system.output, every=0.2)
    begun, term = system.truth().starts.total(), client.status()["term"]
    later = client.enqueue("recording.note")["run_id"]
    system.kill("leader")
    wait_until(lambda: (now := client.status())["leader_answers"] and now["term"] > term, what=system.output, every=0.2)
    waiting = client.queue("default")["waiting"]
    assert waiting == sum(client.run(run_id)["state"] == "scheduled" for run_id in (*run_ids, later)) > 1
    assert system.truth().starts.total() == begun
    assert "Queue default is paused since" in client.explain_run(later)["text"]
    client.resume_queue("default")
    wait_until(
        lambda: all(client.run(r)["state"] == "completed" for r in (*run_ids, later)), what=system.output, every=0.5
    )
    assert [system.truth().starts_of(run_id) for run_id in run_ids] == [1] * 30


def test_a_freeze_starts_nothing_through_a_takeover_skips_by_due_time_and_lets_the_rest_go_at_its_end(
    system: System,
) -> None:
    client = system.client
    system.make_job("held", "1s", overlap="allow", tags=["frozen"], misfire={"policy": "fire_all"})
    system.make_job("other", "1s", overlap="allow")
    wait_until(lambda: system.completed("held") > 1, what=system.output, every=0.2)
    freeze = client.start_freeze({"tags": ["frozen"]}, "a deploy", during="skip")
    begun = lambda: [one.running + one.pending for one in [client.freeze(freeze.freeze_id)]]  # noqa: E731
    wait_until(lambda: begun() == [0], what=system.output, every=0.2)
    term, others = client.status()["term"], system.completed("other")
    held = client.trigger("held")["run_id"]
    forced = client.trigger("held", force=True)["run_id"]
    wait_until(lambda: client.run(forced)["state"] == "completed", what=system.output, every=0.2)
    system.kill("leader")
    wait_until(lambda: (now := client.status())["leader_answers"] and now["term"] > term, what=system.output, every=0.2)
    wait_until(lambda: system.completed("other") > others, what=system.output, every=0.2)
    assert client.run(held)["state"] == "scheduled"
    assert f"It is held by freeze {freeze.freeze_id} since" in client.explain_run(held)["text"]
    ended = client.end_freeze(freeze.freeze_id)
    wait_until(lambda: client.run(held)["state"] == "completed", what=system.output, every=0.2)
    due = lambda run: freeze.since <= run.due_at < ended.ended_at  # noqa: E731
    within = lambda: [run for run in client.all_runs(job_id="held") if "manual" not in run.run_id and due(run)]  # noqa: E731
    wait_until(lambda: {run.state for run in within()} == {"skipped"}, what=system.output, every=0.2)
    skipped = client.explain_job("held", freeze.since.replace(microsecond=0) + timedelta(seconds=2))
    assert f"skipped by freeze {freeze.freeze_id} since" in skipped["text"]
    system.client.delete_job("held")
    system.client.delete_job("other")


def test_an_interval_job_runs_each_occurrence_once_and_never_early(system: System) -> None:
    # Neither a run of more than a second nor a leader that comes late leaves an occurrence out.
    system.make_job("beat", "1s", overlap="allow", misfire={"policy": "fire_all"})
    wait_until(lambda: system.completed("beat") >= 10, what=system.output, every=0.5)
    system.client.pause_job("beat", "seen enough", waiting="skip")
    wait_until(lambda: system.all_final("beat"), what=system.output, every=0.2)

    runs = [run for run in system.runs("beat") if run["state"] == "completed"]
    times = occurrences(runs, "beat")
    assert steps(times) == [1.0] * (len(times) - 1)
    truth = system.truth()
    assert [truth.starts_of(run["run_id"]) for run in runs] == [1] * len(runs)
    assert min(seconds(run["started_at"]) - seconds(run["due_at"]) for run in runs) >= 0


def test_kill_minus_nine_of_each_part_loses_nothing_and_starts_nothing_twice(system: System) -> None:
    retry = {"max_attempts": 4, "initial": "100ms", "jitter": False}
    system.make_job("tick", "1s", kwargs={"seconds": 0.3}, retry=retry, overlap="allow", misfire={"policy": "fire_all"})
    wait_until(lambda: system.truth().starts and len(system.runs("tick")) > 3, what=system.output, every=0.2)
    for part in ("worker", "leader", "redis", "worker", "leader"):
        goes_on_after(system, part)
    system.client.pause_job("tick", "enough", waiting="skip")
    wait_until(lambda: system.all_final("tick"), what=lambda: f"{system.runs('tick')}{system.output()}", every=0.5)

    runs = system.runs("tick")
    times = occurrences(runs, "tick")
    assert steps(times) == [1.0] * (len(times) - 1), "an occurrence is missing"
    truth = system.truth()
    twice = {task_id: count for task_id, count in truth.starts.items() if count > 1}
    assert not twice
    wrong = [run for run in runs if run["state"] not in ("completed", "skipped")]
    assert not wrong, wrong
    for run in runs:
        if run["state"] == "completed":
            assert truth.ends[f"{run['run_id']}~{run['attempt']}"] == 1, run


def test_every_invariant_holds_over_all_that_these_tests_did(system: System) -> None:
    assert not system.violations()
