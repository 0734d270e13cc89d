"""A user's own app under a real Celery worker: what the leader hears, and what really ran."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from celery import Celery

from itinerary.protocol.instants import SECOND
from itinerary.protocol.progress import Progress
from scheduler_service.broker.message import headers_of
from scheduler_service.core.leader.messages import Failed, Heartbeat, RetryAsked, Started, Succeeded
from tests.support.processes import wait_until
from tests.support.redis_server import RedisServer
from tests.support.worker_process import NOON, Bench, dispatched

pytestmark = [pytest.mark.slow, pytest.mark.redis]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="module", params=["prefork", "threads", "solo", "gevent"])
def bench(
    request: pytest.FixtureRequest, server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    with server.client() as client:
        client.flushall()
    with Bench(server.url, tmp_path_factory.mktemp("bench")) as bench:
        bench.worker("-c", "2", "-P", request.param)
        yield bench


def test_the_worker_says_which_tasks_it_knows(bench: Bench) -> None:
    wait_until(lambda: bench.next_heartbeat() and any(beat.tasks for beat in heartbeats(bench)))
    (said,) = {beat.tasks for beat in heartbeats(bench) if beat.tasks}
    assert {"user.add", "user.shared", "user.late"} <= set(said.names)
    assert said.complete
    assert not any(name.startswith("celery.") for name in said.names)


def heartbeats(bench: Bench) -> list[Heartbeat]:
    return [message for message in bench.messages if isinstance(message, Heartbeat)]


def test_a_result_is_reported_with_its_start(bench: Bench) -> None:
    bench.publish(dispatched("plain", "user.add", 1, 2))
    done = bench.report_of("plain", Succeeded)
    assert (done.result, done.reason, done.worker) == (3, None, "one@here")
    (started, _) = bench.about("plain")
    assert isinstance(started, Started)
    assert done.started_at == started.at <= done.at
    assert "add 1 2" in bench.truth


@pytest.mark.parametrize(
    ("task", "args", "result"),
    [
        ("user.shared", ["abc"], "ABC"),
        ("user.count", [5], 10),
        ("user.late", [], "registered after attach"),
    ],
    ids=["shared_task", "registered class", "registered after attach"],
)
def test_tasks_of_every_make_are_claimed_and_reported(
    bench: Bench, task: str, args: list[object], result: object
) -> None:
    bench.publish(dispatched(task, task, *args))
    assert bench.report_of(task, Succeeded).result == result
    assert [type(report) for report in bench.about(task)] == [Started, Succeeded]


def test_the_heartbeats_carry_the_last_progress_of_what_runs(bench: Bench) -> None:
    bench.publish(dispatched("counting", "user.counting", bench.gate("counted")))
    bench.witnessed("counting counting")

    def shown() -> bool:
        beat = bench.next_heartbeat("counting")
        return {beat.running[place][0]: value for place, value in beat.progress} == {
            "counting": Progress(2_000, 5_000, "rows")
        }

    wait_until(shown, what=lambda: f"the last number in {bench.messages[-3:]}")
    with bench.client() as client:
        assert not client.keys("*progress*")
    bench.open_gate("counted")
    assert bench.report_of("counting", Succeeded).progress == Progress(2_000, 5_000, "rows")
    wait_until(lambda: not bench.next_heartbeat().progress, what="a heartbeat without what is over")


@pytest.mark.parametrize("more", [{}, {"itinerary_protocol": 2, "itinerary_new": {"a": 1}}], ids=["before", "after"])
def test_a_message_of_another_release_is_claimed_and_runs(bench: Bench, more: dict[str, Any]) -> None:
    """The release before names no protocol."""
    run = dispatched(f"protocol-{len(more)}", "user.add", 2, 3)
    headers, name = {**headers_of(run), **more}, f"{run.run_id}~1"
    bench.app.send_task(run.task, run.args, task_id=name, queue="default", headers=headers, ignore_result=True)
    assert bench.report_of(run.run_id, Succeeded).result == 5


def test_a_task_can_ask_which_run_it_is(bench: Bench) -> None:
    bench.publish(dispatched("who", "user.who", job_id="nightly", attempt=3, retries=2))
    assert bench.report_of("who", Succeeded, attempt=3).result == {
        "run": "who",
        "job": "nightly",
        "attempt": 3,
        "scheduled_at": "2026-12-01T12:00:00+00:00",
        "due_at": "2026-12-01T12:01:30+00:00",
        "cancelled": False,
        "retries": 2,
        "id": "who~3",
    }


def test_the_users_own_hooks_run_after_the_claim(bench: Bench) -> None:
    bench.publish(dispatched("hooks", "user.who"))
    bench.report_of("hooks", Succeeded)
    mine = [line for line in bench.truth if line.endswith("hooks~1")]
    assert mine == ["before_start hooks~1", "who hooks~1", "on_success hooks~1"]


def test_a_second_delivery_of_the_same_attempt_runs_nothing(bench: Bench) -> None:
    run = dispatched("twice", "user.who")
    bench.publish(run, run, run)
    bench.report_of("twice", Succeeded)
    bench.publish(dispatched("after twice", "user.add", 0, 0))
    bench.report_of("after twice", Succeeded)
    assert bench.truth.count("who twice~1") == 1
    assert [type(report) for report in bench.about("twice")] == [Started, Succeeded]


def test_an_attempt_that_the_leader_took_never_starts(bench: Bench) -> None:
    assert bench.claims.take(["taken~1"]) == [True]
    bench.publish(dispatched("taken", "user.who"), dispatched("after taken", "user.add", 0, 0))
    bench.report_of("after taken", Succeeded)
    assert bench.about("taken") == []
    assert not [line for line in bench.truth if "taken~1" in line and "after" not in line]


def test_a_failure_is_reported_with_type_message_and_the_users_own_traceback(bench: Bench) -> None:
    bench.publish(dispatched("fails", "user.fails"))
    failed = bench.report_of("fails", Failed)
    assert failed.reason is None
    assert failed.error["type"] == "ValueError"
    assert failed.error["message"] == "no good: " + "x" * 20
    assert "userapp.py" in failed.error["traceback"]
    assert "celery/app/trace.py" not in failed.error["traceback"]


def test_long_errors_and_results_are_cut_and_say_so(bench: Bench) -> None:
    bench.publish(dispatched("long error", "user.fails", 200_000), dispatched("long result", "user.returns", "long"))
    error = bench.report_of("long error", Failed).error
    assert len(error["message"]) < 5_000
    assert "characters cut" in error["message"]
    assert len(error["traceback"]) < 20_000
    result = bench.report_of("long result", Succeeded).result
    assert result["$cut"]["size"] == 300_002
    assert result["$cut"]["start"].startswith('"yyy')


def test_results_that_are_not_json_are_marked(bench: Bench) -> None:
    bench.publish(dispatched("odd", "user.returns", "odd"), dispatched("object", "user.returns", "object"))
    assert bench.report_of("odd", Succeeded).result == {"a set": {"$repr": {"type": "set", "text": "{1}"}}}
    assert bench.report_of("object", Succeeded).result["$repr"]["type"] == "object"


def test_autoretry_sends_no_message_and_asks_the_leader(bench: Bench) -> None:
    bench.publish(dispatched("flaky", "user.flaky"))
    asked = bench.report_of("flaky", RetryAsked)
    assert asked.started_at + 7 * SECOND <= asked.due_at <= asked.at + 7 * SECOND
    assert (asked.args, asked.kwargs) == ([], {})
    assert asked.error["type"] == "ConnectionError"
    assert bench.dispatcher.heads(["default", "userqueue", "celery"])["default"].length == 0


def test_arguments_arrive_unchanged_and_with_the_types_that_were_asked_for(bench: Bench) -> None:
    marked = {"__type__": "nope", "__value__": {"__type__": "decimal", "__value__": "1.10"}}
    bench.publish(dispatched("same", "user.same", marked, kwargs={"d": {"$type": "decimal", "$value": "1.10"}}))
    assert bench.report_of("same", Succeeded).result == [repr((marked,)), repr([("d", Decimal("1.10"))])]


def test_a_retry_tells_its_arguments_with_their_types(bench: Bench) -> None:
    typed = {"$type": "datetime", "$value": "2026-12-01T12:00:00+00:00"}
    bench.publish(dispatched("typed", "user.asks_same", kwargs={"at": typed, "it": {"__type__": "x", "__value__": 1}}))
    asked = bench.report_of("typed", RetryAsked)
    assert asked.kwargs == {"at": typed, "it": {"__type__": "x", "__value__": 1}}


def test_a_task_may_have_any_name(bench: Bench) -> None:
    bench.publish(dispatched("named", "Räume auf / now please"))
    assert bench.report_of("named", Succeeded).result == "tidied"


@pytest.mark.parametrize("kind", ["coroutine", "generator"])
def test_a_task_whose_body_celery_does_not_run_fails_and_says_so(bench: Bench, kind: str) -> None:
    bench.publish(dispatched(kind, f"user.{kind}"))
    failed = bench.report_of(kind, Failed)
    assert failed.reason is None
    assert f"returned a {kind}, and its body did not run" in failed.error["message"]
    assert kind not in bench.truth


def test_a_message_that_its_task_puts_back_is_a_retry_as_often_as_one(bench: Bench) -> None:
    bench.publish(dispatched("back", "user.puts_back"))
    asked = bench.report_of("back", RetryAsked)
    assert asked.started_at + SECOND <= asked.due_at <= asked.at + SECOND
    assert (asked.args, asked.kwargs, asked.error["type"]) == (None, None, "celery.exceptions.Reject")
    bench.publish(dispatched("back", "user.puts_back", 2, attempt=3, retries=2))
    assert bench.report_of("back", Succeeded, attempt=3).result == "done at last"
    bench.publish(dispatched("back", "user.puts_back", attempt=4, retries=3))
    assert bench.report_of("back", Failed, attempt=4).reason == "rejected"
    bench.publish(dispatched("after back", "user.add", 0, 0))
    bench.report_of("after back", Succeeded)
    mine = [line for line in bench.truth if line.startswith("puts_back")]
    assert mine == ["puts_back back~1", "puts_back back~3", "puts_back back~4"]


def test_the_next_attempt_sees_the_count_and_max_retries_ends_it(bench: Bench) -> None:
    bench.publish(dispatched("worn", "user.flaky", attempt=2, retries=1))
    bench.report_of("worn", RetryAsked, attempt=2)
    bench.publish(dispatched("worn", "user.flaky", attempt=3, retries=2))
    assert bench.report_of("worn", Failed, attempt=3).error["type"] == "ConnectionError"
    assert [line for line in bench.truth if "worn" in line] == ["flaky worn~2 1", "flaky worn~3 2"]


def test_retry_reports_its_new_arguments_and_time(bench: Bench) -> None:
    bench.publish(dispatched("again", "user.asks_again", 3))
    asked = bench.report_of("again", RetryAsked)
    assert asked.args == [4]
    assert asked.started_at + 30 * SECOND <= asked.due_at <= asked.at + 30 * SECOND
    assert asked.error is None


def test_a_retry_asked_without_leaving_counts_as_asked(bench: Bench) -> None:
    bench.publish(dispatched("quiet", "user.asks_quietly"))
    bench.report_of("quiet", RetryAsked)
    assert [type(report) for report in bench.about("quiet")] == [Started, RetryAsked]


@pytest.mark.parametrize("number", [(), ("nan",), ("-inf",)])
def test_a_retry_whose_arguments_are_not_json_fails_the_attempt(bench: Bench, number: tuple[str, ...]) -> None:
    name = "-".join(["rubbish", *number])
    bench.publish(dispatched(name, "user.asks_with_rubbish", *number))
    assert "JSON" in bench.report_of(name, Failed).error["message"]


@pytest.mark.parametrize("task", ["user.ignores", "user.rejects"])
def test_a_task_that_ends_itself_is_reported_as_ignored(bench: Bench, task: str) -> None:
    bench.publish(dispatched(task, task))
    done = bench.report_of(task, Succeeded)
    assert (done.result, done.reason) == (None, "ignored")


def test_an_unknown_task_fails_by_name_without_a_start(bench: Bench) -> None:
    bench.publish(dispatched("unknown", "user.nowhere"))
    failed = bench.report_of("unknown", Failed)
    assert failed.reason == "unknown_task"
    assert "user.nowhere" in failed.error["message"]
    assert bench.claims.take(["unknown~1"]) == [False]


def test_an_unknown_task_of_an_attempt_that_was_taken_is_not_reported(bench: Bench) -> None:
    bench.claims.take(["unknown taken~1"])
    bench.publish(dispatched("unknown taken", "user.nowhere"), dispatched("unknown other", "user.nowhere"))
    bench.report_of("unknown other", Failed)
    assert bench.about("unknown taken") == []


def test_a_message_of_somebody_else_runs_untouched(bench: Bench) -> None:
    with Celery("outsider", broker=bench.url, set_as_current=False) as outsider:
        inherited = {"itinerary_run_id": "who", "itinerary_attempt": 3}
        outsider.send_task("user.add", (40, 2), queue="default")
        outsider.send_task("user.who", task_id="foreign-1", queue="default", headers=inherited)
    bench.witnessed("add 40 2")
    bench.witnessed("on_success foreign-1")
    bench.publish(dispatched("after foreign", "user.add", 0, 0))
    bench.report_of("after foreign", Succeeded)
    assert not [m for m in bench.messages if "foreign-1" in str(m)]


def test_a_foreign_retry_goes_through_the_broker_as_ever(bench: Bench) -> None:
    with Celery("outsider", broker=bench.url, set_as_current=False) as outsider:
        outsider.send_task("user.flaky", task_id="foreign-2", queue="default", retries=1)
    bench.witnessed("flaky foreign-2 1")
    with bench.client() as client:
        wait_until(lambda: client.hlen("unacked"), what="the retry of the foreign task, waiting in the worker")
        client.delete("unacked", "unacked_index")


def test_calls_inside_a_task_belong_to_its_run(bench: Bench) -> None:
    bench.publish(dispatched("nested", "user.nested"))
    assert bench.report_of("nested", Succeeded).result == [3, 7, "nested"]
    assert [type(report) for report in bench.about("nested")] == [Started, Succeeded]


def test_a_running_task_is_listed_until_it_is_reported(bench: Bench) -> None:
    bench.publish(dispatched("gated", "user.gated", bench.gate("listed")))
    bench.witnessed("gated gated~1")
    wait_until(
        lambda: ("gated", 1) in bench.next_heartbeat("gated").running, what="a heartbeat that lists it as running"
    )
    bench.open_gate("listed")
    bench.report_of("gated", Succeeded)
    wait_until(lambda: ("gated", 1) not in bench.next_heartbeat().running, what="a heartbeat without it")


def test_a_heartbeat_names_queues_and_slots(bench: Bench) -> None:
    beat = bench.next_heartbeat()
    assert beat.worker == "one@here"
    assert beat.queues == ("default",)
    assert beat.concurrency in (1, 2)


def test_times_of_the_message_are_those_of_the_run(bench: Bench) -> None:
    bench.publish(dispatched("times", "user.who", scheduled_at=NOON + SECOND // 2))
    assert bench.report_of("times", Succeeded).result["scheduled_at"] == "2026-12-01T12:00:00.500000+00:00"
