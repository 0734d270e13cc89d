"""Releases of Celery, kombu or redis-py with which no worker can run: it does not start, and says what to install."""

import sys
from pathlib import Path

import celery
import kombu
import pytest
import redis

from itinerary.worker import releases
from itinerary.worker.releases import unfit_releases
from tests.support.processes import Child, project_env


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    for module, version in zip((celery, kombu, redis), request.param, strict=True):
        monkeypatch.setattr(module, "__version__", version)


@pytest.mark.parametrize(
    ("installed", "sentence"),
    [
        (("5.3.6", "5.3.7", "4.6.0"), "Celery 5.3.6 is installed; install 'celery>=5.4,<6'"),
        (("6.0.0", "6.0.0", "8.1.0"), "Celery 6.0.0 is installed; install 'celery>=5.4,<6'"),
        (("5.4.0", "5.4.2", "4.6.0"), "redis-py 4.6.0 is installed; install 'redis>=5'"),
        (("5.4.0", "5.4.2", "3.5.3"), "redis-py 3.5.3 is installed; install 'redis>=5'"),
        (("5.6.2", "5.7.0", "5.2.1"), "install 'redis>=6.4' or 'kombu[redis]>=5.4,<5.7'"),
        (("5.4.0", "5.7.0", "5.2.1"), "kombu 5.7.0 is installed with redis-py 5.2.1"),
        (("5.7.0", "5.7.1rc1", "6.3.0"), "kombu 5.7.1rc1 is installed with redis-py 6.3.0"),
    ],
    indirect=["installed"],
)
@pytest.mark.usefixtures("installed")
def test_releases_that_cannot_run_are_named_with_what_to_install(sentence: str) -> None:
    assert sentence in str(unfit_releases(broker_is_redis=True))


@pytest.mark.parametrize(
    "installed",
    [
        ("5.4.0", "5.4.2", "5.2.1"),
        ("5.5.3", "5.5.4", "5.0.0"),
        ("5.6.2", "5.6.2", "5.2.1"),
        ("5.7.0", "5.7.0", "6.4.0"),
        ("5.7.0", "5.7.0", "8.1.0"),
        ("5.10.1", "5.10.0", "10.0.0"),
    ],
    indirect=True,
)
@pytest.mark.usefixtures("installed")
def test_releases_that_run_are_left_alone() -> None:
    assert unfit_releases(broker_is_redis=True) is None


@pytest.mark.parametrize("installed", [("5.6.2", "5.7.0", "5.2.1")], indirect=True)
@pytest.mark.usefixtures("installed")
def test_kombu_and_redis_py_do_not_meet_where_the_broker_is_another() -> None:
    assert unfit_releases(broker_is_redis=False) is None


def test_kombu_without_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "find_spec", lambda name: None)
    assert "install 'kombu[redis]>=5.4,<6'" in str(unfit_releases(broker_is_redis=True))
    assert unfit_releases(broker_is_redis=False) is None


FAKED = """
import celery, kombu, redis
redis.__version__ = "5.2.1"
import itinerary
app = celery.Celery("faked", broker="redis://127.0.0.1:1/0")
itinerary.attach(app)
"""


@pytest.mark.slow
def test_such_a_worker_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "faked.py").write_text(FAKED)
    env = project_env()
    env["PYTHONPATH"] += f":{tmp_path}"
    with Child([sys.executable, "-m", "celery", "-A", "faked", "worker", "-c", "1"], env=env) as child:
        child.wait_for_line("itinerary: kombu")
        assert child.wait() == 1
    assert "install 'redis>=6.4' or" in child.output
