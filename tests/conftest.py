"""The servers of a test session: real ones, started when first asked for and stopped at its end.

Each xdist worker has its own. `TEST_REDIS_URL` and `TEST_DATABASE_URL` name running servers to use instead.
"""

import atexit
import fcntl
import gc
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, settings
from sqlalchemy import make_url

from scheduler_service.local.redis_server import find_server
from tests.support.examples import WHOLE_RUN
from tests.support.postgres_server import PostgresServer, create_database, drop_database
from tests.support.processes import PATIENCE
from tests.support.redis_server import RedisServer

# Every commit of SQLite and every command of Redis waits for its file: in memory that takes microseconds, on a disk
# milliseconds. A process that is killed loses nothing there either.
IN_MEMORY = Path("/dev/shm")
ROOM_FOR_FILES = 4 << 30
FEW_EXAMPLES = 30
LONGEST_FIRST = ("replay/", "e2e/", "deploy/test_code_rules", "workers/", "api/")


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end a run as Ctrl-C does: the servers are stopped and their files removed.

    A slow machine makes no property false: hypothesis judges values, not times. The fast part tries fewer of them.
    """
    for number in (signal.SIGTERM, signal.SIGINT):  # in a shell's background SIGINT is ignored, and so in all children
        signal.signal(number, signal.default_int_handler)
    # Hundreds of processes are started: compiling the same modules in each of them would be half of the work.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # redis-py looks its own version up in its package's metadata for every connection.
    redis.utils.get_lib_version = cache(redis.utils.get_lib_version)
    settings.register_profile(
        "any machine",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=FEW_EXAMPLES if "not slow" in config.option.markexpr else WHOLE_RUN,
    )
    settings.load_profile("any machine")
    if IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free >= ROOM_FOR_FILES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))  # where `tmp_path` is


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from what is made here and stays to the end; after that let it come seldom."""
    gc.disable()
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
    try:
        with _compiled_once():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _compiled_once() -> Iterator[None]:
    """In a fresh clone, let the first process compile what it collects; the others wait, then read what it wrote."""
    here = Path(__file__)
    if any(here.parent.glob("api/__pycache__/test_*.pyc")):
        yield
        return
    with here.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread of which the run takes no test: to import some of them takes seconds."""
    chosen: str = config.option.markexpr
    if collection_path.suffix != ".py":
        return None
    if not re.fullmatch(r"not \w+( and not \w+)*", chosen):
        return None
    text = collection_path.read_text("utf-8")
    of_all = re.search(r"^pytestmark = (\[[^]]*\]|.*)", text, re.MULTILINE)
    marks = set(re.findall(r"pytest\.mark\.(\w+)", of_all[1])) if of_all else set()
    return True if marks & set(re.findall(r"not (\w+)", chosen)) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: side by side, none of those is then left to the end."""
    tests = f"{Path(__file__).parent.name}/"

    @cache
    def place(file: str) -> int:
        path = file.removeprefix(tests)
        return next((place for place, start in enumerate(LONGEST_FIRST) if path.startswith(start)), len(LONGEST_FIRST))

    items.sort(key=lambda item: place(item.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Give no app the tasks of other tests' apps: all apps of a process share each task that is not `shared=False`."""
    celery: Any = sys.modules.get("celery._state")
    if celery is not None:
        finalizers = celery._on_app_finalizers
        finalizers -= {one for one in finalizers if one.__module__ != "celery.app.builtins"}


@pytest.fixture(scope="session")
def worker_number() -> int:
    """Which xdist worker this is, from 0; servers named from outside are shared by number."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


@pytest.fixture(scope="session")
def _session_redis(tmp_path_factory: pytest.TempPathFactory, worker_number: int) -> Iterator[str]:
    given = os.environ.get("TEST_REDIS_URL")
    if given:
        yield f"{given.rstrip('/').removesuffix('/0')}/{worker_number}"
        return
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server.url


@pytest.fixture(scope="session")
def _session_valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with RedisServer(tmp_path_factory.mktemp("valkey"), find_server()) as server:
        yield server.url


@pytest.fixture(scope="session")
def _emptied() -> Iterator[Callable[[str], str]]:
    """Empties a database of Redis, by one connection for all tests."""
    clients: dict[str, redis.Redis] = {}

    def emptied(url: str) -> str:
        if url not in clients:
            clients[url] = redis.Redis.from_url(url, socket_timeout=PATIENCE)
        clients[url].flushdb()
        return url

    yield emptied
    for client in clients.values():
        client.close()


@pytest.fixture
def redis_url(_session_redis: str, _emptied: Callable[[str], str]) -> str:
    """An empty database of the session's real Redis."""
    return _emptied(_session_redis)


@pytest.fixture
def valkey_url(_session_valkey: str, _emptied: Callable[[str], str]) -> str:
    """An empty database of the server that `itinerary up` embeds."""
    return _emptied(_session_valkey)


@pytest.fixture(params=["redis", "valkey"])
def each_redis_url(request: pytest.FixtureRequest) -> str:
    """The same test on Redis and on Valkey."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A running Redis of this test's own, to be killed, frozen and started again."""
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def _session_postgres(worker_number: int) -> Iterator[str]:
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    with PostgresServer() as server:
        yield server.admin_url.render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def _postgres_template(_session_postgres: str, worker_number: int) -> str:
    from scheduler_service.sql.migrations import upgrade

    name = f"itinerary_template_{worker_number}"
    upgrade(create_database(make_url(_session_postgres), name))
    return name


@pytest.fixture
def postgres_url(_session_postgres: str, _postgres_template: str, worker_number: int) -> Iterator[str]:
    """A migrated PostgreSQL database of this test's own."""
    admin = make_url(_session_postgres)
    url = create_database(admin, f"itinerary_test_{worker_number}", _postgres_template)
    yield url
    drop_database(admin, url)


@pytest.fixture
def empty_postgres_url(_session_postgres: str, worker_number: int) -> Iterator[str]:
    """A PostgreSQL database without a table."""
    admin = make_url(_session_postgres)
    url = create_database(admin, f"itinerary_empty_{worker_number}")
    yield url
    drop_database(admin, url)


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from scheduler_service.sql.migrations import upgrade
    from tests.support.compiled_once import share_compiled_statements

    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    upgrade(f"sqlite:///{path}")
    share_compiled_statements()
    return path


@pytest.fixture
def sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated SQLite database file of this test's own."""
    path = tmp_path / "itinerary.db"
    for part in _sqlite_template.parent.glob("template.db*"):
        shutil.copy(part, path.with_name(part.name.replace("template.db", path.name)))
    return f"sqlite:///{path}"


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """A SQLite database without a table; its file is made when it is first opened."""
    return f"sqlite:///{tmp_path / 'empty.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """The same test on a migrated SQLite and a migrated PostgreSQL database."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_database_url(request: pytest.FixtureRequest) -> str:
    """The same test on both databases, without a table."""
    url: str = request.getfixturevalue(f"empty_{request.param}_url")
    return url
