"""Job files as text: TOML, YAML and JSON, read and written.

Promises: a written value is read back equal, or refused if the format cannot represent it (TOML has no null). YAML
follows YAML 1.2: `on` is a text, 10:30 is no number, and duplicate keys are errors.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final, Literal

import yaml  # type: ignore[import-untyped]

from itinerary.protocol.errors import BadValue

Format = Literal["toml", "yaml", "json"]
FORMATS: Final[Mapping[str, Format]] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_TEXT_KEYS: Final = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
MOST_NODES: Final = 500_000
MOST_ALIASES: Final = 1_000
MOST_LEVELS: Final = 100
# tomllib stores each prefix of a dotted key, so memory grows with the square of its length.
_LONG_TOML_KEY: Final = re.compile(
    rf"""(?:^|[\[{{,])[ \t]*(?:(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MOST_LEVELS},}}""", re.MULTILINE
)
NO_MONITORS: Final[Mapping[str, Mapping[str, Any]]] = {}
_LINE_ENDS: Final = re.compile("[\x85\u2028\u2029\ufeff]")
_NUMBERS: Final = list("-+0123456789.")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Safe, with the scalars of YAML 1.2's core schema."""

    yaml_implicit_resolvers: Final[dict[str, Any]] = {}
    _aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose as PyYAML does, with a bound on the number of aliases."""
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > MOST_ALIASES:
                raise yaml.composer.ComposerError(None, None, f"at most {MOST_ALIASES:,} aliases", None)
        return super().compose_node(parent, index)

    def get_single_data(self) -> Any:
        """Load as PyYAML does, after checking that the expanded aliases stay small."""
        node = self.get_single_node()
        if node is None:
            return None
        _check_size(node)
        return self.construct_document(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct as PyYAML does, but keys must be unique texts."""
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key_node.tag not in _TEXT_KEYS or key in seen:
                why = f"the key {key!r} twice" if key in seen else f"a key is a text, not {key!r}: quote it"
                raise yaml.constructor.ConstructorError(None, None, why, key_node.start_mark)
            seen.add(key)
        created: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return created


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML has no types
    """Safe; quotes every text that YAML 1.1 or 1.2 would read as another type."""


def _quoted_where_odd(dumper: Any, text: str) -> Any:
    """Quote texts with Unicode line ends: PyYAML folds them unless double quotes escape them."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _LINE_ENDS.search(text) else None)


_Dumper.add_representer(str, _quoted_where_odd)
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:merge", r"<<", ["<"]),
    ("tag:yaml.org,2002:bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("tag:yaml.org,2002:null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+", _NUMBERS),
    ("tag:yaml.org,2002:float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", _NUMBERS),
):
    for _kind in (_Loader, _Dumper):
        _kind.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node)))
_Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node)))


def _check_size(root: Any) -> None:
    """Raise ComposerError if the document, with its aliases expanded, is too large, too deep, or contains itself."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        node, seen_below = waiting.pop()
        children = _children(node)
        if seen_below:
            open_nodes.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            if sizes[id(node)] > MOST_NODES:
                raise yaml.composer.ComposerError(None, None, f"at most {MOST_NODES:,} values", node.start_mark)
        elif id(node) in open_nodes:
            raise yaml.composer.ComposerError(None, None, "an alias stands within what it names", node.start_mark)
        elif id(node) not in sizes:
            open_nodes.add(id(node))
            if len(open_nodes) > MOST_LEVELS:
                raise yaml.composer.ComposerError(None, None, f"at most {MOST_LEVELS} levels", node.start_mark)
            waiting.append((node, True))
            waiting += [(child, False) for child in children]


def _children(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def read_text_as(kind: Format, text: str) -> dict[str, Any]:
    """Parse the text's mapping; BadValue with the place of the error. Dates become RFC 3339 texts."""
    try:
        match kind:
            case "toml":
                if _LONG_TOML_KEY.search(text):
                    raise ValueError(f"a key may have {MOST_LEVELS} parts")
                value: Any = _dated(tomllib.loads(text))
            case "yaml":
                value = yaml.load(text, Loader=_Loader)
            case "json":
                value = json.loads(text, object_pairs_hook=_unique)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError) as exc:
        raise BadValue("file", "...", f"give {kind.upper()} ({' '.join(str(exc).split())})") from exc
    if not isinstance(value, dict):
        raise BadValue("file", type(value).__name__, "give a table with the key `jobs`")
    return value


def write_text_as(
    kind: Format, source: str, jobs: list[dict[str, Any]], monitors: Mapping[str, Mapping[str, Any]] = NO_MONITORS
) -> str:
    """Write a file of these jobs, and monitors by id; BadValue for a value that the format cannot represent."""
    body = {"source": source, **({"monitors": monitors} if monitors else {}), "jobs": jobs}
    match kind:
        case "toml":
            return _toml(source, jobs, monitors)
        case "yaml":
            text: str = yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
            return text
        case "json":
            return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    created = dict(pairs)
    if len(created) < len(pairs):
        raise ValueError("duplicate key")
    return created


def _dated(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {key: _dated(item) for key, item in value.items()}
    return [_dated(item) for item in value] if isinstance(value, list) else value


def _toml(source: str, jobs: list[dict[str, Any]], monitors: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"source = {_toml_value(source, 'source')}", *([] if jobs else ["jobs = []"])]
    for job in jobs:
        lines += ["", "[[jobs]]"]
        lines += [f"{_toml_key(key)} = {_toml_value(value, _place(job, key))}" for key, value in job.items()]
    for name, monitor in monitors.items():
        lines += ["", f"[monitors.{_toml_key(name)}]"]
        lines += [f"{_toml_key(key)} = {_toml_value(value, f'{name}.{key}')}" for key, value in monitor.items()]
    return "\n".join(lines) + "\n"


def _place(job: Mapping[str, Any], key: str) -> str:
    return f"{job['job_id']}.{key}"


def _toml_value(value: Any, place: str) -> str:
    match value:
        case None:
            raise BadValue(place, None, "TOML has no null: use --format yaml or json")
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return _toml_text(value)
        case list():
            return f"[{', '.join(_toml_value(item, place) for item in value)}]"
        case dict():
            inner = ", ".join(f"{_toml_key(key)} = {_toml_value(item, place)}" for key, item in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case _:
            raise BadValue(place, value, "plain JSON values only")


def _toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _toml_text(key)
