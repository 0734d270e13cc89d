"""How long pages and history queries take over a large history: 100,000 jobs, 5,000,000 runs, PostgreSQL.

Each page is asked for again and again, each kind of query with ever other values; a figure is the 95th percentile.
"""

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import Final
from urllib.parse import urlencode

from fastapi.testclient import TestClient
from sqlalchemy import text

from itinerary.protocol.instants import DAY, HOUR, SECOND, format_instant
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.services.leader_line import LeaderLine
from scheduler_service.bootstrap.parts import open_stores
from scheduler_service.config.settings import Settings
from scheduler_service.runtime.collector import collect_rarely, keep_loaded
from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import upgrade
from scheduler_service.sql.paging import write_cursor
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.large_history import fill
from tests.support.answering_leader import AnsweringLeader
from tests.support.postgres_server import PostgresServer
from tests.support.redis_server import RedisServer

RUNS: Final = 5_000_000
PAGE_LIMIT, QUERY_LIMIT = 300, 100
ROUNDS: Final = 40
PAGES: Final = {
    "overview": "/",
    "overview, trends of 7 days": "/?window=7d",
    "jobs": "/jobs",
    "jobs, searched": "/jobs?q=job-09999",
    "jobs, a tag": "/jobs?tag=t77",
    "jobs, paused": "/jobs?paused=true",
    "jobs of a queue": "/jobs?queue=mail",
    "jobs whose last run failed": "/jobs?last_state=failed",
    "10,000 jobs by their last run": "/jobs?queue=mail&sort=-last_run",
    "10,000 jobs by their last state": "/jobs?queue=mail&sort=last_state",
    "100 jobs by their next run": "/jobs?q=job-0000&sort=next_run",
    "the job with most runs": "/jobs/job-000000",
    "a job that never ran": "/jobs/job-050001",
    "runs": "/runs",
    "runs, failed": "/runs?state=failed",
    "runs, skipped of a time": "/runs?state=skipped&until={old}",
    "failed and cancelled runs of a job": "/runs?job_id=job-000000&state=failed&state=cancelled",
    "runs of a small queue": "/runs?queue=rare",
    "runs, the oldest": "/runs?sort=scheduled_at",
    "runs, the longest": "/runs?sort=-duration",
    "runs, failed, by their end": "/runs?state=failed&sort=-finished_at",
    "runs of a job by their start": "/runs?job_id=job-000000&sort=started_at",
    "timeline of 7 days by job": "/timeline?within=7d",
    "timeline of 24 hours by queue": "/timeline?by=queue&within=24h",
    "timeline, failed of 30 days": "/timeline?within=30d&state=failed",
    "timeline of 10 minutes": "/timeline?within=10m",
    "calendar, a month": "/calendar",
    "calendar, a month of the job with most runs": "/calendar?job=job-000000",
    "calendar, a month of a queue": "/calendar?queue=mail",
    "calendar, a week": "/calendar?view=week",
    "a run": "/runs/{run}",
    "failures of 7 days": "/failures?within=7d",
    "workers": "/workers",
    "audit": "/audit",
    "metrics": "/metrics",
}
_API: Final = "/api/v1"
_JOB_IDS: Final = ("", "job-000000", "job-000500", "job-001999", "job-050000")
_STATES: Final = (
    (), ("completed",), ("failed",), ("cancelled",), ("missed",), ("running",), ("scheduled",), ("failed", "cancelled"),
    ("pending", "failed"), ("completed", "cancelled"),
)  # fmt: skip
_QUEUES: Final = ("", "default", "mail", "rare", "nowhere")
# (since, until), in days before now; 0: none.
_TIMES: Final = ((0, 0), (1, 0), (0, 20), (29, 28), (0, 40))


def figures(asked: Asked) -> Iterator[Figure]:
    """Milliseconds, the leader's answer included."""
    runs, rounds = (RUNS // 50, 5) if asked.quick else (RUNS, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder, PostgresServer() as server:
        url = server.create_database()
        upgrade(url)
        with RedisServer(Path(folder)) as redis, closing(Database(url, pool_size=1)) as database:
            asked.say(f"  filling in {runs:,} runs")
            fill(database, runs)
            yield Figure("a run, its indexes included", _bytes_a_run(database, runs), "bytes")
            settings = Settings(database_url=url, redis_url=redis.url)
            with open_stores(settings) as stores, AnsweringLeader(redis.url):
                stores.leases.acquire(0, "bench", HOUR)
                context = ApiContext(settings, stores, LeaderLine(stores.inbox, system_clock), system_clock)
                collect_rarely()
                with TestClient(build_app(context), base_url="http://127.0.0.1") as client:
                    keep_loaded()  # as the API's process does
                    run_ids = _some_runs(database, 50 * rounds)
                    for name, addresses, limit in _asked(run_ids, rounds):
                        yield from _figures(name, client, addresses, None if asked.quick else limit)


def _asked(run_ids: Sequence[str], rounds: int) -> Iterator[tuple[str, list[str], float]]:
    """What is measured: its name, the addresses, and the limit of their 95th percentile."""
    for name, path in PAGES.items():
        address = path.format(run=run_ids[0], old="2020-01-01 00:00")
        yield f"page: {name}", [address] * rounds, PAGE_LIMIT
    for name, addresses in _queries(run_ids, system_clock(), rounds).items():
        yield f"GET {name}", addresses, QUERY_LIMIT


def _figures(name: str, client: TestClient, addresses: Sequence[str], limit: float | None) -> Iterator[Figure]:
    spent = sorted(_milliseconds(client, address) for address in addresses)
    cuts = quantiles(spent, n=100, method="inclusive")
    yield Figure(f"{name}, p50 of {len(spent)}", cuts[49], "ms")
    yield Figure("  p95", cuts[94], "ms", target=limit)
    yield Figure("  the slowest", spent[-1], "ms")


def _queries(run_ids: Sequence[str], now: int, rounds: int) -> dict[str, list[str]]:
    """Addresses of each kind of query, in no order."""
    dice = random.Random(1)
    combined = [
        _runs(now, *asked) for asked in dice.sample([*product(_JOB_IDS, _STATES, _QUEUES, _TIMES)], 30 * rounds)
    ]

    def deep(**wanted: str) -> list[str]:
        return [
            f"{_API}/runs?{urlencode({**wanted, 'cursor': write_cursor([now - dice.randrange(29 * DAY), 1])})}"
            for _ in range(rounds)
        ]

    def jobs() -> list[str]:
        return [f"job-{int(2_000 * dice.random() ** 3):06d}" for _ in range(rounds)]

    return {
        "/runs, every filter with every other": combined,
        "/runs, far back": deep(),
        "/runs, far back, of a job": deep(job_id="job-000000"),
        "/runs, far back, failed": deep(state="failed"),
        "/runs, far back, of a queue": deep(queue="mail"),
        "/runs of a job": [f"{_API}/runs?job_id={job_id}" for job_id in jobs()],
        "/runs/ID": [f"{_API}/runs/{run_id}" for run_id in dice.sample(run_ids, 5 * rounds)],
        "/runs/ID/explain": [f"{_API}/runs/{run_id}/explain" for run_id in dice.sample(run_ids, rounds)],
        "/jobs": [f"{_API}/jobs?limit=100"] * rounds,
        "/jobs/ID": [f"{_API}/jobs/{job_id}" for job_id in jobs()],
        "/jobs/ID (page)": [f"/jobs/{job_id}" for job_id in jobs()],
    }


def _runs(now: int, job_id: str, states: Sequence[str], queue: str, times: tuple[int, int]) -> str:
    since, until = (format_instant((now - days * DAY) // SECOND * SECOND) if days else "" for days in times)
    named = {"job_id": job_id, "queue": queue, "since": since, "until": until}
    given = [(name, value) for name, value in named.items() if value]
    return f"{_API}/runs?{urlencode([*given, *(('state', state) for state in states)])}"


def _some_runs(database: Database, number: int) -> list[str]:
    """Ids of runs from everywhere, the first one of a failed run."""
    failed = "SELECT run_id FROM runs WHERE state = 'failed' ORDER BY id LIMIT 1"
    others = "SELECT run_id FROM runs TABLESAMPLE SYSTEM (1) REPEATABLE (1) LIMIT :number"
    with database.read() as connection:
        first = connection.execute(text(failed)).scalar_one()
        return [first, *connection.execute(text(others), {"number": number}).scalars()]


def _bytes_a_run(database: Database, runs: int) -> float:
    with database.read() as connection:
        return float(connection.execute(text("SELECT pg_total_relation_size('runs')")).scalar_one()) / runs


def _milliseconds(client: TestClient, path: str) -> float:
    began = time.monotonic()
    answer = client.get(path)
    spent = 1000 * (time.monotonic() - began)
    assert answer.status_code == 200, (path, answer.status_code, answer.text[:2000])
    return spent
