"""enqueue_in for asyncio: each kind of connection, in the transaction that its program has open on PostgreSQL."""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
from psycopg.rows import class_row
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)

from itinerary import (
    BadValue,
    BadValues,
    Conflict,
    enqueue_in,
    enqueue_in_async,
    enqueue_many_in,
    enqueue_many_in_async,
)
from itinerary.protocol.instants import HOUR, from_datetime
from tests.support.app_connections import by_psycopg, plain, tasks
from tests.support.store_bed import StoreBed

pytestmark = pytest.mark.postgres
AT = datetime(2099, 1, 1, tzinfo=UTC)
FULL: dict[str, Any] = {
    "args": [1, 1.5, "ä"], "kwargs": {"note": "50 % :off $1"}, "run_at": AT, "queue": "mail", "priority": 2,
    "timeout": timedelta(hours=1), "retry": {"max_attempts": 3}, "start_within": "1h", "headers": {"tenant": "ä"},
    "idempotency_key": "one", "limits": ["api"], "fair_key": "ä",
}  # fmt: skip
OVER: dict[str, Any] = {"task": "t", "run_at": "2020-01-01T00:00:00Z", "start_within": "1h"}


@dataclass
class Mine:
    """A connection or session of the program in a transaction, and how it ends that."""

    given: Any
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]


Way = Callable[[str], AbstractAsyncContextManager[Mine]]


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Mine]:
    connection = await asyncpg.connect(url)
    # As programs do that give and take JSON as objects.
    await connection.set_type_codec("json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    transaction = connection.transaction()
    await transaction.start()
    yield Mine(connection, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def by_a_pool_of_asyncpg(url: str) -> AsyncIterator[Mine]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Mine(connection, transaction.commit, transaction.rollback)


@asynccontextmanager
async def by_psycopg_async(url: str) -> AsyncIterator[Mine]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=class_row(dict)) as connection:
        yield Mine(connection, connection.commit, connection.rollback)


def by_a_connection_of_sqlalchemy(driver: str) -> Way:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Mine]:
        engine = create_async_engine(make_url(url).set(drivername=f"postgresql+{driver}"))
        async with engine.connect() as connection:
            yield Mine(connection, connection.commit, connection.rollback)
        await engine.dispose()

    return opened


@asynccontextmanager
async def by_a_session(url: str) -> AsyncIterator[Mine]:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
    async with AsyncSession(engine) as session:
        yield Mine(session, session.commit, session.rollback)
    await engine.dispose()


@asynccontextmanager
async def by_a_scoped_session(url: str) -> AsyncIterator[Mine]:
    engine = create_async_engine(make_url(url).set(drivername="postgresql+psycopg"))
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    yield Mine(session, session.commit, session.rollback)
    await session.remove()
    await engine.dispose()


EACH: dict[str, Way] = {
    "asyncpg": by_asyncpg,
    "a pool's connection of asyncpg": by_a_pool_of_asyncpg,
    "psycopg": by_psycopg_async,
    "SQLAlchemy with asyncpg": by_a_connection_of_sqlalchemy("asyncpg"),
    "SQLAlchemy with psycopg": by_a_connection_of_sqlalchemy("psycopg_async"),
    "session": by_a_session,
    "scoped session": by_a_scoped_session,
}
each_way = pytest.mark.parametrize("opened", EACH.values(), ids=EACH)


@pytest.fixture
def url(emptied_postgres_url: str) -> str:
    return plain(emptied_postgres_url)


@each_way
def test_what_commits_is_there_as_it_was_asked_for(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    async def program() -> tuple[str, list[str]]:
        async with opened(url) as mine:
            alone = await enqueue_in_async(mine.given, "shop.send", **FULL)
            other = {"task": "b", **FULL, "idempotency_key": "two"}
            listed = await enqueue_many_in_async(mine.given, [{"task": "a"}, {"task": "shop.send", **FULL}, other])
            assert tasks(postgres_stores) == []
            await mine.commit()
        return alone, listed

    alone, listed = asyncio.run(program())
    assert tasks(postgres_stores) == ["a", "b", "shop.send"]
    assert listed[1] == alone
    for run_id in (alone, listed[2]):
        run = postgres_stores.runs.get(run_id)
        assert (run.args, run.kwargs, run.headers) == ([1, 1.5, "ä"], {"note": "50 % :off $1"}, {"tenant": "ä"})
        assert (run.queue, run.priority, run.timeout, run.retry.max_attempts) == ("mail", 2, HOUR, 3)
        assert run.due_at == run.scheduled_at == from_datetime(AT)
        assert run.start_by == run.due_at + HOUR
        assert (run.limits, run.lane) == ((("api", None),), "key:ä")


@each_way
def test_what_is_refused_or_rolled_back_never_was(url: str, postgres_stores: StoreBed, opened: Way) -> None:
    async def program() -> None:
        async with opened(url) as mine:
            with pytest.raises(BadValues, match="priority"):
                await enqueue_in_async(mine.given, "t", priority=11)
            with pytest.raises(BadValues, match="run_at plus start_within is over"):
                await enqueue_in_async(mine.given, **OVER)
            with pytest.raises(BadValues, match=r"^runs\.1\.run_at: .* start_within is over"):
                await enqueue_many_in_async(mine.given, [{"task": "a"}, OVER])
            await enqueue_in_async(mine.given, "t", idempotency_key="one")
            with pytest.raises(Conflict, match="another request"):
                await enqueue_in_async(mine.given, "t", priority=3, idempotency_key="one")
            await mine.rollback()

    asyncio.run(program())
    assert tasks(postgres_stores) == []


def test_a_session_that_runs_blocking_code_takes_every_field_with_asyncpg(url: str, postgres_stores: StoreBed) -> None:
    async def program() -> str:
        async with by_a_session(url) as mine:
            run_id: str = await mine.given.run_sync(lambda session: enqueue_in(session, "shop.send", **FULL))
            await mine.commit()
            return run_id

    run = postgres_stores.runs.get(asyncio.run(program()))
    assert (run.timeout, run.due_at) == (HOUR, from_datetime(AT))


def test_anything_but_a_connection_of_asyncio_to_postgresql_is_refused(url: str) -> None:
    async def program() -> None:
        engine = create_async_engine(make_url(url).set(drivername="postgresql+asyncpg"))
        with by_psycopg(url) as blocking:
            async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
                for wrong in (pool, engine, blocking, url, None):
                    with pytest.raises(BadValue, match="give a connection of asyncpg, an AsyncConnection of psycopg"):
                        await enqueue_in_async(wrong, "t")
        async with engine.connect() as connection:
            with pytest.raises(BadValue, match="schema"):
                await enqueue_in_async(connection, "t", schema='a"; DROP TABLE runs')
            with pytest.raises(BadValue, match="in async code use enqueue_in_async"):
                enqueue_in(connection, "t")
        await engine.dispose()

    asyncio.run(program())


def test_both_have_the_arguments_of_the_blocking_ones() -> None:
    for ours, theirs in ((enqueue_in_async, enqueue_in), (enqueue_many_in_async, enqueue_many_in)):
        assert inspect.iscoroutinefunction(ours)
        assert inspect.signature(ours) == inspect.signature(theirs)
