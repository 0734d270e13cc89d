"""Releases that are not supported: a worker with them does not start, and one sentence says why."""

import zipfile
from pathlib import Path

import pytest

from tests.support.fresh_environment import (
    CannotInstall,
    Environment,
    built_release,
    interpreter_of,
    skip_without_a_registry,
    wheels_in,
)
from tests.support.matrix import pythons
from tests.support.processes import Child, project_env
from tests.workers.matrix.worker import copy_app

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.matrix]

_OLD_CELERY, _OLD_REDIS = "matrix-refused-celery-5.3.lock", "matrix-refused-redis-4.lock"


@pytest.fixture
def environment(tmp_path: Path, request: pytest.FixtureRequest) -> Environment:
    """Of a lock and a Python, without our wheel."""
    lock, python = request.param
    interpreter = interpreter_of(python)
    if interpreter is None:
        pytest.skip(f"there is no Python {python} on this machine")
    made = Environment(tmp_path / "env")
    try:
        made.build(interpreter, lock)
    except CannotInstall as exc:
        skip_without_a_registry(exc)
    return made


def refusal(environment: Environment, folder: Path, **settings: str) -> str:
    """What a worker prints that does not start."""
    copy_app(folder)
    env = project_env(SHOP_REDIS="redis://127.0.0.1:9", SHOP_QUEUE="none", TRUTH=str(folder / "truth"))
    del env["PYTHONPATH"]
    worker = [environment.python, "-m", "celery", "-A", "shop", "worker", "-c", "1"]
    with Child(worker, env=env | settings, cwd=folder) as child:
        assert child.wait() != 0
    return child.output.strip()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ((_OLD_CELERY, pythons()[0]), "itinerary: Celery 5.3.6 is installed; install 'celery>=5.4,<6'"),
        ((_OLD_REDIS, pythons()[0]), "itinerary: redis-py 4.6.0 is installed; install 'redis>=5'"),
    ],
    ids=["Celery 5.3", "redis-py 4"],
    indirect=["environment"],
)
def test_a_worker_with_other_releases_does_not_start(
    environment: Environment, sentence: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wheel = wheels_in(built_release(tmp_path_factory)).small
    with pytest.raises(CannotInstall):  # nothing that an installer does by itself
        environment.install_wheel(wheel)
    environment.install_wheel(wheel, alone=True)
    said = refusal(environment, tmp_path)
    assert said.splitlines()[-1] == sentence
    assert "Traceback" not in said


@pytest.mark.parametrize("environment", [(_OLD_CELERY, "3.9")], ids=["Python 3.9"], indirect=True)
def test_an_older_python_is_refused_by_installers_and_by_the_package(
    environment: Environment, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wheel = wheels_in(built_release(tmp_path_factory)).small
    with pytest.raises(CannotInstall, match=r">=\s*3\.10"):
        environment.install_wheel(wheel, alone=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    said = refusal(environment, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert said.splitlines()[-1].startswith("ImportError: celery-itinerary needs Python 3.10 or later; this is 3.9.")
