"""Rules of each file in deploy/ and each page: it parses, names real settings, and nothing of its author's machine."""

import json
import re
import socket
from pathlib import Path

import pytest

from scheduler_service.config.settings import OTHER_NAMES, Settings
from tests.support.manifests import DEPLOY, documents, is_pinned
from tests.support.processes import MANUAL, REPOSITORY

KINDS = {".py", ".yaml", ".yml", ".json", ".md", ".service", ".example", ".dockerignore"}
FILES = [path for path in sorted(DEPLOY.rglob("*")) if path.suffix in KINDS or path.name == "Dockerfile"]
FILES = [path for path in FILES if not any(part.startswith(".") for part in path.relative_to(DEPLOY).parts)]
FILES += [REPOSITORY / "README.md", *sorted(MANUAL.glob("*.md"))]
NAMES = [str(path.relative_to(REPOSITORY)) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_file_parses_and_names_only_settings_that_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.suffix in (".yaml", ".yml") and path.name != "alerts_test.yml":
        assert documents(path)
    if path.suffix == ".json":
        json.loads(text)
    known = {name.upper() for name in Settings.model_fields} | OTHER_NAMES | {"IMAGE"}
    assert set(re.findall(r"\bITINERARY_([A-Z_]+[A-Z])\b", text)) <= known


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_file_knows_nothing_of_the_machine_that_it_was_written_on(path: Path) -> None:
    text = path.read_text("utf-8")
    assert str(REPOSITORY) not in text
    assert f"{Path.home()}/" not in text
    assert socket.gethostname() not in text
    assert not re.search(r":latest\b", text)


def test_a_floating_image_is_not_taken_for_a_pinned_one() -> None:
    for image in ("redis", "redis:latest", "redis:8", "registry.example.org:5000/redis"):
        assert not is_pinned(image)
    assert is_pinned("registry.example.org:5000/redis:8.2.1-bookworm")


def test_the_tuning_table_tells_the_defaults_of_the_program() -> None:
    rows = re.findall(r"^\| `ITINERARY_(\w+)` \| (\w+) \|", (MANUAL / "tuning.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) >= 10
    shown = Settings().model_dump(mode="json")
    assert {name: str(shown[name.lower()] or "none") for name, _ in rows} == dict(rows)
