"""The page of generated clients: each command and program of it as it stands, against a whole `itinerary up`."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fresh_environment import CannotInstall, of_lock, skip_without_a_registry
from tests.support.matrix import WHOLE
from tests.support.processes import MANUAL, REPOSITORY
from tests.support.running import Running

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

PAGE = (MANUAL / "other-languages.md").read_text("utf-8")
LOCKED = REPOSITORY / "tests" / "e2e" / "typescript"
GO_LOCK = "matrix-go.lock"
NO_REGISTRY = "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|E40[34]"
SAID = [
    'state completed result {"args":[],"kwargs":{"message":"hello"}}', "job LANGUAGE.report 25m", "listed true",
]  # fmt: skip
REFUSED_BY_TYPE = """
// @ts-expect-error
const hourly: components["schemas"]["Schedule"] = { kind: "hourly", every: "25m" };
"""
REFUSED = "refused 422 priority - priority: 11 is not accepted"


def blocks(heading: str, language: str) -> list[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def api_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Running(tmp_path_factory.mktemp("up") / ".itinerary") as up:
        yield up.written["api_url"]


def run(folder: Path, commands: str, path: str | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {"HOME": os.environ.get("HOME", str(folder)), "PATH": path or os.environ["PATH"], **settings}
    words = ["sh", "-eu", "-c", commands]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)


def said(ended: subprocess.CompletedProcess[str], language: str) -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[-4:-1] == [line.replace("LANGUAGE", language) for line in SAID]
    assert lines[-1].startswith(REFUSED)


@pytest.mark.skipif(shutil.which("npm") is None or shutil.which("curl") is None, reason="needs npm and curl")
def test_the_typescript_client_is_generated_checked_and_run(api_url: str, tmp_path: Path) -> None:
    install, generate = blocks("TypeScript", "sh")
    package = json.loads((LOCKED / "package.json").read_text())
    pinned = package["dependencies"] | package["devDependencies"]
    assert {word for word in install.split() if "@" in word} == {"@".join(pin) for pin in pinned.items()}
    shutil.copytree(LOCKED, tmp_path, dirs_exist_ok=True)
    installed = run(tmp_path, "npm ci --prefer-offline --no-audit --no-fund --fetch-retries 1")
    if installed.returncode and re.search(NO_REGISTRY, installed.stderr):
        pytest.skip(f"no registry gives what this needs: {installed.stderr.splitlines()[0]}")
    assert installed.returncode == 0, installed.stderr
    (tmp_path / "main.ts").write_text(blocks("TypeScript", "ts")[0] + REFUSED_BY_TYPE)
    said(run(tmp_path, generate, ITINERARY_API_URL=api_url), "ts")


@pytest.fixture
def path_with_go(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH with Go and the generator: the machine's, or for the whole matrix those of the lock."""
    path = os.environ["PATH"]
    if not shutil.which("java"):
        pytest.skip("needs Java")
    if WHOLE:
        try:
            path = f"{of_lock(tmp_path_factory, GO_LOCK).home / 'bin'}{os.pathsep}{path}"
        except CannotInstall as exc:
            skip_without_a_registry(exc)
    elif not (shutil.which("go") and shutil.which("openapi-generator-cli")):
        pytest.skip("needs go and openapi-generator-cli: `python3 deploy test --matrix -k go_client` brings them")
    return path


def test_the_go_client_is_generated_checked_and_run(api_url: str, tmp_path: Path, path_with_go: str) -> None:
    install, generate = blocks("Go", "sh")
    assert f"{install.split()[-1]} \\\n" in (REPOSITORY / "deploy" / GO_LOCK).read_text()
    (tmp_path / "main.go").write_text(blocks("Go", "go")[0])
    alone = {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "CGO_ENABLED": "0"}
    said(run(tmp_path, generate, path_with_go, ITINERARY_API_URL=api_url, **alone), "go")
