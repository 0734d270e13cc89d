"""How long time takes: expanding schedules, making the index, asking it, and all of that in a running loop.

Beside croniter, cronsim and an index of sorted Python tuples, in the same run. Peers too slow for the whole
work are given a part of it, and their time is scaled up. Work is timed by its best round, latencies by percentiles.
"""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Final

from itinerary.protocol.errors import BadValue
from itinerary.protocol.instants import DAY, HOUR, MINUTE, SECOND
from scheduler_service.core.index.expansion import ScheduleTable, expand_table
from scheduler_service.core.index.snapshot import ScheduledRunIndex, build_snapshot
from scheduler_service.core.schedules.schedule import next_after, parse_schedule
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.time_peers import PlainIndex, croniter_hour, cronsim_hour
from tests.benchmarks.time_work import (
    START,
    allocated,
    best,
    entries_of,
    looped,
    percentiles,
    random_lines,
    schedule_of,
    spent,
    unsorted_runs,
)

MS, US = 1e3, 1e6
JOBS: Final = 10_000
SIZES: Final = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


def figures(asked: Asked) -> Iterator[Figure]:
    """Every figure of the suite, one after another."""
    lines = random_lines(JOBS)
    yield from _expansion(lines)
    yield from _every_minute()
    yield from _build()
    yield from _ask()
    if not asked.quick:
        yield from _matrix()
        yield from _loop()
        yield from _parse()


def _expansion(lines: list[str]) -> Iterator[Figure]:
    table = ScheduleTable.of(entries_of([schedule_of(line) for line in lines]))
    runs = expand_table(table, START, START + HOUR).times.size
    ours = best(lambda: expand_table(table, START, START + HOUR))
    start, part = datetime.fromtimestamp(START // SECOND, UTC), lines[:: JOBS // 100]
    theirs = best(lambda: croniter_hour(part, start), 1) * JOBS / len(part)
    cronsim = best(lambda: cronsim_hour(part, start), 3) * JOBS / len(part)
    name = f"{JOBS:,} distinct crons x 1 h ({runs:,} runs)"
    yield Figure(name, ours * MS, "ms", 5, peer="cronsim", peer_value=cronsim * MS)
    yield Figure("  times as fast as croniter", theirs / ours, "times", 2_000, "higher")
    yield Figure(
        "  made ready once per edit",
        best(lambda: ScheduleTable.of(entries_of([schedule_of(s) for s in lines])), 3) * MS,
        "ms",
    )
    day = best(lambda: expand_table(table, START, START + DAY), 3)
    yield Figure("  the same x 1 day", day * MS, "ms")
    yearly = schedule_of("0 0 29 2 *", "Europe/Berlin")
    yield Figure("the next 29 February of one job", best(lambda: next_after(yearly, START)) * US, "us")


def _every_minute() -> Iterator[Figure]:
    table = ScheduleTable.of(entries_of([schedule_of("* * * * *")] * JOBS))
    ids, index = [f"job{n:07d}" for n in range(JOBS)], ScheduledRunIndex()
    once = best(lambda: index.swap(build_snapshot(table, ids, START, START + HOUR, 1)))
    yield Figure(
        f"{JOBS:,} every-minute jobs x 1 h ({len(index):,} runs), expanded, ordered, swapped", once * MS, "ms", 20
    )
    epoch = index.snapshot
    held = (epoch.times.nbytes + epoch.ordinals.nbytes) / len(index)
    yield Figure("memory of the index", held, "bytes a run", 16)


def _build() -> Iterator[Figure]:
    targets = {1_000_000: 25.0, 100_000: 3.0, 10_000: 0.5}
    for size in SIZES:
        by_job, shuffled = unsorted_runs(size, by_job=True), unsorted_runs(size)
        pairs = [(t, by_job.job_ids[n]) for t, n in zip(by_job.times.tolist(), by_job.ordinals.tolist(), strict=True)]
        peer = best(lambda pairs=pairs: PlainIndex(pairs), 3) * MS  # type: ignore[misc]
        ours = best(by_job.epoch) * MS
        yield Figure(
            f"index from {size:,} unsorted runs", ours, "ms", targets.get(size), peer="sorted()", peer_value=peer
        )
        yield Figure("  the same in no order of jobs either", best(shuffled.epoch) * MS, "ms")


def _ask() -> Iterator[Figure]:
    for size in SIZES:
        index = ScheduledRunIndex(unsorted_runs(size).epoch())
        yield Figure(f"peek in {size:,} runs", looped(index.peek) * US, "us", 0.3)
    index = ScheduledRunIndex(unsorted_runs(1_000_000, DAY).epoch())
    width = 100 * DAY // 1_000_000
    dice = Random(1)
    starts = [START + dice.randrange(DAY - width) for _ in range(20_000)]
    asked = iter(starts * 2)
    seconds = spent(lambda: index.query(at := next(asked), at + width), len(starts))
    plain = PlainIndex([(run.scheduled_at, run.job_id) for run in index])
    asked = iter(starts)
    peer = percentiles(spent(lambda: plain.query(at := next(asked), at + width), len(starts)))
    p50, _, p99 = percentiles(seconds)
    yield Figure(
        "query of 100 runs in 1,000,000, p50", p50 * US, "us", peer="sorted() + bisect", peer_value=peer[0] * US
    )
    yield Figure(
        "query of 100 runs in 1,000,000, p99", p99 * US, "us", 50, peer="sorted() + bisect", peer_value=peer[2] * US
    )


def _matrix() -> Iterator[Figure]:
    for size in SIZES[2:]:
        index = ScheduledRunIndex(unsorted_runs(size, DAY).epoch())
        times = index.snapshot.times
        windows = [(f"1 {name}", START + 6 * HOUR, width) for name, width in (("min", MINUTE), ("h", HOUR))]
        windows.append(("1 day", START, DAY))
        windows += [(f"{k:,} runs", START, int(times[k]) - START) for k in SIZES[:4] if k < size]
        for name, start, width in windows:
            asked = partial(index.query, start, start + width)
            found = f"{len(asked()):,} found, {allocated(asked):,} bytes allocated"
            yield Figure(f"query of {name} in {size:,} runs a day ({found})", looped(asked, 5_000) * US, "us")
    taken = looped(lambda: list(index.query(START, START + DAY // 1_000)), 20)
    yield Figure("1,000 runs taken out as objects", taken * US, "us")


def _loop() -> Iterator[Figure]:
    """Rebuilds of 1,000,000 runs every 30 queries, while a reader asks without a pause."""
    entries = entries_of([schedule_of("* * * * *")] * JOBS)
    ids, index = [entry.job_id for entry in entries], ScheduledRunIndex()
    done, read = threading.Event(), list[float]()

    def reader() -> None:
        dice = Random(2)
        while not done.is_set():
            begun, at = time.perf_counter(), START + dice.randrange(100) * MINUTE
            index.query(at, at + 30 * SECOND)
            read.append(time.perf_counter() - begun)

    rebuilds, queries, thread = list[float](), list[float](), threading.Thread(target=reader)
    thread.start()
    for cycle in range(20):
        now = START + cycle * 30 * SECOND
        rebuilds += spent(lambda: index.swap(build_snapshot(entries, ids, now, now + 100 * MINUTE, cycle)), 1)  # noqa: B023
        for second in range(30):
            queries += spent(lambda: index.query(now + second * SECOND, now + (second + 30) * SECOND), 1)  # noqa: B023
    done.set()
    thread.join()
    for name, seconds in (("rebuild", rebuilds), ("query", queries), ("reader", read)):
        for label, value in zip(("p50", "p95", "p99"), percentiles(seconds), strict=True):
            yield Figure(f"in the loop, {len(index):,} runs of {JOBS:,} jobs: {name} {label}", value * MS, "ms", 100)


def _parse() -> Iterator[Figure]:
    def parse(specs: list[str]) -> None:
        for line in specs:
            parse_schedule({"kind": "cron", "expr": line}, job_id="job", created_at=START)

    alike = random_lines(2_000, 5) * 50
    Random(3).shuffle(alike)
    yield Figure("parse of 100,000 crons, 2,000 of them distinct", best(lambda: parse(alike), 1), "s", 3)
    distinct = random_lines(100_000, 4)
    yield Figure("parse of 100,000 distinct crons", best(lambda: parse(distinct), 1), "s")
    refused = [spent(partial(_refuse, f"0 0 31 {months} *"), 1)[0] for months in ("2", "4,6", "9,11")]
    yield Figure("refusal of a date that never comes", max(refused) * MS, "ms", 50)


def _refuse(line: str) -> None:
    try:
        schedule_of(line)
    except BadValue:
        return
    raise AssertionError(f"{line} was accepted")
