"""What the suite `limits` measures: the same rows and the same messages, by the barest means and by ours."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import redis

from itinerary.protocol.identity import occurrence_run_id
from itinerary.protocol.instants import HOUR, SECOND, Instant
from itinerary.protocol.run_fields import retry_body
from scheduler_service.broker.dispatcher import CeleryDispatcher, publishing_app
from scheduler_service.broker.message import SendOptions, record_template
from scheduler_service.core.leader.commands import Apply, CreateRuns, Dispatch, Transition
from scheduler_service.core.model import DispatchedRun, NewRun, RunKind
from scheduler_service.core.run_state import Event, RunState
from scheduler_service.sql.database import Database
from scheduler_service.sql.leader.store import SqlLeaderStore
from scheduler_service.sql.lease import SqlLeaseStore
from tests.benchmarks.bed import QUEUE, TASK, Scene

BATCH: Final = 1_000
ROUNDS: Final = 3
_INSERT: Final = """
INSERT INTO runs (run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, scheduled_at, due_at, retry,
                  created_at)
SELECT run_id, 'occurrence', job_id, 1, task, '[]', '{}', queue, 5, at, at, retry, now()
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::timestamptz[], %s::text[])
     AS new (run_id, job_id, task, queue, at, retry)
"""
_MOVE: Final = """
UPDATE runs SET state = 'pending', pending_at = now(), term = 1, seq = new.seq
FROM unnest(%s::text[], %s::bigint[]) AS new (run_id, seq)
WHERE runs.run_id = new.run_id AND state = 'scheduled'
"""
_END: Final = """
UPDATE runs SET state = 'completed', started_at = now(), finished_at = now(), published_at = now(), worker = 'w'
FROM unnest(%s::text[]) AS new (run_id) WHERE runs.run_id = new.run_id AND state = 'pending'
"""


def best_writes(work: Callable[[Scene, int], dict[str, float]], scene: Scene, number: int) -> dict[str, float]:
    """The best of some rounds, each on an empty table: what it takes when nobody else is at the machine."""
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        scene.sql.execute("TRUNCATE runs CASCADE")
        found = {name: max(speed, found.get(name, 0)) for name, speed in work(scene, number).items()}
    return found


def barest_writes(scene: Scene, number: int) -> dict[str, float]:
    """Rows a second of `insert`, and of `move` and `end` as updates by unnest: one statement and commit a batch."""
    rows, speeds = list(_new_runs(number)), {}
    retry = json.dumps(retry_body(rows[0].retry))
    for name, statement, columns in (
        ("insert", _INSERT, lambda run: (run.run_id, run.job_id, run.task, run.queue, _text(run.due_at), retry)),
        ("move", _MOVE, lambda run: (run.run_id, run.scheduled_at)),
        ("end", _END, lambda run: (run.run_id,)),
    ):
        batches = [[list(one) for one in zip(*map(columns, part), strict=True)] for part in _parts(rows)]

        def carry_out(statement: str = statement, batches: list[Any] = batches) -> None:
            for batch in batches:
                scene.sql.execute(statement, batch)  # type: ignore[call-overload]  # a statement of ours

        speeds[name] = number / _seconds(carry_out)
    return speeds


def our_writes(scene: Scene, number: int) -> dict[str, float]:
    """The same rows through the leader's store, fence and guards included; their jobs must be there."""
    rows = list(_new_runs(number))
    with closing(Database(scene.database_url)) as database:
        leases = SqlLeaseStore(database)
        lease = leases.acquire(0, "bench", HOUR)
        assert lease is not None
        store = SqlLeaderStore(database)
        store.cursor(lease)
        seqs = {run.run_id: seq for seq, run in enumerate(rows, start=1)}

        def insert() -> None:
            for part in _parts(rows):
                assert store.create_runs(lease, CreateRuns(tuple(part), lease.now)) == ()

        def move() -> None:
            for part in _parts(rows):
                dispatches = [Dispatch(run.run_id, 1, seqs[run.run_id]) for run in part]
                assert len(store.dispatch_runs(lease, dispatches, lease.now + SECOND).dispatched) == len(part)

        def end() -> None:
            for part in _parts(rows):
                transitions = (_succeeded(run.run_id, lease.now) for run in part)
                assert store.apply(lease, Apply(tuple(transitions))) == ()

        speeds = {name: number / _seconds(work) for name, work in (("insert", insert), ("move", move), ("end", end))}
        leases.resign(lease)
        return speeds


def _succeeded(run_id: str, at: Instant) -> Transition:
    return Transition(run_id, 1, Event.SUCCEED, RunState.COMPLETED, at, started_at=at, worker="w")


def _new_runs(number: int) -> Iterator[NewRun]:
    at = int(time.time()) * SECOND - 60 * SECOND
    for n in range(number):
        job_id = f"job-{n:07d}"
        run_id = occurrence_run_id(job_id, at)
        yield NewRun(run_id, RunKind.OCCURRENCE, TASK, at, at, job_id=job_id, job_version=1, queue=QUEUE)


def messages(number: int) -> list[DispatchedRun]:
    """Runs to publish."""
    return [
        DispatchedRun(
            run_id=run.run_id, attempt=1, seq=4_294_967_296 + seq, term=1, job_id=run.job_id, task=TASK, args=[],
            kwargs={}, queue=QUEUE, priority=5, scheduled_at=run.scheduled_at, due_at=run.due_at, timeout=None,
        )
        for seq, run in enumerate(_new_runs(number))
    ]  # fmt: skip


def barest_pushes(scene: Scene, number: int) -> tuple[str, float]:
    """LPUSHes a second of the same bytes, and by what."""
    [run] = messages(1)
    app = publishing_app(scene.redis_url)
    with app.connection_for_write() as connection:
        payload = record_template(app, connection.channel(), run).fill(run, "0" * 32)
    program = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if program is not None:
        words = [program, "-p", str(scene.bed.redis.port), "-n", str(number), "-P", "500", "-c", "1", "--csv"]
        done = subprocess.run(
            [*words, "-d", str(len(payload)), "-t", "lpush"], capture_output=True, text=True, check=True
        )
        line = next(line for line in done.stdout.splitlines() if line.startswith('"LPUSH'))
        return "redis-benchmark, pipelines of 500", float(line.split(",")[1].strip('"'))
    with redis.Redis.from_url(scene.redis_url) as client:

        def push() -> None:
            for start in range(0, number, 500):
                client.lpush("barest", *[payload] * min(500, number - start))

        return "LPUSH of 500 a command by redis-py", number / min(_seconds(push) for _ in range(ROUNDS))


def publishers(scene: Scene, number: int) -> Iterator[tuple[str, float, float]]:
    """By name: messages a second, and a second of our CPU; plain send_task, kombu's batch, and our template."""
    app = publishing_app(scene.redis_url)
    with app.connection_for_write() as connection, closing(CeleryDispatcher(app)) as dispatcher:
        producer: Any = app.amqp.Producer(connection.channel(), auto_declare=False)

        def send_task(runs: Sequence[DispatchedRun]) -> None:
            for run in runs:
                SendOptions.of(run).send(app, producer, run)

        def batch(runs: Sequence[DispatchedRun]) -> None:
            for part in _parts(runs):
                with producer.batch():
                    send_task(part)

        def template(runs: Sequence[DispatchedRun]) -> None:
            for part in _parts(runs):
                dispatcher.publish(part)

        for name, publish, part in (
            ("send_task", send_task, number // 10),
            ("kombu's batch", batch, number // 10),
            ("our template", template, number),
        ):
            publish(messages(10))
            rounds = [_timed(publish, messages(part)) for _ in range(ROUNDS)]
            yield name, part / min(seconds for seconds, _ in rounds), part / min(cpu for _, cpu in rounds)


def _timed(publish: Callable[[Sequence[DispatchedRun]], None], runs: Sequence[DispatchedRun]) -> tuple[float, float]:
    """Seconds, and seconds of our CPU."""
    cpu = time.process_time()
    return _seconds(lambda: publish(runs)), time.process_time() - cpu


def _parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))


def _text(at: Instant) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // SECOND))


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
