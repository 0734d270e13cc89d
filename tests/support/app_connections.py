"""The connections and sessions that programs give to `enqueue_in`, each opened on one database."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.rows import class_row, dict_row
from sqlalchemy import Connection, create_engine, make_url
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from itinerary.client import run_inserts
from scheduler_service.ports.stores import RunFilter
from tests.support.store_bed import StoreBed

Opened = Any
Way = Callable[[str], Any]


def plain(url: str) -> str:
    """The URL as drivers take it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@contextmanager
def an_earlier_clock(hours: int) -> Iterator[None]:
    """`enqueue_in` reads a clock of the database that is so many hours behind."""
    with pytest.MonkeyPatch.context() as patch:
        now = "clock_timestamp()"
        patch.setattr(run_inserts, "_CLOCK", run_inserts._CLOCK.replace(now, f"{now} - interval '{hours} hours'"))
        yield


def tasks(stores: StoreBed) -> list[str]:
    """The tasks of all runs."""
    return sorted(run.task for run in stores.runs.list(RunFilter(), 100, None).items)


@contextmanager
def by_psycopg(url: str) -> Iterator[Opened]:
    with closing(psycopg.connect(url)) as connection:
        yield connection


@contextmanager
def by_psycopg_with_rows_as_dicts(url: str) -> Iterator[Opened]:
    with closing(psycopg.connect(url, row_factory=dict_row)) as connection:
        yield connection


@contextmanager
def by_psycopg_with_rows_as_objects(url: str) -> Iterator[Opened]:
    with closing(psycopg.connect(url, row_factory=class_row(SimpleNamespace))) as connection:
        yield connection


@contextmanager
def by_sqlalchemy(url: str) -> Iterator[Connection]:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@contextmanager
def by_a_session(url: str) -> Iterator[Session]:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with Session(engine) as session:
        yield session
    engine.dispose()


@contextmanager
def by_a_scoped_session(url: str) -> Iterator[Any]:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    session = scoped_session(sessionmaker(engine))
    yield session
    session.remove()
    engine.dispose()


EACH = [
    by_psycopg,
    by_psycopg_with_rows_as_dicts,
    by_psycopg_with_rows_as_objects,
    by_sqlalchemy,
    by_a_session,
    by_a_scoped_session,
]
each_way = pytest.mark.parametrize("opened", EACH, ids=lambda way: way.__name__)
