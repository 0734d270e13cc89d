"""deploy/Dockerfile: its rules, and that what it copies is a whole program."""

import fnmatch
import json
import re
import shutil
import signal
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.version import VERSION
from scheduler_service.config.settings import Settings
from tests.support.manifests import COMMANDS, DEPLOY, is_pinned
from tests.support.processes import PATIENCE, REPOSITORY, Child, free_port, project_env, wait_until

TEXT = (DEPLOY / "Dockerfile").read_text()
IGNORED = (DEPLOY / "Dockerfile.dockerignore").read_text().split("\n")


def instructions() -> list[tuple[str, str]]:
    """Name and rest of each instruction, continued lines joined, comments left out."""
    lines = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


def final_stage() -> list[tuple[str, str]]:
    found = instructions()
    start = max(number for number, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def copied() -> list[tuple[str, str]]:
    """Source in the checkout and target of each COPY."""
    return [
        (source, target)
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source, target in [rest.split()]
    ]


def test_it_is_built_in_two_stages_upon_a_pinned_slim_image() -> None:
    image, lock = (rest.partition("=")[2] for name, rest in instructions() if name == "ARG")
    assert is_pinned(image)
    assert lock == "requirements.lock"
    assert "-slim-" in image
    assert [rest.split()[0] for name, rest in instructions() if name == "FROM"] == ["${PYTHON_IMAGE}"] * 2


def test_only_locked_wheels_are_installed() -> None:
    (install,) = re.findall(r"pip [^\n]*install[^\n]*", TEXT.replace("uninstall", ""))[:1]
    assert "--require-hashes" in install
    assert "--only-binary :all:" in install
    assert ("deploy/${LOCK}", "/tmp/requirements.lock") in copied()


def test_nothing_is_built_or_fetched_in_the_final_stage() -> None:
    said = " ".join(rest for _, rest in final_stage())
    assert not re.search(r"apt|curl|wget|gcc|\binstall\b", said)
    assert {name for name, _ in instructions()}.isdisjoint({"ADD", "MAINTAINER"})
    assert "pip uninstall" in said


def test_the_program_is_the_entrypoint_and_gets_the_signals_itself() -> None:
    stage = dict(final_stage())
    assert json.loads(stage["ENTRYPOINT"]) == ["itinerary"]
    assert json.loads(stage["CMD"])[0] in COMMANDS
    assert stage["STOPSIGNAL"] == "SIGTERM"
    probe = json.loads(stage["HEALTHCHECK"].partition("CMD ")[2])
    compile(probe[-1], "the health check", "exec")
    assert "/healthz" in probe[-1]


def test_nobody_in_the_container_is_root() -> None:
    user, group = dict(final_stage())["USER"].split(":")
    assert int(user) >= 10000
    assert int(group) >= 10000
    after = [name for name, _ in final_stage()]
    assert "RUN" not in after[after.index("USER") :]


def test_no_secret_is_built_in_and_every_setting_is_one() -> None:
    names = re.findall(r"ITINERARY_(\w+)=", " ".join(rest for name, rest in instructions() if name in ("ENV", "ARG")))
    assert set(names) <= {name.upper() for name in Settings.model_fields}
    assert not re.search(r"(?i)password|secret|token", TEXT)


def test_its_version_is_the_programs() -> None:
    assert f'image.version="{VERSION}"' in TEXT


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    assert "*" in IGNORED
    kept = {line[1:] for line in IGNORED if line.startswith("!")}
    locks = {"deploy/requirements.lock", "deploy/requirements-otel.lock"}
    assert kept == {source for source, _ in copied()} - {"deploy/${LOCK}"} | locks
    assert all((REPOSITORY / source).exists() for source in kept)


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """What the image has in /app, in a folder of its own."""
    left_out = [line.removeprefix("**/") for line in IGNORED if line.startswith("**/")]

    def ignore(_folder: str, names: list[str]) -> list[str]:
        return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in left_out)]

    for source, target in copied():
        if target.startswith("/app/"):
            place = tmp_path / target.removeprefix("/")
            place.parent.mkdir(exist_ok=True)
            whole = REPOSITORY / source
            shutil.copytree(whole, place, ignore=ignore) if whole.is_dir() else shutil.copy(whole, place)
    return tmp_path / "app"


@pytest.fixture
def api_url(unpacked: Path, tmp_path: Path) -> Iterator[str]:
    """The API of the unpacked program, on a database that it made itself."""
    port = free_port()
    env = project_env(
        ITINERARY_DATA_DIR=str(tmp_path / "data"), ITINERARY_API_PORT=str(port), PYTHONDONTWRITEBYTECODE="1"
    ) | {"PYTHONPATH": str(unpacked)}
    program = [sys.executable, "-c", "from scheduler_service.cli import main; main()"]
    with Child([*program, "migrate"], env=env, cwd=tmp_path) as migrate:
        assert migrate.wait() == 0, migrate.output
    with Child([*program, "api"], env=env, cwd=tmp_path) as api:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _status(f"{url}/healthz") == 200, what=lambda: api.output, every=0.1)
        yield url
        assert api.stop() in (0, -signal.SIGTERM)


@pytest.mark.slow
def test_what_the_image_holds_migrates_and_serves_pages_with_their_assets(api_url: str) -> None:
    with urllib.request.urlopen(api_url, timeout=PATIENCE) as answer:
        page = answer.read().decode()
    assets = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert assets
    assert all(_status(api_url + asset) == 200 for asset in assets)


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            status: int = answer.status
            return status
    except OSError:
        return 0
