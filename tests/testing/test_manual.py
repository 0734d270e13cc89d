"""The page on testing: each of its programs is put into a folder of its own and run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import MANUAL, project_env

pytestmark = pytest.mark.slow  # whole processes

PAGE = (MANUAL / "testing.md").read_text("utf-8")
SETTINGS = """
SECRET_KEY = "x"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
"""
MODELS = """
from django.db import models


class Order(models.Model):
    number = models.IntegerField()
    invoiced = models.BooleanField(default=False)
"""
CELERY = """
from celery import Celery

app = Celery("project", broker="redis://127.0.0.1:1/0")
app.autodiscover_tasks()
"""


def write_programs(heading: str, folder: Path) -> list[str]:
    """Write the programs below a heading of the page to the files that they name."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(r"^```python\n# (\S+)\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    for name, text in found:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return [name for name, _ in found]


def run(folder: Path, *words: str) -> str:
    env = project_env(PYTHONPATH=f"{project_env()['PYTHONPATH']}:{folder}")
    ended = subprocess.run(
        [sys.executable, "-m", *words], env=env, cwd=folder, capture_output=True, text=True, check=False
    )
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    return said


def test_the_plain_programs_tests_pass(tmp_path: Path) -> None:
    assert write_programs("A plain program", tmp_path) == ["shop.py", "conftest.py", "test_shop.py"]
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert "3 passed" in run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis")


def test_the_django_projects_tests_pass(tmp_path: Path) -> None:
    for name, text in (("project/settings.py", SETTINGS), ("project/celery.py", CELERY), ("shop/models.py", MODELS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for package in ("project", "shop"):
        (tmp_path / package / "__init__.py").touch()
    assert write_programs("Django", tmp_path) == ["shop/orders.py", "shop/tasks.py", "shop/tests.py"]
    assert re.search(r"Ran 1 test in .*\n\nOK", run(tmp_path, "django", "test", "--settings", "project.settings"))
