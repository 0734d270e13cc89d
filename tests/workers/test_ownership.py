"""The package `itinerary` beside, under or in place of PyPI's unrelated distribution of that name."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import itinerary
from itinerary import ownership
from tests.support.processes import REPOSITORY, project_env

OURS = Path(itinerary.__file__).parent
THEIRS = '__all__ = ["auto_migrate"]\n\ndef auto_migrate(conn):\n    """Nothing of ours."""\n'

# The environment of a checkout names the folder of the package itself.
WITHOUT = f"""
import runpy, sys
sys.path[:] = [path for path in sys.path if path != {str(REPOSITORY / "workers")!r}]
runpy.run_module("scheduler_service.cli", run_name="__main__")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages that holds the stranger alone."""
    (tmp_path / "itinerary").mkdir()
    (tmp_path / "itinerary" / "__init__.py").write_text(THEIRS)
    info = tmp_path / "itinerary-1.0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: itinerary\nVersion: 1.0.1\n")
    (info / "RECORD").write_text("itinerary/__init__.py,,\nitinerary-1.0.1.dist-info/METADATA,,\n")
    return tmp_path


def run(*argv: str, path: str, cwd: Path = REPOSITORY, **settings: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-P", *argv], project_env(PYTHONPATH=path, **settings)
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True)


def test_this_checkout_owns_its_package(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ownership.ownership_error() is None
    monkeypatch.syspath_prepend(str(site))
    assert importlib.metadata.version("itinerary") == "1.0.1"
    assert ownership.ownership_error() is None, "the stranger is installed, and is not what is imported"


@pytest.mark.slow
def test_a_worker_says_what_overwrote_its_package(site: Path) -> None:
    shutil.copytree(OURS, site / "itinerary", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    ended = run("-m", "itinerary", path=str(site))
    assert ended.returncode == 2
    assert "itinerary: environment: itinerary 1.0.1 is installed over celery-itinerary; run `pip" in ended.stderr
    (site / "itinerary" / "__init__.py").write_text(THEIRS)
    ended = run("-m", "itinerary", path=str(site))
    assert ended.returncode == 2
    assert f"{site}/itinerary/__init__.py is not of celery-itinerary; run `pip uninstall itinerary`" in ended.stderr


@pytest.mark.slow
def test_the_command_line_says_that_its_package_is_another_or_missing(site: Path) -> None:
    ended = run("-m", "scheduler_service.cli", "doctor", path=f"{site}{os.pathsep}{REPOSITORY}")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"itinerary: {site}/itinerary/__init__.py is not of celery-itinerary; run `pip un")
    shutil.rmtree(site / "itinerary")
    ended = run("-c", WITHOUT, "doctor", path=str(REPOSITORY))
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "itinerary: the package `itinerary` is missing; run `pip install celery-itinerary`" in ended.stderr


@pytest.mark.slow
def test_the_doctor_names_the_package(site: Path, tmp_path: Path) -> None:
    shutil.copytree(OURS, site / "itinerary", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    settings = {"ITINERARY_DATA_DIR": str(tmp_path / "data"), "ITINERARY_REDIS_URL": "redis://127.0.0.1:1/0"}
    for path, words in (
        (
            f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'workers'}",
            "ok    package     itinerary-server 0.1.0, ",
        ),
        (f"{site}{os.pathsep}{REPOSITORY}", "FAIL  package     itinerary 1.0.1 is installed over celery-itinerary;"),
    ):
        ended = run("-m", "scheduler_service.cli", "doctor", path=path, cwd=tmp_path, **settings)
        assert words in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("has_its_own", [True, False], ids=["a package workers of its own", "none"])
@pytest.mark.parametrize("statement", ["import workers; workers.attach(app)", "from workers import attach"])
def test_an_app_that_imports_workers_is_told_the_new_name(tmp_path: Path, statement: str, has_its_own: bool) -> None:
    if has_its_own:
        (tmp_path / "workers").mkdir()
        (tmp_path / "workers" / "__init__.py").touch()
    (tmp_path / "shop.py").write_text(f"import celery\napp = celery.Celery('shop')\n{statement}\n")
    ended = run("-m", "itinerary", "--app", "shop:app", path=str(REPOSITORY / "workers"), cwd=tmp_path)
    assert ended.returncode == 2
    assert "cannot load the app shop:app: " in ended.stderr
    assert "; where Itinerary's package is meant, `import workers` is now `import itinerary`" in ended.stderr


def test_the_former_place_of_the_client_says_where_it_is() -> None:
    with pytest.raises(ImportError, match="is now `itinerary`: from itinerary import Client, enqueue_in"):
        import scheduler_service.client  # noqa: F401
