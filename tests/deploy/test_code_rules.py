"""The rules that tools hold: directions between packages, lint, types, size."""

import subprocess
import sys

import pytest

from tests.support.processes import REPOSITORY

LONGEST_FILE = 300


def test_the_directions_between_packages_hold() -> None:
    _passes("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache")


def test_the_code_is_free_of_lint() -> None:
    _passes("-m", "ruff", "check", "--no-cache", ".")


def test_the_code_is_formatted() -> None:
    _passes("-m", "ruff", "format", "--check", "--no-cache", ".")


@pytest.mark.slow
def test_the_types_agree(tmp_path_factory: pytest.TempPathFactory) -> None:
    _passes("-m", "mypy", "--cache-dir", str(tmp_path_factory.getbasetemp() / "mypy"))


@pytest.mark.slow
def test_the_types_of_worker_and_client_agree_on_their_oldest_python(tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = str(tmp_path_factory.getbasetemp() / "mypy-oldest")
    _passes("-m", "mypy", "--python-version", "3.10", "--cache-dir", cache, "-p", "itinerary")


def test_no_file_of_the_product_is_long() -> None:
    files = [
        path for folder in ("scheduler_service", "workers", "deploy") for path in REPOSITORY.glob(f"{folder}/**/*.py")
    ]
    long = {str(path): lines for path in files if (lines := len(path.read_text().splitlines())) > LONGEST_FILE}
    assert not long


def _passes(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
