"""The deployment files as values: YAML without surprises, settings as the program itself reads them."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_service.config.settings import PREFIX, Settings, load_settings
from tests.support.processes import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
COMMANDS = {"leader", "api", "worker", "flower", "migrate"}


class _Strict(yaml.CSafeLoader):
    """Refuses a key that is given twice: plain YAML silently takes the last."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> Any:
    keys = [key.value for key, _ in node.value]
    twice = {key for key in keys if keys.count(key) > 1}
    assert not twice, f"{twice} twice, line {node.start_mark.line + 1}"
    loader.flatten_mapping(node)  # `<<` of compose files
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor("tag:yaml.org,2002:map", _mapping)


def documents(path: Path) -> list[dict[str, Any]]:
    """All documents of a YAML file."""
    return [document for document in yaml.load_all(path.read_text(), _Strict) if document is not None]


def read_env(path: Path) -> dict[str, str]:
    """The lines of an env file, those commented out too: an example shows every variable that may be set."""
    return dict(re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", path.read_text(), re.MULTILINE))


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """Compose's `${NAME:-default}` and `${NAME:?error}`, nothing else of it."""

    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if values.get(name):
            return values[name]
        if kind == ":?":
            raise KeyError(f"{name}: {rest}")
        return rest or ""

    return re.sub(r"\$\{(\w+)(:[-?])?([^}]*)\}", value, text)


def settings_of(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What the program makes of these variables; BadValues where it would refuse to start."""
    with monkeypatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            patch.delenv(name)
        for name, given in environment.items():
            if name.startswith(PREFIX):
                patch.setenv(name, given)
        return load_settings()


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of nested mappings and lists, with where it is."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from walk(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from walk(inner, f"{path}[{number}]")
    else:
        yield path, value


def is_pinned(image: str) -> bool:
    """Whether an image is named with a full version or a digest, never `latest`."""
    _, _, tag = image.rpartition("/")[2].partition(":")
    return "@sha256:" in image or bool(re.match(r"v?\d+\.\d+(\.\d+)?(-[\w.-]+)?$", tag))
