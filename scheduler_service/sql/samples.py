"""Samples in SQL: one row for each step, time and term. A write keeps what the leader counted, and deletes what is old.

Promises that only the present leader writes, and that each read goes by the key. What a release without a figure wrote
reads as 0.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import orjson
from sqlalchemy import delete, select

from itinerary.protocol.instants import Instant
from scheduler_service.core.model import Lease
from scheduler_service.core.samples import QueueSample, Sample, Step
from scheduler_service.ports.samples import QueueFigures, SampleSink, SampleStore, Term
from scheduler_service.sql.database import Database
from scheduler_service.sql.fence import fenced
from scheduler_service.sql.record_tables import leaderships, samples
from scheduler_service.sql.tables import leases

_S: Final = samples.c
_T: Final = leaderships.c
_SHARD: Final = 0


class SqlSampleStore(SampleSink, SampleStore):
    """Samples on SQLite and PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, lease: Lease, new: Sequence[tuple[Step, Sample]]) -> None:
        insert = self._database.dialect.insert(samples)
        new_values = {name: insert.excluded[name] for name in ("version", "figures")}
        put = insert.on_conflict_do_update(index_elements=[_S.step, _S.at, _S.term], set_=new_values)
        with fenced(self._database, lease) as connection:
            connection.execute(put, [row_of(step, sample) for step, sample in new])
            for step, sample in new:
                connection.execute(delete(samples).where(_S.step == step, _S.at < sample.at - step.kept))

    def read(self, step: Step, since: Instant, until: Instant) -> list[Sample]:
        found = select(_S.at, _S.term, _S.version, _S.figures).where(_S.step == step, _S.at >= since, _S.at < until)
        with self._database.read() as connection:
            return [_sample(*row) for row in connection.execute(found.order_by(_S.at, _S.term))]

    def read_queue(self, step: Step, since: Instant, until: Instant, queue: str | None) -> list[QueueFigures]:
        found = select(_S.at, _S.figures).where(_S.step == step, _S.at >= since, _S.at < until)
        with self._database.read() as connection:
            rows = connection.execute(found.order_by(_S.at, _S.term))
            return [QueueFigures(at, _of_queue(orjson.loads(figures), queue)) for at, figures in rows]

    def terms(self, since: Instant, limit: int) -> list[Term]:
        columns = (_T.term, _T.began_at, _T.confirmed_at)
        past = select(*columns).where(_T.shard == _SHARD).order_by(_T.term.desc()).limit(limit)
        present = select(leases.c.term, leases.c.acquired_at).where(leases.c.shard == _SHARD)
        with self._database.read() as connection:
            newest = [Term(*row, None) for row in connection.execute(present)]
            older = [Term(*row) for row in connection.execute(past)]
        ended = (term for term in older if term.confirmed_at is not None and term.confirmed_at >= since)
        return [*newest, *ended][:limit]


def row_of(step: Step, sample: Sample) -> dict[str, Any]:
    """Return the row in which the sample is stored."""
    figures = {
        "total": sample.total,
        "delays": sample.delays,
        "workers": sample.workers,
        "inbox_lag": sample.inbox_lag,
        "queues": sample.queues,
        "worker_versions": sample.worker_versions,
    }
    text = json.dumps(figures, separators=(",", ":"))
    return {"step": step, "at": sample.at, "term": sample.term, "version": sample.version, "figures": text}


def _of_queue(read: dict[str, Any], queue: str | None) -> QueueSample:
    return QueueSample(*(read["total"] if queue is None else read["queues"].get(queue, ())))


def _sample(at: Instant, term: int, version: str, figures: str) -> Sample:
    read = orjson.loads(figures)
    queues = {name: QueueSample(*one) for name, one in read["queues"].items()}
    return Sample(
        at, term, version, QueueSample(*read["total"]), tuple(read["delays"]), read["workers"], read["inbox_lag"],
        queues, tuple(read["worker_versions"]),
    )  # fmt: skip
