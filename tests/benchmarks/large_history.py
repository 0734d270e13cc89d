"""A large history in PostgreSQL, made there in a minute: 100,000 jobs, of which 2,000 ran, some much more than others.

Of a month of runs 1 % failed. A few rare kinds lie where a planner does not expect them: `cancelled` only among the
oldest, and the queue `rare` among the oldest too. One job in ten is of the queue `mail`. Leaders counted all the time,
with as many queues as a sample may name.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, insert, text

from itinerary.protocol.batches import batched
from itinerary.protocol.instants import SECOND
from scheduler_service.core.contract.job_json import definition_of
from scheduler_service.core.samples import DELAY_BOUNDS, MOST_QUEUES, QueueSample, Sample, Step
from scheduler_service.sql.database import Database, host_now
from scheduler_service.sql.record_tables import samples
from scheduler_service.sql.samples import row_of
from tests.support.store_bed import a_job

JOBS: Final = 100_000
BUSY_JOBS: Final = 2_000
_AT_ONCE: Final = 500
_JOBS: Final = """
INSERT INTO jobs (job_id, definition, tags, search_text, paused, version, planned_version, effective_from, created_at,
                  updated_at, deleted)
SELECT name, replace(replace(:definition, 'job-name', name), '"default"',
                     CASE WHEN n % 10 = 0 THEN '"mail"' ELSE '"default"' END)::json,
       E'\\n"t' || n % 100 || E'"\\n', name || E'\\n\\npkg.task',
       n % 1000 = 7, 1, 1, now() - interval '60 days', now() - interval '60 days', now() - interval '60 days', false
FROM (SELECT n, 'job-' || lpad(n::text, 6, '0') AS name FROM generate_series(0, :jobs - 1) n) AS numbered
"""
_VERSIONS: Final = """
INSERT INTO job_versions (job_id, version, definition, paused, effective_from, created_at, deleted)
SELECT job_id, version, definition, paused, effective_from, created_at, deleted FROM jobs
"""
# The cube of an even distribution: of all runs one in twelve is of one job, half of them are of 250.
_RUNS: Final = """
INSERT INTO runs (run_id, kind, job_id, job_version, task, args, kwargs, queue, priority, scheduled_at, due_at, state,
                  attempt, pending_at, published_at, started_at, finished_at, worker, term, error, created_at)
SELECT job || '_' || to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'occurrence', job, 1, 'pkg.task',
       '[1, 2]', '{"name": "value"}',
       CASE WHEN n % 1000 = 3 AND n > :runs * 0.9 THEN 'rare' WHEN n / 100 % 10 = 0 THEN 'mail' ELSE 'default' END,
       5, at, at, state, 1,
       CASE WHEN state IN ('skipped', 'missed') THEN NULL ELSE at END,
       CASE WHEN state IN ('skipped', 'missed') THEN NULL ELSE at END,
       CASE WHEN state IN ('skipped', 'missed', 'pending') THEN NULL ELSE at + interval '20 ms' END,
       CASE WHEN state IN ('running', 'pending') THEN NULL ELSE at + interval '20 ms' + n % 900 * interval '1 ms' END,
       'celery@host-' || n % 8, 1,
       CASE WHEN state = 'failed' THEN json_build_object('type', 'Error' || n % 17, 'message', 'no',
           'traceback', repeat('  File "x.py", line 1', 50)) END, at
FROM (SELECT n, now() - (n - 0.5) * :step * interval '1 s' AS at,
             'job-' || lpad(floor(:busy * power((n::bigint * 2654435761 % 4294967296) / 4294967296.0, 3))::text, 6, '0')
                 AS job,
             CASE WHEN n < 200 THEN 'running' WHEN n < 2000 THEN 'pending' WHEN n % 100 = 1 THEN 'failed'
                  WHEN n % 331 = 0 THEN 'missed' WHEN n % 211 = 0 THEN 'skipped'
                  WHEN n % 1009 = 5 AND n > :runs * 0.9 THEN 'cancelled' ELSE 'completed' END AS state
      FROM generate_series(:runs, 1, -1) n) AS made
"""


_CONSTRAINTS: Final = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid IN ('runs'::regclass, 'run_attempts'::regclass, 'attempt_logs'::regclass) AND contype IN ('u', 'f')
OR conrelid = 'runs'::regclass AND contype = 'p'
ORDER BY contype
"""
_INDEXES: Final = """
SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'runs' AND indexname NOT IN ('pk_runs', 'uq_runs_run_id')
"""


def fill(database: Database, runs: int, days: int = 30) -> None:
    """Jobs, their versions, and the last `days` with so many runs."""
    definition = json.dumps(definition_of(a_job("job-name")))
    step = days * 86_400 / runs
    with database.engine.begin() as connection:
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
        connection.execute(text(_JOBS), {"definition": definition, "jobs": JOBS})
        connection.execute(text(_VERSIONS))
        with _indexed_afterwards(connection):
            connection.execute(text(_RUNS), {"runs": runs, "busy": BUSY_JOBS, "step": step})
        for rows in batched(_samples(), _AT_ONCE):
            connection.execute(insert(samples), [*rows])
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text("VACUUM ANALYZE"))


def _samples() -> Iterator[dict[str, Any]]:
    """What leaders would have written down by now."""
    now = host_now()
    for step in Step:
        for place in range(step.kept // step.length):
            at = now - now % step.length - place * step.length
            queues = {f"queue-{number}": _figures(place + number, 2) for number in range(MOST_QUEUES)}
            delays = [(place + number) % 40 for number in range(len(DELAY_BOUNDS) + 1)]
            sample = Sample(at, 1, "1", _figures(place, 2 * MOST_QUEUES), tuple(delays), 8, 0, queues, ("1",))
            yield row_of(step, sample)


def _figures(place: int, ran: int) -> QueueSample:
    return QueueSample(place % 7 * SECOND, place % 5, place % 3, ran, ran, int(place % 11 == 0), int(place % 101 == 0))


@contextmanager
def _indexed_afterwards(connection: Connection) -> Iterator[None]:
    """Sorting once is much sooner done than finding the place of each row in every index."""
    constraints = connection.execute(text(_CONSTRAINTS)).all()
    indexes = connection.execute(text(_INDEXES)).all()
    for table, name, _ in constraints:
        connection.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    for name, _ in indexes:
        connection.exec_driver_sql(f"DROP INDEX {name}")
    connection.exec_driver_sql("TRUNCATE runs")  # what is filled where it was emptied goes past the log (wal_level)
    yield
    for _, made in indexes:
        connection.exec_driver_sql(made)
    for table, name, made in reversed(constraints):
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} {made}")
