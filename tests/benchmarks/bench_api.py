"""How long a caller waits: from a request to the start of its run on an idle system, and the API's own answers.

Whole systems in real processes: `itinerary up` with its defaults, and the parts apart on PostgreSQL. Starts are the
workers' own record; both clocks are this machine's.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final

import psycopg
from sqlalchemy import make_url

from itinerary.client.sync import Client, enqueue_in
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.time_work import percentiles
from tests.support.deployment import Deployment
from tests.support.postgres_server import PostgresServer, create_database
from tests.support.running import Running

MS: Final = 1e3
TASK: Final = "itinerary.echo"
STARTS: Final = 60
CALLS: Final = 300
CLIENTS: Final = 8
BATCHES: Final = 5


def figures(asked: Asked) -> Iterator[Figure]:
    """Every figure of the suite: first on SQLite, then on PostgreSQL."""
    with (
        tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder,
        Running(Path(folder) / "data") as up,
        up.client() as client,
    ):
        yield from _of_a_system(client, "itinerary up, SQLite")
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder, PostgresServer() as server:
        url = create_database(server.admin_url, "itinerary_bench")
        with Deployment(Path(folder), url, app="itinerary.worker.celery_app:app") as apart, apart.client() as client:
            yield from _of_a_system(client, "apart, PostgreSQL")
            yield from _of_a_transaction(client, url)


def _of_a_system(client: Client, name: str) -> Iterator[Figure]:
    _started_after(client, lambda: str(client.enqueue(TASK)["run_id"]))  # the first finds cold caches
    waits = [_started_after(client, lambda: str(client.enqueue(TASK)["run_id"])) for _ in range(STARTS)]
    p50, p95, _ = percentiles(waits)
    yield Figure(f"request to start, {name}, p50", p50 * MS, "ms", target=100)
    yield Figure("  the same, p95", p95 * MS, "ms")
    later = {"run_at": "2999-01-01T00:00:00Z"}
    calls = [_seconds(lambda: client.enqueue(TASK, **later)) for _ in range(CALLS)]  # type: ignore[arg-type]
    p50, _, p99 = percentiles(calls)
    yield Figure("POST /runs, one client, p50", p50 * MS, "ms")
    yield Figure("  the same, p99", p99 * MS, "ms")
    reads = [_seconds(lambda: client.runs(limit=100)) for _ in range(CALLS)]
    yield Figure("GET /runs, a page of 100, p50", percentiles(reads)[0] * MS, "ms")
    yield Figure(f"POST /runs, {CLIENTS} clients", _rate(client.base_url, later), "a second", better="higher")
    batch = [{"task": TASK, **later}] * 1000
    fastest = min(_seconds(lambda: client.enqueue_batch(batch)) for _ in range(BATCHES))
    yield Figure("POST /runs/batch of 1,000", 1000 / fastest, "runs a second", better="higher")


def _of_a_transaction(client: Client, url: str) -> Iterator[Figure]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as mine:

        def commit() -> str:
            run_id = enqueue_in(mine, TASK)
            mine.commit()
            return run_id

        waits = [_started_after(client, commit) for _ in range(STARTS)]
    p50, p95, _ = percentiles(waits)
    yield Figure("commit of enqueue_in to start, p50", p50 * MS, "ms", target=100)
    yield Figure("  the same, p95", p95 * MS, "ms")


def _started_after(client: Client, enqueue: Callable[[], str]) -> float:
    """Seconds from before `enqueue` to the first line of the task, by the worker's clock."""
    began = time.time()
    run = client.wait(enqueue(), timeout=30, every=0.02)
    return datetime.fromisoformat(run["started_at"]).timestamp() - began


def _rate(base_url: str, later: dict[str, str]) -> float:
    def enqueue(_: int) -> None:
        with Client(base_url) as client:
            for _number in range(CALLS // 2):
                client.enqueue(TASK, run_at=later["run_at"])

    with ThreadPoolExecutor(CLIENTS) as pool:
        seconds = _seconds(lambda: list(pool.map(enqueue, range(CLIENTS))))
    return CLIENTS * (CALLS // 2) / seconds


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
