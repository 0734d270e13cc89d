"""The developer's pages name files, functions, tests and threads that are there, and miss no command of the leader."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from scheduler_service.core.balancing.balancer import Balancer
from scheduler_service.core.balancing.placements import BalancerCommand
from scheduler_service.core.leader.commands import (
    BrokerCommand,
    BuildIndex,
    Command,
    Publish,
    RereadInbox,
    StoreCommand,
)
from scheduler_service.core.leader.results import Feedback
from scheduler_service.loops.broker_thread import BrokerThread
from scheduler_service.loops.publisher import Publisher
from scheduler_service.loops.store_writer import StoreWriter
from scheduler_service.loops.write_groups import DispatchCommand
from scheduler_service.ports.stores import LeaderStore
from tests.mutants.listed import mutants
from tests.support.processes import REPOSITORY
from tests.support.syntax import nodes

GUIDE = REPOSITORY / "CONTRIBUTING.md"
PAGES = [REPOSITORY / "ARCHITECTURE.md", GUIDE, REPOSITORY / "scheduler_service" / "manual" / "decisions.md"]
ROOTS = [REPOSITORY, REPOSITORY / "scheduler_service", REPOSITORY / "workers", REPOSITORY / "tests"]
CODE = ("scheduler_service", "workers", "alembic", "tests/support")
# Words of a page that no code has: tools, SQL, and how numbers of the core are counted.
OTHER_WORDS = {"INFO", "UPDATE", "pytest"}

NAMED = re.compile(r"([\w./-]+\.\w+): ([\w.]+)")
TEST = re.compile(r"([\w./-]+\.py)::(test_\w+)")
PATH = re.compile(r"\.?[\w-][\w./-]*/[\w./-]*|\.?[\w-]+\.(?:py|md|toml|yml|yaml|json|css|html)")
WORD = re.compile(r"[A-Za-z_][\w.]*(?=\(.*\)$|$)")


def spans(page: Path) -> list[str]:
    """What stands between backticks, outside of blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return sorted(set(re.findall(r"`([^`]+)`", text)))


def found(path: str) -> Path | None:
    """The file or folder that a page means by this path."""
    return next((root / path for root in ROOTS if (root / path).exists()), None)


def own_name(node: ast.AST) -> str | None:
    """The name that the code gives to something here."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.arg(arg=name):
            return name
        case ast.alias(name=name, asname=None):
            return name.rpartition(".")[2]
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return None


def defined(tree: ast.AST) -> Iterator[str]:
    """Every name that the code gives to something, those of a class with the class before them too."""
    for node in nodes(tree):
        if (name := own_name(node)) is not None:
            yield name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{own}" for part in node.body for own in defined(part) if "." not in own)


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names that one file defines."""
    return frozenset(defined(ast.parse(path.read_text("utf-8"))))


@cache
def known() -> frozenset[str]:
    """All names that the code defines, and all texts that it holds."""
    names = set(OTHER_WORDS)
    for folder in CODE:
        for path in (REPOSITORY / folder).rglob("*.py"):
            for node in nodes(ast.parse(path.read_text("utf-8"))):
                name = node.value if isinstance(node, ast.Constant) else own_name(node)
                if isinstance(name, str):
                    names.add(name)
    return frozenset(names)


def wrong(span: str) -> str | None:
    """What is wrong with one name of a page; None where it is there, or is no name."""
    if parts := TEST.fullmatch(span):
        file, test = parts.groups()
        path = found(f"tests/{file.removeprefix('tests/')}")
        return None if path and re.search(rf"\bdef {test}\(", path.read_text("utf-8")) else "there is no such test"
    if parts := NAMED.fullmatch(span):
        file, name = parts.groups()
        path = found(file)
        if path is None:
            return "there is no such file"
        return None if name in names_in(path) else f"{file} has no {name}"
    if PATH.fullmatch(span):
        return None if found(span) else "there is no such file"
    if parts := WORD.fullmatch(span) or WORD.match(span):
        if parts[0] not in (span, span.partition("(")[0]):
            return None  # a line of code or of a shell
        unknown = [name for name in parts[0].split(".") if name not in known() and found(name) is None]
        return f"no code knows {unknown}" if unknown else None
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_stands_in_backticks_is_there(page: Path) -> None:
    assert {span: words for span in spans(page) if (words := wrong(span))} == {}


@pytest.mark.parametrize(
    "span",
    [
        "core/leader/nowhere.py",
        "core/nowhere/",
        "core/policies.py: decide_nothing",
        "core/leader/state.py: Step.nothing",
        "core/leader/test_leading.py::test_nothing",
        "decide_nothing",
        "iterate_nothing(state)",
        "Step.decide_nothing",
    ],
)
def test_a_name_that_is_not_there_is_found(span: str) -> None:
    assert wrong(span)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading of the guide."""
    section = GUIDE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.+) \|$", section, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def ticked(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def names_of(union: Any) -> set[str]:
    return {kind.__name__ for kind in get_args(union) or (union,)}


FEEDBACK = names_of(Feedback)
COMMANDS = {
    command.strip("`"): (thread, ticked(result)) for command, _, thread, _, result in rows("Commands of the leader")
}
THREADS = {
    "run-mover": names_of(DispatchCommand),
    "run-syncer": names_of(StoreCommand) - names_of(DispatchCommand),
    "dispatcher": {Publish.__name__},
    "redis-asker": names_of(BrokerCommand),
    "balancer": names_of(BalancerCommand),
    "index-builder": names_of(BuildIndex),
    "inbox-reader": names_of(RereadInbox),
}


def test_a_page_that_the_code_names_is_there() -> None:
    files = (file for folder in ("scheduler_service", "workers") for file in (REPOSITORY / folder).rglob("*.py"))
    named = {(file.name, page) for file in files for page in re.findall(r"[\w./-]+\.md\b", file.read_text("utf-8"))}
    assert [(file, page) for file, page in sorted(named) if not found(page)] == []


def test_every_command_of_the_leader_stands_in_the_table_with_its_thread() -> None:
    assert set(COMMANDS) == names_of(Command)
    assert {thread: {name for name, (of, _) in COMMANDS.items() if of == thread} for thread in THREADS} == THREADS
    loops = "".join(path.read_text("utf-8") for path in (REPOSITORY / "scheduler_service" / "loops").glob("*.py"))
    assert {thread for thread in THREADS if f'"{thread}"' not in loops} == set()


def results(owner: type) -> dict[str, set[str]]:
    """Of each command that the class tells apart by `match`, the messages that come of it."""
    (body,) = ast.parse(inspect.getsource(owner)).body
    methods = {part.name: part for part in ast.walk(body) if isinstance(part, ast.FunctionDef)}

    def told(nodes: list[ast.stmt]) -> Iterator[str]:
        for node in (part for statement in nodes for part in ast.walk(statement)):
            if isinstance(node, ast.Name) and node.id in FEEDBACK:
                yield node.id
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                own = methods.get(node.func.attr)
                if own is not None and not any(isinstance(part, ast.Match) for part in ast.walk(own)):
                    yield from told(own.body)
                asked = getattr(LeaderStore, node.func.attr, None) if owner is StoreWriter else None
                if asked is not None:
                    yield from FEEDBACK & set(re.findall(r"\w+", str(inspect.signature(asked).return_annotation)))

    found: dict[str, set[str]] = {}
    for case in (part for part in ast.walk(body) if isinstance(part, ast.match_case)):
        for pattern in (part for part in ast.walk(case.pattern) if isinstance(part, ast.MatchClass)):
            found.setdefault(ast.unparse(pattern.cls), set()).update(told(case.body))
    return found


def test_every_command_of_the_leader_stands_in_the_table_with_what_comes_of_it() -> None:
    assert all(told <= FEEDBACK for _, told in COMMANDS.values())
    publishing = FEEDBACK & set(re.findall(r"\w+", inspect.getsource(Publisher)))
    code = results(StoreWriter) | results(BrokerThread) | results(Balancer) | {Publish.__name__: publishing}
    table = {name: told for name, (_, told) in COMMANDS.items() if name not in names_of(BuildIndex | RereadInbox)}
    assert {name: code[name] for name in table} == table


def test_every_message_that_the_loop_is_given_stands_in_the_guide() -> None:
    section = GUIDE.read_text("utf-8").partition("\n## Commands of the leader\n")[2].partition("\n## ")[0]
    assert FEEDBACK - ticked(section) == set()


def test_the_table_of_tests_has_every_module_of_the_leader_and_what_its_mutants_run() -> None:
    table = {
        module: ticked(tests) for modules, tests in rows("Which tests hold which module") for module in ticked(modules)
    }
    core = REPOSITORY / "scheduler_service"
    leader = {path.relative_to(core).as_posix() for path in (core / "core/leader").rglob("[a-z]*.py")}
    assert leader - set(table) == set()
    for mutant in mutants([]):
        module = mutant.path.removeprefix("scheduler_service/").removeprefix("workers/")
        wanted = {test.partition("::")[0].removeprefix("tests/") for test in mutant.tests}
        assert module not in table or wanted <= table[module], f"{module}: add {sorted(wanted - table[module])}"
