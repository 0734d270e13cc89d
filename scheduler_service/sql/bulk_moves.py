"""The move of waiting runs to other queues, for bulk operations and their undo.

Promises that only a run whose present attempt was never sent changes its queue. Watermarks are kept queue by queue: a
message that lay in the old queue could start the attempt again once its claim is forgotten.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, Text, select, update

from scheduler_service.sql.batch import Batch, judged
from scheduler_service.sql.database import Database
from scheduler_service.sql.tables import WAITS, runs

_MOVES: Final = Batch(run_id=Text, queue=Text)


def move_runs(
    database: Database, connection: Connection, queues: Mapping[str, str], source: str | None = None
) -> tuple[Counter[str], list[tuple[str, str]]]:
    """Move each run to its queue, only from `source` if given; return counts, and ids with the queues they left.

    A dispatch compares the queue, and the leader reads the rows that it refuses: a run lands in its lane there.
    """
    counts, moved = Counter[str](), list[tuple[str, str]]()
    batch = _MOVES.rows(database.dialect)
    named = runs.c.run_id.in_(select(batch.c.run_id))
    # Locked in the order of their ids, as everywhere: what a dispatch holds is waited for, and is pending then.
    locked = select(runs.c.run_id, runs.c.queue, runs.c.recalled_at).where(named, judged(runs.c.run_id, WAITS))
    for chunk in _MOVES.chunks(sorted(queues.items())):
        for run_id, queue, recalled_at in connection.execute(locked.order_by(runs.c.run_id).with_for_update(), chunk):
            if recalled_at is not None:
                counts["sent_before"] += 1
            elif queue != queues[run_id] and source in (None, queue):
                moved.append((run_id, queue))
    waits_there = (runs.c.run_id == batch.c.run_id, judged(batch.c.run_id, WAITS))
    for chunk in _MOVES.chunks([(run_id, queues[run_id]) for run_id, _ in moved]):
        connection.execute(update(runs).where(*waits_there).values(queue=batch.c.queue), chunk)
    counts.update(moved=len(moved), unchanged=len(queues) - len(moved) - counts["sent_before"])
    return +counts, moved
