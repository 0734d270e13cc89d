"""The small parts of the workers package, without a Celery worker."""

import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery, signals
from celery.app.task import Context

import itinerary
from itinerary.protocol.errors import BadValue
from itinerary.protocol.identity import task_id
from itinerary.protocol.keys import Keys
from itinerary.protocol.progress import Progress
from itinerary.protocol.wire import HEADER_ATTEMPT, HEADER_RUN_ID
from itinerary.worker import connection as connection_module
from itinerary.worker import delivery as delivery_module
from itinerary.worker import listing
from itinerary.worker.celery_app import create_app
from itinerary.worker.claim import Verdict
from itinerary.worker.connection import RedisConnection, is_redis, patiently, usable_url
from itinerary.worker.current import CurrentRun, current_run
from itinerary.worker.delivery import Delivery, Limits, is_ours, unrun_code
from itinerary.worker.heartbeat import Heartbeater
from itinerary.worker.held import HeldRequests
from itinerary.worker.mixin import Claiming, give_claim
from itinerary.worker.pending import PendingSend
from itinerary.worker.pool_registry import PoolRegistry
from itinerary.worker.reporting import Report
from itinerary.worker.warm_stop import keep_what_was_given
from scheduler_service.core.leader.messages import Heartbeat, decode
from tests.support.processes import free_port, wait_until
from tests.support.redis_server import RedisServer

KEYS = Keys()


@pytest.fixture
def connection(redis_url: str) -> Iterator[RedisConnection]:
    opened = RedisConnection(redis_url)
    yield opened
    opened.client.close()


@pytest.fixture
def registry() -> Iterator[PoolRegistry]:
    with closing(PoolRegistry()) as opened:
        yield opened


@pytest.fixture
def user_app() -> Iterator[Celery]:
    app = Celery("unattached", broker="memory://", set_as_current=False)

    @app.task(name="user.add", shared=False)
    def add(x: int, y: int) -> int:
        return x + y

    @app.task(name="user.again", bind=True, shared=False, max_retries=2)
    def again(self: Any) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return int(self.request.retries)

    yield app
    app.close()


@pytest.fixture
def armed(user_app: Celery, registry: PoolRegistry) -> Celery:
    for task in user_app.tasks.values():
        give_claim(task, RedisConnection(f"redis://127.0.0.1:{free_port()}/0"), registry, "celery@here", _nobody)
    return user_app


def _nobody(task_id: str, exc: BaseException, retry: object) -> None:
    raise AssertionError(f"no process of {task_id} was lost")


class FakePool:
    num_processes = 4


class FakeConsumer:
    """What the heart asks of Celery's consumer."""

    def __init__(self) -> None:
        self.pool = FakePool()
        self.app = Celery("consumer", broker="memory://", set_as_current=False)
        self.app.conf.task_default_queue = "default"


class Unfinished:
    """A worker without what our receivers read of it."""

    def __init__(self, app: Celery) -> None:
        self.app = app


def test_attaching_asks_nothing_of_redis_and_changes_no_call(user_app: Celery) -> None:
    itinerary.attach(user_app, f"redis://127.0.0.1:{free_port()}/0")
    itinerary.attach(user_app)
    add = user_app.tasks["user.add"]
    assert add(1, 2) == 3
    assert add.apply(args=(1, 2)).get() == 3
    assert current_run() is None


def test_a_start_that_fails_in_any_receiver_of_ours_ends_the_worker_with_a_sentence(user_app: Celery) -> None:
    itinerary.attach(user_app, f"redis://127.0.0.1:{free_port()}/0")
    unfinished = Unfinished(user_app)
    with pytest.raises(SystemExit, match=r"itinerary: this worker does not start.*time_limit"):
        signals.worker_init.send(sender=unfinished)
    with pytest.raises(SystemExit, match=r"itinerary: this worker does not start.*hostname"):
        signals.celeryd_after_setup.send(sender="one@here", instance=unfinished, conf=user_app.conf)
    with pytest.raises(SystemExit, match=r"itinerary: this worker does not start.*'app'"):
        signals.celeryd_init.send(sender="one@here", instance=object(), conf=user_app.conf, options={})


def test_direct_and_eager_calls_of_a_task_with_the_claim_need_no_redis(armed: Celery) -> None:
    add = armed.tasks["user.add"]
    assert isinstance(add, Claiming)
    assert add(1, 2) == 3
    assert add.apply(args=(3, 4)).get() == 7


def test_an_eager_retry_goes_on_eagerly_as_ever(armed: Celery) -> None:
    assert armed.tasks["user.again"].apply().get() == 2


def test_a_task_keeps_its_class_its_module_and_its_name(
    armed: Celery, user_app: Celery, registry: PoolRegistry
) -> None:
    add = armed.tasks["user.add"]
    assert type(add).__module__ == __name__
    assert isinstance(add, user_app.Task)
    assert not give_claim(add, RedisConnection("redis://127.0.0.1/0"), registry, "celery@there", _nobody)
    assert type(add).__mro__.count(Claiming) == 1


@pytest.mark.parametrize(
    ("message", "otherwise", "held"),
    [
        ([15, 5], Limits(30, 20), (15, 5)),
        ([None, None], Limits(30, 20), (30, 20)),
        (None, Limits(None, 20), (None, 20)),
        ([15, None], Limits(), (15, None)),
    ],
)
def test_limits_of_a_message_hold_before_those_of_task_and_worker(
    message: list[float | None] | None,
    otherwise: Limits,
    held: tuple[float | None, float | None],
    registry: PoolRegistry,
) -> None:
    times = dict.fromkeys(("itinerary_scheduled_at", "itinerary_due_at"), "2026-12-01T12:00:00Z")
    own = {"id": "job_x~2", "itinerary_run_id": "job_x", "itinerary_attempt": 2, "called_directly": False, **times}
    connection = RedisConnection(f"redis://127.0.0.1:{free_port()}/0")
    delivery = Delivery.of(Context(own, timelimit=message), connection, registry, "one@here", otherwise)
    assert delivery is not None
    assert (delivery.hard_limit, delivery.soft_limit) == held


def test_a_claim_that_waits_is_no_warning_until_it_waits_long(
    registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([Verdict.WAIT] * 70 + [Verdict.WON])
    monkeypatch.setattr(delivery_module, "claim", lambda *_: next(answers))
    monkeypatch.setattr(delivery_module.time, "sleep", lambda _: None)
    caplog.set_level(logging.INFO, "itinerary.worker")
    times = dict.fromkeys(("itinerary_scheduled_at", "itinerary_due_at"), "2026-12-01T12:00:00Z")
    own = {"id": "job_x~2", "itinerary_run_id": "job_x", "itinerary_attempt": 2, "called_directly": False, **times}
    connection = RedisConnection(f"redis://127.0.0.1:{free_port()}/0")
    delivery = Delivery.of(Context(own), connection, registry, "one@here", Limits())
    assert delivery is not None
    delivery.claim()
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "`itinerary status`" in caplog.records[1].getMessage()


@pytest.mark.redis
def test_reports_that_a_new_redis_gets_again_are_no_warning(
    connection: RedisConnection, registry: PoolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "itinerary.worker")
    registry.claimed("job_x~2")
    registry.report_sent(Report("job_x~2", "succeeded", 1, {}), "token")
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: "sent again" in caplog.text, what="the report to be sent again")
    heartbeater.stop()
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("INFO", "redis was started anew or is another, recent reports are sent again count=1") in said


@pytest.mark.redis
def test_a_redis_that_is_away_is_warned_of_once_until_it_answers_again(
    redis_server: RedisServer, registry: PoolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "itinerary.worker")
    connection = RedisConnection(redis_server.url)
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    assert heartbeater._beat()
    redis_server.kill()
    assert not any(heartbeater._beat() for _ in range(5))
    redis_server.start()
    assert all(heartbeater._beat() for _ in range(2))
    ours = [record.levelname for record in caplog.records if "redis" in record.getMessage()]
    assert ours == ["WARNING", "INFO"]


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"itinerary_run_id": "job_x", "itinerary_attempt": 2, "id": "job_x~2"}, True),
        ({"itinerary_run_id": "job_x", "itinerary_attempt": 2, "id": "a child that inherited them"}, False),
        ({"id": "job_x~2"}, False),
        ({}, False),
        ({"itinerary_run_id": None, "itinerary_attempt": None, "id": "None~None"}, False),
    ],
)
def test_a_message_is_ours_only_if_its_id_is_the_attempt_of_its_headers(headers: dict[str, Any], ours: bool) -> None:
    assert is_ours(headers) is ours


@pytest.mark.parametrize(
    ("url", "usable"),
    [
        ("redis://host:1/2", "redis://host:1/2"),
        ("rediss://host/0", "rediss://host/0"),
        ("redis+socket:///run/r.sock?virtual_host=3", "unix:///run/r.sock?db=3"),
        ("redis://one/0;redis://two/0", "redis://one/0"),
        (["redis://one/0", "redis://two/0"], "redis://one/0"),
        ("sentinel://host/0?master=m", "sentinel://host:26379/0?master=m"),
        ("amqp://host//", None),
        (None, None),
        ([], None),
    ],
)
def test_the_redis_of_the_claims_is_read_from_what_celery_calls_a_broker(url: object, usable: str | None) -> None:
    assert usable_url(url) == usable
    assert is_redis(url) is (usable is not None)


@pytest.mark.parametrize("url", ["sentinel://one:1", "sentinel://one:1;sentinel://two:1", ["sentinel://one:1"]])
def test_a_broker_behind_sentinels_is_redis_though_another_option_names_the_master(url: object) -> None:
    assert is_redis(url)


def test_a_redis_url_that_cannot_be_read_is_named_without_its_password() -> None:
    with pytest.raises(BadValue) as refusal:
        _ = RedisConnection("redis://:hunter2@host:port/0").client
    assert "hunter2" not in str(refusal.value)


async def _counts() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("outcome", "named"), [(_counts(), "an async_generator"), ((n for n in ()), "a generator")], ids=["async", "plain"]
)
def test_what_a_body_that_did_not_run_returned_is_named_with_its_article(outcome: object, named: str) -> None:
    assert f"it returned {named}, and its body did not run" in str(unrun_code(outcome))


def test_cancelled_is_asked_seldom_and_stays_true(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True])
    now = [100.0]
    monkeypatch.setattr("itinerary.worker.current.time.monotonic", lambda: now[0])
    run = CurrentRun("job_x", None, 1, *[None] * 2, lambda: next(answers))  # type: ignore[arg-type]
    seen = []
    for at in (100.0, 100.1, 100.4, 100.6, 100.7, 200.0):
        now[0] = at
        seen.append(run.cancelled())
    assert seen == [False, False, False, True, True, True]


def test_what_redis_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(connection_module.time, "sleep", pauses.append)
    failures = [redis.ConnectionError(), redis.TimeoutError(), OSError(), redis.ResponseError("OOM")] * 2

    def action() -> str:
        if failures:
            raise failures.pop()
        return "answered"

    assert patiently(action, "testing") == "answered"
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]


def test_another_error_than_redis_being_away_is_not_repeated() -> None:
    def action() -> None:
        raise KeyError("ours")

    with pytest.raises(KeyError):
        patiently(action, "testing")


@pytest.mark.redis
def test_a_forked_child_has_a_client_of_its_own(connection: RedisConnection) -> None:
    parents = connection.client
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        own = connection.client
        os.write(writing, b"own" if own is not parents and own.ping() else b"shared")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 10) == b"own"
    assert connection.client is parents
    os.close(reading)
    os.close(writing)


def beats(connection: RedisConnection) -> list[Heartbeat]:
    entries: Any = connection.client.xrange(KEYS.inbox)
    messages = [decode(fields) for _, fields in entries]
    return [message for message in messages if isinstance(message, Heartbeat)]


@pytest.mark.redis
def test_the_heart_beats_at_once_and_says_farewell(connection: RedisConnection, registry: PoolRegistry) -> None:
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.start()
    wait_until(lambda: beats(connection), what="the first heartbeat")
    heartbeater.stop()
    first, last = beats(connection)[0], beats(connection)[-1]
    assert (first.worker, first.concurrency, first.queues) == ("celery@here", 4, ("default",))
    assert (last.concurrency, last.running) == (0, ())
    assert (first.leaving, first.recalls) == (False, True)
    assert last.leaving


def first_beat(connection: RedisConnection, registry: PoolRegistry, pool: object) -> Heartbeat:
    consumer = FakeConsumer()
    consumer.pool = pool  # type: ignore[assignment]
    heartbeater = Heartbeater(connection, registry, "celery@here", consumer, HeldRequests())
    heartbeater.start()
    wait_until(lambda: connection.client.xlen(KEYS.inbox), what="the first heartbeat")
    heartbeater.stop()
    return beats(connection)[0]


class GreenPool:
    """gevent's pool as it is in Celery 5.4 to 5.6: its processes are the greenlets that run."""

    is_green = True
    limit = 100
    num_processes = 0


@pytest.mark.redis
def test_an_idle_pool_of_greenlets_has_its_places_and_is_not_leaving(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    first = first_beat(connection, registry, GreenPool())
    assert (first.concurrency, first.leaving) == (100, False)


class OvershrunkPool:
    """A pool whose children were told twice to go, each counted twice."""

    num_processes = -4


@pytest.mark.redis
def test_a_pool_that_celery_counts_below_zero_beats_as_one_without_places(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    first = first_beat(connection, registry, OvershrunkPool())
    assert (first.concurrency, first.leaving) == (0, False)


class FakeRequest:
    """A request as the rate limit's bucket holds it."""

    acknowledged = False
    time_start: float | None = None

    def __init__(self, task_id: str) -> None:
        self.id = task_id


@pytest.mark.redis
def test_thousands_of_held_messages_are_listed_whole_in_entries_that_the_leader_reads(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    held = HeldRequests()
    requests = [FakeRequest(f"{'x' * 270}{n:06}~1") for n in range(3_000)]
    for request in requests:
        held.add(request)
    requests[7].acknowledged = True
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), held)
    heartbeater.start()
    wait_until(lambda: len(beats(connection)) > 4, what="a heartbeat in parts")
    heartbeater.stop()
    listed = [task_id(*one) for beat in beats(connection)[:5] for one in beat.received]
    assert sorted(listed) == sorted(request.id for request in requests if not request.acknowledged)
    assert [beat.part for beat in beats(connection)[:5]] == [0, 1, 2, 3, 4]


@pytest.mark.redis
def test_the_longest_progress_of_the_longest_lists_fits_into_entries_that_the_leader_reads(
    connection: RedisConnection, registry: PoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldRequests()
    waiting = [FakeRequest(f"{'x' * 290}{n:04}~1") for n in range(1_000)]
    for request in waiting:
        held.add(request)
    running = [SimpleNamespace(id=f"{'y' * 290}{n:04}~1") for n in range(1_000)]
    for one in running:
        one.request_dict = {"id": one.id, HEADER_RUN_ID: one.id[:-2], HEADER_ATTEMPT: 1}
        registry.claimed(one.id)
        registry.shows_progress(one.id, lambda: Progress(2**53 - 0.1, 2**53, "\u20ac" * 20))
    monkeypatch.setattr(listing.state, "requests", {one.id: one for one in running})
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), held)
    heartbeater.start()
    wait_until(lambda: len(beats(connection)) > 1, what="a heartbeat in parts")
    heartbeater.stop()
    whole = beats(connection)[:2]
    assert [len(beat.progress) for beat in whole] == [len(beat.running) for beat in whole] == [600, 400]


@pytest.mark.slow
@pytest.mark.redis
def test_a_second_message_of_what_ran_here_and_is_over_is_no_sign_of_life(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    held = HeldRequests()
    copy = FakeRequest("run~1")
    held.add(copy)
    registry.claimed("run~1")
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), held)
    heartbeater.start()
    for n in range(1, 5):
        heartbeater.beat_soon()
        wait_until(lambda n=n: len(beats(connection)) > n, what="another heartbeat")
    heartbeater.stop()
    assert all(beat.received == beat.running == () for beat in beats(connection))


def test_of_two_requests_of_one_attempt_the_one_that_runs_is_found() -> None:
    held = HeldRequests()
    waiting, running = FakeRequest("run~1"), FakeRequest("run~1")
    running.time_start = 1.0
    held.add(waiting)
    held.add(running)
    assert held.of("run~1") is running
    assert held.of("other~1") is None
    del running
    assert held.of("run~1") is waiting


@pytest.mark.redis
def test_held_reports_go_out_in_order_before_the_next_heartbeat(
    connection: RedisConnection, registry: PoolRegistry
) -> None:
    done: list[str] = []
    away = threading.Event()
    back = threading.Event()

    def report(name: str) -> Callable[[], None]:
        def send() -> None:
            if not back.is_set():
                away.set()
                raise redis.ConnectionError("away")
            done.append(name)

        return send

    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    for name in ("first", "second", "third"):
        heartbeater.enqueue(PendingSend(name, report(name)))
    heartbeater.start()
    assert away.wait(60)
    assert beats(connection) == []
    back.set()
    wait_until(lambda: beats(connection), what="a heartbeat")
    assert done == ["first", "second", "third"]
    heartbeater.stop()


@pytest.mark.redis
def test_a_report_that_breaks_does_not_stop_the_later_ones(connection: RedisConnection, registry: PoolRegistry) -> None:
    done: list[str] = []
    heartbeater = Heartbeater(connection, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.enqueue(PendingSend("broken", lambda: 1 / 0))
    heartbeater.enqueue(PendingSend("later", lambda: done.append("later")))
    heartbeater.start()
    wait_until(lambda: done, what="the later report")
    heartbeater.stop()


def test_stopping_the_heart_is_bounded_while_redis_is_away(registry: PoolRegistry) -> None:
    away = RedisConnection(f"redis://127.0.0.1:{free_port()}/0")
    heartbeater = Heartbeater(away, registry, "celery@here", FakeConsumer(), HeldRequests())
    heartbeater.enqueue(PendingSend("away", lambda: (_ for _ in ()).throw(redis.ConnectionError("away"))))
    heartbeater.start()
    heartbeater.stop()
    assert not heartbeater.is_alive()


def test_the_own_app_never_redelivers_and_never_gives_up() -> None:
    app = create_app("redis://127.0.0.1:1/0")
    conf = app.conf
    assert not conf.task_acks_late
    assert conf.worker_disable_prefetch
    assert conf.worker_prefetch_multiplier == 1
    assert conf.task_ignore_result
    assert conf.result_backend is None
    assert conf.broker_connection_max_retries is None
    assert conf.accept_content == ["json"]
    assert conf.broker_transport_options["socket_timeout"] == 10
    assert {"itinerary.echo", "itinerary.sleep", "itinerary.fail", "itinerary.http"} <= set(app.tasks)
    app.close()


def test_a_pool_that_drops_no_messages_is_left_alone_by_a_warm_stop() -> None:
    consumer = SimpleNamespace(pool=SimpleNamespace(flush=None))  # as Celery's pool for brokers without an event loop
    keep_what_was_given(consumer)
    assert consumer.pool.flush is None
