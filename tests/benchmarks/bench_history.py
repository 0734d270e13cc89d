"""How what a leader and the lists read grows with the finished runs: pages of PostgreSQL at 0.1, 5 and 50 millions.

A statement is flat where ten times the history costs it a page or two for each row that it finds, which is one more
level of an index. The smallest history does not fill the bounds of lists and counts, so the largest is held against the
one before. The fill takes most of the time: 23 s of CPU a million, and 0.9 GB.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from scheduler_service.sql.database import Database
from scheduler_service.sql.migrations import upgrade
from tests.benchmarks.figures import Asked, Figure
from tests.benchmarks.history_work import Pages, counting, leader_calls, list_calls
from tests.benchmarks.large_history import fill
from tests.support.postgres_server import PostgresServer
from tests.support.store_bed import sql_bed

SIZES: Final = (100_000, 5_000_000, 50_000_000)
# A level more of each index for each of fifty rows; what scans history reads tens of thousands of pages more.
FLAT: Final = (1.5, 200)


def figures(asked: Asked) -> Iterator[Figure]:
    """Pages that each of it reads, beside those at the history before."""
    sizes = (20_000, 40_000) if asked.quick else SIZES
    with PostgresServer() as server:
        before: Mapping[str, Pages] = {}
        for size in sizes:
            url = server.create_database()
            upgrade(url)
            asked.say(f"  filling in {size:,} runs")
            with closing(Database(url, pool_size=1)) as database:
                fill(database, size)
            found = measured(url)
            for name, pages in found.items():
                least = before[name].number if before else None
                target = FLAT[0] * (least or 0) + FLAT[1] if size == SIZES[-1] else None
                asked.say(f"    {name}: {pages.number} pages, {pages.milliseconds:.1f} ms")
                yield Figure(f"{name}, {size:,} runs", pages.number, "pages", target=target,
                             peer="the history before" if before else None, peer_value=least)  # fmt: skip
            before = found


def measured(url: str) -> dict[str, Pages]:
    """What each call of a leader and each list reads in this database."""
    found: dict[str, Pages] = {}
    with sql_bed(url) as bed:
        lease = bed.lead()
        for name, call in {**list_calls(bed, lease.now), **leader_calls(bed, lease)}.items():
            with counting() as pages:
                call()
            found[name] = pages
    return found
