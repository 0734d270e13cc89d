"""Samples of a day as a busy installation leaves them: with a peak, a queue that falls behind, and a gap."""

import math

from sqlalchemy import insert

from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND, Instant
from scheduler_service.core.samples import DELAY_BOUNDS, QueueSample, Sample, Step, in_steps, total_of
from scheduler_service.sql.database import Database
from scheduler_service.sql.record_tables import samples
from scheduler_service.sql.samples import row_of

QUEUES = ("default", "mails", "reports", "billing", "imports", "thumbnails", "audit")


def keep_sample(database: Database, at: Instant, completed: int) -> None:
    """Write one more minute."""
    new = QueueSample(completed=completed)
    delays = (0,) * (len(DELAY_BOUNDS) + 1)
    with database.write() as connection:
        one = Sample(at - at % MINUTE, 1, "0.1.0", new, delays, 3, 0, {"default": new})
        connection.execute(insert(samples), [row_of(Step.MINUTE, one)])


def keep_samples(database: Database, now: Instant, days: int = 2) -> None:
    """Write them as leaders of the terms -1 and 0 would have, up to a minute ago."""
    now -= now % MINUTE
    minutes = [_minute(at, now) for at in range(now - days * DAY, now, MINUTE) if not _is_gap(at, now)]
    tens = in_steps(minutes, Step.TEN_MINUTES.length).values()
    rows = [row_of(Step.MINUTE, one) for one in minutes] + [row_of(Step.TEN_MINUTES, one) for one in tens]
    with database.write() as connection:
        connection.execute(insert(samples), rows)


def _is_gap(at: Instant, now: Instant) -> bool:
    return now - 2 * HOUR <= at < now - 2 * HOUR + 7 * MINUTE


def _minute(at: Instant, now: Instant) -> Sample:
    hours = (now - at) / HOUR
    wave = 1 + math.sin(hours * 2) * 0.5
    behind = max(0.0, 90 - abs(hours - 1) * 180)
    queues = {
        name: QueueSample(
            round(behind * SECOND) if name == "mails" else 0, int(40 * wave) // (place + 1), 8 // (place + 1),
            int(120 * wave) // (place + 1), int(118 * wave) // (place + 1), int(3 * wave) if name == "mails" else 0,
        )
        for place, name in enumerate(QUEUES)
    }  # fmt: skip
    delays = [0] * (len(DELAY_BOUNDS) + 1)
    delays[2], delays[4], delays[6 + (behind > 0)] = int(200 * wave), 40, 4
    old = hours > 2
    return Sample(
        at, -1 if old else 0, "0.0.9" if old else "0.1.0", total_of(queues), tuple(delays), 3, 0, queues,
        ("0.0.9",) if hours > 1.5 else ("0.0.9", "0.1.0"),
    )  # fmt: skip
