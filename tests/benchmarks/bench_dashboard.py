"""How long the dashboard's pages take over a large history: 100,000 jobs, 1,000,000 runs, PostgreSQL."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

from fastapi.testclient import TestClient
from sqlalchemy import text

from scheduler_service.adapters.database import Database
from scheduler_service.adapters.migrations import upgrade
from scheduler_service.api.app import build_app
from scheduler_service.api.context import ApiContext, system_clock
from scheduler_service.api.leader_line import LeaderLine
from scheduler_service.bootstrap import open_stores
from scheduler_service.config import Settings
from scheduler_service.core.instants import HOUR
from scheduler_service.core.job_body import definition_of
from tests.benchmarks.figures import Asked, Figure
from tests.support.answering_leader import AnsweringLeader
from tests.support.postgres_server import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.store_bed import a_job

JOBS, RUNS = 100_000, 1_000_000
LIMIT = 300
ROUNDS = 7
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs, searched": "/jobs?q=job-09999",
    "jobs, a tag": "/jobs?tag=t77",
    "jobs, paused": "/jobs?paused=true",
    "a job with 200,000 runs": "/jobs/job-000000",
    "a job with few runs": "/jobs/job-050001",
    "runs": "/runs",
    "runs, failed": "/runs?state=failed",
    "runs, skipped of a time": "/runs?state=skipped&until={old}",
    "runs of a job": "/runs?job_id=job-000000",
    "failed runs of a job": "/runs?job_id=job-000000&state=failed",
    "a run": "/runs/{run}",
    "failures of 7 days": "/failures?within=7d",
    "workers": "/workers",
    "audit": "/audit",
}
_JOBS = """
INSERT INTO jobs (job_id, definition, tags, search_text, paused, version, planned_version, effective_from, created_at,
                  updated_at, deleted)
SELECT name, replace(:definition, 'job-name', name)::json, E'\\n"t' || n % 100 || E'"\\n', name || E'\\n\\npkg.task',
       n % 1000 = 7, 1, 1, now() - interval '8 days', now() - interval '8 days', now() - interval '8 days', false
FROM (SELECT n, 'job-' || lpad(n::text, 6, '0') AS name FROM generate_series(0, :jobs - 1) n) AS numbered
"""
_VERSIONS = """
INSERT INTO job_versions (job_id, version, definition, paused, effective_from, created_at, deleted)
SELECT job_id, version, definition, paused, effective_from, created_at, deleted FROM jobs
"""
_RUNS = """
INSERT INTO runs (run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, scheduled_at, due_at, state,
                  attempt, pending_at, published_at, started_at, finished_at, worker, term, error, created_at)
SELECT job || '_' || to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'occurrence', job, 1, 'pkg.task',
       '[1, 2]', '{"name": "value"}', 'default', 5, at, at, state, 1, at, at, at + interval '20 ms',
       CASE WHEN state IN ('running', 'pending') THEN NULL ELSE at + interval '20 ms' + n % 900 * interval '1 ms' END,
       'celery@host-' || n % 8, 1,
       CASE WHEN state = 'failed' THEN json_build_object('type', 'Error' || n % 17, 'message', 'no',
           'traceback', repeat('  File "x.py", line 1', 50)) END, at
FROM (SELECT n, now() - n * interval '0.6 s' AS at,
             CASE WHEN n % 5 = 0 THEN 'job-000000' ELSE 'job-' || lpad((n % :jobs)::text, 6, '0') END AS job,
             CASE WHEN n < 200 THEN 'running' WHEN n < 2000 THEN 'pending' WHEN n % 100 = 1 THEN 'failed'
                  WHEN n % 331 = 0 THEN 'missed' WHEN n % 211 = 0 THEN 'skipped' ELSE 'completed' END AS state
      FROM generate_series(1, :runs) n) AS made
"""


def figures(asked: Asked) -> Iterator[Figure]:
    """The median of each page, in milliseconds, the leader's answer included."""
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as folder, PostgresServer() as server:
        url = server.create_database()
        upgrade(url)
        with RedisServer(Path(folder)) as redis, closing(Database(url, pool_size=1)) as database:
            run_id = fill(database)
            settings = Settings(database_url=url, redis_url=redis.url)
            with open_stores(settings) as stores, AnsweringLeader(redis.url):
                stores.leases.acquire(0, "bench", HOUR)
                context = ApiContext(settings, stores, LeaderLine(stores.inbox, system_clock), system_clock)
                with TestClient(build_app(context), base_url="http://127.0.0.1") as client:
                    for name, path in PAGES.items():
                        address = path.format(run=run_id, old="2020-01-01 00:00")
                        yield Figure(f"page: {name}", _milliseconds(client, address), "ms", target=LIMIT)


def fill(database: Database) -> str:
    """Jobs, their versions, and a week of runs; returns the id of one that failed."""
    definition = json.dumps(definition_of(a_job("job-name")))
    with database.engine.begin() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(_JOBS), {"definition": definition, "jobs": JOBS})
        connection.execute(text(_VERSIONS))
        connection.execute(text(_RUNS), {"runs": RUNS, "jobs": JOBS})
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))
        failed = text("SELECT run_id FROM runs WHERE state = 'failed' ORDER BY id LIMIT 1")
        return str(connection.execute(failed).scalar_one())


def _milliseconds(client: TestClient, path: str) -> float:
    spent = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        answer = client.get(path)
        spent.append(1000 * (time.monotonic() - began))
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:2000])
    return median(spent)
