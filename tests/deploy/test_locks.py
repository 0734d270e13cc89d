"""The locks and the two commands' program: what a fresh machine relies on."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from itinerary import version as small
from scheduler_service import version
from tests.support.matrix import COLUMNS, POOLS, celery_releases, pythons
from tests.support.processes import MANUAL, REPOSITORY

DEPLOY = REPOSITORY / "deploy"
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-otel.lock", "requirements-local.lock")
MATRIX = (
    "release.lock", "requirements-worker.lock", "matrix-django-4.2.lock", "matrix-go.lock",
    "matrix-refused-celery-5.3.lock", "matrix-refused-redis-4.lock",
    *dict.fromkeys(column.lock for column in COLUMNS),
)  # fmt: skip
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
SMALL = tomllib.loads((REPOSITORY / "workers" / "pyproject.toml").read_text())
PIN = re.compile(r"(?m)^([A-Za-z0-9._-]+)==(\S+)")


def pins(lock: str) -> set[tuple[str, str]]:
    return {(_canonical(name), version) for name, version in PIN.findall((DEPLOY / lock).read_text())}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", [*LOCKS, *MATRIX])
def test_a_lock_names_no_registry_and_no_file_of_this_machine(lock: str) -> None:
    text = (DEPLOY / lock).read_text()
    assert not re.search(r"://|index-url|find-links| @ |^-", text, re.MULTILINE)


@pytest.mark.parametrize("lock", [*LOCKS, *MATRIX])
def test_every_pin_of_a_lock_has_a_hash(lock: str) -> None:
    entries = re.split(r"(?m)^(?=\S)", (DEPLOY / lock).read_text())[1:]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("lock", [*LOCKS, *MATRIX])
def test_a_lock_names_no_package_of_ours(lock: str) -> None:
    """Somebody else's package of that name would be fetched: a folder in a lock is read as a name."""
    ours = {_canonical(project["project"]["name"]) for project in (PROJECT, SMALL)}
    assert not {name for name, _ in pins(lock)} & {*ours, "itinerary", "workers"}
    lines = (DEPLOY / lock).read_text().splitlines()
    assert all("==" in line for line in lines if not line.startswith((" ", "#")))


def test_the_lock_of_npm_names_no_registry_and_has_every_hash() -> None:
    packages = json.loads((REPOSITORY / "tests" / "e2e" / "typescript" / "package-lock.json").read_text())["packages"]
    locked = [package for place, package in packages.items() if place]
    assert locked
    assert not [package for package in locked if "resolved" in package or "integrity" not in package]


def test_every_declared_dependency_is_locked_within_its_bounds() -> None:
    declared = [*PROJECT["project"]["dependencies"], *SMALL["project"]["dependencies"]]
    assert f"{SMALL['project']['name']}=={SMALL['project']['version']}" in declared
    for wanted in map(Requirement, declared):
        if wanted.name == SMALL["project"]["name"]:
            continue
        versions = [version for name, version in pins(LOCKS[0]) if name == _canonical(wanted.name)]
        assert versions, wanted
        assert all(wanted.specifier.contains(version) for version in versions), wanted


def test_the_test_tools_are_locked_too() -> None:
    names = {name for name, _ in pins(LOCKS[1])}
    wanted = {_canonical(Requirement(text).name) for text in PROJECT["dependency-groups"]["test"]}
    assert wanted <= names


def test_what_is_tested_is_what_runs() -> None:
    assert pins(LOCKS[0]) <= pins(LOCKS[2]) <= pins(LOCKS[1])
    assert pins(LOCKS[0]) <= pins(LOCKS[3]) <= pins(LOCKS[1])


def test_the_embedded_redis_server_is_an_extra_that_only_one_machine_needs() -> None:
    (server,) = (Requirement(text).name for text in PROJECT["project"]["optional-dependencies"]["local"])
    assert server in dict(pins("requirements-local.lock"))
    assert not [lock for lock in ("requirements.lock", "requirements-otel.lock") if server in dict(pins(lock))]
    assert "ARG LOCK=requirements.lock\n" in (DEPLOY / "Dockerfile").read_text()


def test_no_lock_is_left_out_here() -> None:
    assert {path.name for path in DEPLOY.glob("*.lock")} == {*LOCKS, *MATRIX}


def test_the_ends_of_what_workers_run_with_are_locked() -> None:
    oldest, newest = (dict(pins(column.lock)) for column in (COLUMNS[0], COLUMNS[-1]))
    for wanted in map(Requirement, SMALL["project"]["dependencies"]):
        assert wanted.specifier.contains(oldest[wanted.name]), wanted
        assert wanted.specifier.contains(newest[wanted.name]), wanted
        assert dict(pins(LOCKS[0]))[wanted.name] == newest[wanted.name]
    assert (oldest["celery"], oldest["kombu"], oldest["redis"]) == ("5.4.0", "5.4.2", "5.2.1")
    assert not {"numpy", "sqlalchemy", "fastapi", "flower"} & {*oldest, *newest}


def test_the_pages_name_the_versions_that_the_matrix_tests() -> None:
    celery, python = celery_releases(), pythons()
    rows = [line for line in (MANUAL / "workers.md").read_text().splitlines() if re.match(r"\| \d", line)]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == celery
    for release, row in zip(celery, rows, strict=True):
        pinned = dict(pins(f"matrix-celery-{release}.lock"))
        tested = f"Celery {pinned['celery']}, kombu {pinned['kombu']}, redis-py {pinned['redis']}"
        assert row.startswith(f"| {release} | {tested} | {', '.join(python)} | {', '.join(POOLS)}")
        assert pinned["celery"].startswith(f"{release}.")
        assert ("celery-batches" in pinned) != ("no celery-batches" in row)
    readme = f"Python {python[0]} to {python[-1]}, Celery {celery[0]} to {celery[-1]}, redis-py 5 or later"
    assert readme in (REPOSITORY / "README.md").read_text()


def test_the_page_names_the_ends_of_django_that_are_tested() -> None:
    oldest, newest = (dict(pins(lock))["django"] for lock in ("matrix-django-4.2.lock", LOCKS[1]))
    ends = [version.rpartition(".")[0] for version in (oldest, newest)]
    assert f"Django {' to '.join(ends)} are supported" in (MANUAL / "django.md").read_text()
    assert {f"Framework :: Django :: {end}" for end in ends} <= set(SMALL["project"]["classifiers"])


@pytest.mark.parametrize("program", ["__main__.py", "ci_programs.py", "environments.py", "release.py"])
def test_the_two_commands_need_only_the_standard_library(program: str) -> None:
    tree = ast.parse((DEPLOY / program).read_text())
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert imported <= set(sys.stdlib_module_names) | {"ci_programs", "environments", "release"}


def test_without_arguments_the_commands_are_explained() -> None:
    done = _deploy()
    assert done.returncode == 0
    assert "python3 deploy up" in done.stdout
    assert "python3 deploy test" in done.stdout


def test_an_unknown_command_is_wrong_usage() -> None:
    done = _deploy("fly")
    assert done.returncode == 2
    assert "no command 'fly'" in done.stderr


def test_an_older_python_is_told_so() -> None:
    program = (DEPLOY / "__main__.py").read_text()
    pretended = f"import sys; sys.version_info = (3, 9, 2); exec(compile({program!r}, 'deploy', 'exec'))"
    done = subprocess.run([sys.executable, "-c", pretended], capture_output=True, text=True)
    assert done.returncode == 1
    assert "needs Python 3.11 or later; this is 3.9" in done.stderr


def test_the_version_of_the_program_is_the_projects() -> None:
    assert PROJECT["project"]["version"] == SMALL["project"]["version"] == version.VERSION == small.VERSION


def test_both_distributions_bear_the_licence() -> None:
    assert (REPOSITORY / "workers" / "LICENSE").read_text() == (REPOSITORY / "LICENSE").read_text()


def _deploy(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, str(Path("deploy")), *words], cwd=REPOSITORY, capture_output=True, text=True)
