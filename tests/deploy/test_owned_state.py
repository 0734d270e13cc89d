"""Each part of the leader's state has one writer: `core/leader/parts/NAME.py` writes the part NAME, in its methods."""

import ast
from collections.abc import Iterator
from dataclasses import fields

import pytest

from scheduler_service.core.leader.state import SchedulerState
from tests.support.processes import REPOSITORY

LEADER = REPOSITORY / "scheduler_service/core/leader"
READERS = (LEADER, REPOSITORY / "scheduler_service/loops", REPOSITORY / "scheduler_service/metrics")
NEVER_WRITTEN = {"settings", "term", "since"}
OF_THE_LOOP = {"last_iteration_at", "stopping", "draining"}
OF_THE_INDEX = {"index"}
CHANGING = frozenset({
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "setdefault", "sort", "subtract",
    "symmetric_difference_update", "update",
})  # fmt: skip
HEAP_FUNCTIONS = frozenset({"heappush", "heappop", "heapify", "heapreplace", "heappushpop"})
Path = tuple[str, ...]


class Paths:
    """The place in the state that each local name of a function stands for."""

    def __init__(self, function: ast.AST, root: str) -> None:
        self._of_name: dict[str, Path] = {root: ()}
        before = 0
        while before != len(self._of_name):  # a name may stand for a part of what another one stands for
            before = len(self._of_name)
            for node in ast.walk(function):
                for target, value in bindings(node):
                    if isinstance(target, ast.Name) and (path := self.of(value)) is not None:
                        self._of_name.setdefault(target.id, path)

    def of(self, node: ast.AST) -> Path | None:
        """The path of an expression below the state; None for one that is no part of it."""
        match node:
            case ast.Name(id=name):
                return self._of_name.get(name)
            case ast.Attribute(value=value, attr=attr):
                return None if (path := self.of(value)) is None else (*path, attr)
            case ast.Subscript(value=value) | ast.Call(func=ast.Attribute() as value):
                return self.of(value)
        return None


def bindings(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The pairs of target and value of one statement; the items of a loop stand for what it goes through."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from zip(targets, values, strict=True)
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield target, value


def changed(node: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    """What a node changes, and how deep below the state it must lie: a call that deep is one of a container."""
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            yield node, 1
        case ast.Call(func=ast.Attribute(value=held, attr=attr)) if attr in CHANGING:
            yield held, 2
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[held, *_]) if name in HEAP_FUNCTIONS:
            yield held, 2


def written(source: str, root: str = "state") -> set[str]:
    """What of the state these functions write, as `part.attribute` or a field of its own."""
    found = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            paths = Paths(function, root)
            for node in ast.walk(function):
                for held, depth in changed(node):
                    path = paths.of(held)
                    if path is not None and len(path) >= depth:
                        found.add(".".join(path[:2]))
    return found


def test_each_part_lies_in_the_file_of_its_name() -> None:
    parts = {one.name: one.type for one in fields(SchedulerState)}
    for name in NEVER_WRITTEN | OF_THE_LOOP | OF_THE_INDEX:
        del parts[name]
    elsewhere = {name: kind for name, kind in parts.items() if kind.__module__.rpartition(".")[2] != name}  # type: ignore[union-attr]
    assert elsewhere == {}
    files = {path.stem for path in (LEADER / "parts").glob("[a-z]*.py")}
    assert files == set(parts), "a file of `parts` is a part"


def test_only_its_own_file_writes_a_part() -> None:
    for folder in READERS:
        for path in folder.glob("*.py"):
            allowed = OF_THE_LOOP if path == LEADER / "iteration.py" else set()
            root = "self" if path == LEADER / "state.py" else "state"
            found = written(path.read_text("utf-8"), root) - allowed
            assert not found, f"{path.name} writes {sorted(found)}: give the part a method that does it"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("state.planned.cursor = 5", {"planned.cursor"}),
        ("state.numbers.last += 1", {"numbers.last"}),
        ("state.planned, now = other, 5", {"planned"}),
        ("state.stopping = True", {"stopping"}),
        ("state.due.heap.append((0, 'a'))", {"due.heap"}),
        ("heapq.heappush(state.due.heap, (0, 'a'))", {"due.heap"}),
        ("del state.workers.by_name['w']", {"workers.by_name"}),
        ("state.dispatches.waiting.setdefault('q', []).append(1)", {"dispatches.waiting"}),
        ("present = state.epoch; present.gathering = None", {"epoch.gathering"}),
        ("known, now = state.workers.by_name, 5; known['w'] = view", {"workers.by_name"}),
        ("held = state.held.of('a'); held.append('b')", {"held.of"}),
        ("[heap.clear() for heap in state.dispatches.waiting.values()]", {"dispatches.waiting"}),
        ("if (seen := state.polls.overdue): seen._after = None", {"polls.overdue"}),
        ("state.held.drop('a', ()); state.counts.add('lost')", set()),
        ("if state.stopping: found = list(state.runs); found.append(1)", set()),
    ],
)
def test_a_write_is_seen_where_there_is_one(line: str, what: set[str]) -> None:
    assert written(f"def act(state):\n    {line}\n") == what
